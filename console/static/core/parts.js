// Parts that most pages have: the head, tabs, badges, facts, links, problems, tables that are not sorted, and what stands
// where content will be, cannot be, or is not.

import { address } from "./api.js";
import { h, replace } from "./dom.js";

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

// list: [[name, text], …]; the first is at `path` itself, the others are below it. The one of the current path is marked.
export function tabs(label, path, list) {
  return h("nav.tabs", { "aria-label": label }, list.map(([name, text], index) => {
    const named = `${path}/${name}`;
    const href = index || location.pathname === named ? named : path;
    return h("a", { href, "aria-current": href === location.pathname ? "page" : null }, text);
  }));
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
  const button = h("button.quiet", copy, label);
  async function copy() {
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  }
  return button;
}

export const brokerLink = (id) => h("a", { href: `/brokers/${id}` }, `Broker ${id}`);
export const groupLink = (id) => h("a", { href: address`/groups/${id}` }, id);
export const partitionName = ({ topic, partition }) => `${topic}-${partition}`;
export const partitionLink = (one) => h("a", { href: address`/topics/${one.topic}` }, partitionName(one));

// The column of a table whose rows have `topic` and `partition`.
export const PARTITION = { key: "partition", label: "Partition", head: true, value: partitionName, cell: partitionLink };

// A part of a page with a heading.
export const section = (title, ...content) => h("section.card.stack", { "aria-label": title }, h("h2", title), content);

const PROBLEMS_SHOWN = 5;

// What could not be found out, above what is known.
export function problems(sentences) {
  if (!sentences.length) return null;
  const more = sentences.length - PROBLEMS_SHOWN;
  return h("div.notice", { role: "status" }, sentences.slice(0, PROBLEMS_SHOWN).map((one) => h("p", one)), more > 0 && h("p", `And ${more} more.`));
}

// A table whose rows are all shown, as they are given in `body`. heads: texts, or [text, class]; "" for a column without a
// name.
export function plainTable(caption, heads, body) {
  const head = ([text, kind]) => (text ? h("th", { scope: "col", class: kind }, text) : h("td"));
  return h("div.table-wrap", { tabindex: "0", role: "group", "aria-label": caption },
    h("table", h("caption.visually-hidden", caption), h("thead", h("tr", heads.map((one) => head([one].flat())))), body));
}

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
    retry && error.status !== BAD_REQUEST && h("p", h("button", retry, "Try again")),
  );
}

export function empty(title, ...content) {
  return h("div.empty", h("h3", title), content);
}

// Stands for a page about something that is not there: which, why, and the way back to what is there.
export function absent(title, why, href, text) {
  return h("div.empty", h("h1", title), h("p", why), h("p", h("a", { href }, text)));
}
