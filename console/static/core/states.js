// What stands where content will be, cannot be, or is not.

import { h, replace } from "/static/core/dom.js";

const LOADING_AFTER_MS = 200;

// Shows that something loads, if it takes longer than a moment. Returns the function that ends it.
export function loading(node, text = "Loading…") {
  const timer = setTimeout(() => replace(node, h("p", { class: "loading", role: "status" }, text)), LOADING_AFTER_MS);
  return () => clearTimeout(timer);
}

export function failed(error, retry) {
  return h(
    "div",
    { class: "notice", "data-kind": "bad", role: "alert" },
    h("p", {}, error.message || String(error)),
    retry && h("p", {}, h("button", { type: "button", onclick: retry }, "Try again")),
  );
}

export function empty(title, ...content) {
  return h("div", { class: "empty" }, h("h3", {}, title), content);
}
