// Parts that most pages have: the head, tabs, badges, facts.

import { h } from "/static/core/dom.js";

// crumbs: links to where the page belongs, as { href, text }. Returns the head; `actions` are buttons at its end.
export function pageHead(title, { crumbs = [], actions = [], badge = null } = {}) {
  return h(
    "header.page-head",
    h("div",
      crumbs.length > 0 && h("p.crumbs", crumbs.map(({ href, text }) => [h("a", { href }, text), " / "])),
      h("h1", title)),
    badge,
    h("div.actions", actions),
  );
}

// tabs: [{ href, text }]; the one of the current path is marked.
export function tabs(label, list) {
  return h("nav.tabs", { "aria-label": label }, list.map(({ href, text }) =>
    h("a", { href, "aria-current": new URL(href, location.href).pathname === location.pathname ? "page" : null }, text)));
}

// kind: "good", "warn", "bad", "accent" or "".
export function badge(text, kind = "") {
  return h("span.badge", { "data-kind": kind || null }, text);
}

// facts: [[name, text or node], …].
export function facts(list) {
  return h("dl.facts", list.map(([name, value]) => h("div", h("dt", name), h("dd", value))));
}

export function copyButton(text, label = "Copy") {
  const button = h("button.quiet", { type: "button", onclick: copy }, label);
  async function copy() {
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  }
  return button;
}
