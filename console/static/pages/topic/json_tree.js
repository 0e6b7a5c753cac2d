// JSON as a tree that opens and closes. Parts are made when they are opened, so that a large value costs little.

import { h, replace } from "../../core/dom.js";

const SHOWN = 200; // entries of one array or object
const OPEN_LEVELS = 2;

// Returns the tree of a JSON text; null if the text is not JSON.
export function jsonTree(text) {
  try {
    return h("div.tree.mono", node(null, JSON.parse(text, exact), 0));
  } catch {
    return null;
  }
}

// Numbers keep their digits where the browser tells them: JavaScript would round large ones, and write 30.0 as 30.
class Digits {
  constructor(text) {
    this.text = text;
  }
}

function exact(_, value, context) {
  const source = typeof value === "number" ? context?.source : null;
  return source && String(value) !== source ? new Digits(source) : value;
}

function node(name, value, level) {
  const label = name === null ? null : h("span.tree-name", `${name}: `);
  if (value === null || typeof value !== "object" || value instanceof Digits) return h("div.tree-leaf", label, leaf(value));
  const entries = Array.isArray(value) ? value.map((one, index) => [index, one]) : Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return h("div.tree-leaf", label, h("span.muted", Array.isArray(value) ? "[]" : "{}"));
  const inner = h("div.tree-inner");
  const details = h("details", { open: level < OPEN_LEVELS, ontoggle: fill }, h("summary", label, h("span.muted", size)), inner);
  let isFilled = false;
  function fill() {
    if (isFilled || !details.open) return;
    isFilled = true;
    show(SHOWN);
  }
  function show(limit) {
    const more = entries.length - limit;
    replace(inner, entries.slice(0, limit).map(([key, one]) => node(key, one, level + 1)),
      more > 0 && h("button.quiet", () => show(limit + 1000), `${more} more`));
  }
  fill();
  return details;
}

function leaf(value) {
  if (value instanceof Digits) return h("span.tree-number", value.text);
  if (typeof value === "string") return h("span.tree-text", JSON.stringify(value));
  return h("span.tree-number", String(value));
}
