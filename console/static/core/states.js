// What stands where content will be, cannot be, or is not.

import { h, replace } from "/static/core/dom.js";

const LOADING_AFTER_MS = 200;

// Shows that something loads, if it takes longer than a moment. Returns the function that ends it.
export function loading(node, text = "Loading…") {
  const timer = setTimeout(() => replace(node, h("p.loading", { role: "status" }, text)), LOADING_AFTER_MS);
  return () => clearTimeout(timer);
}

const BAD_REQUEST = 400;

// What could not be shown, and why. A cluster that does not have something (400) will not have it at the next try either.
export function failed(error, retry) {
  return h(
    "div.notice",
    { "data-kind": "bad", role: "alert" },
    h("p", error.message || String(error)),
    retry && error.status !== BAD_REQUEST && h("p", h("button", { onclick: retry }, "Try again")),
  );
}

export function empty(title, ...content) {
  return h("div.empty", h("h3", title), content);
}
