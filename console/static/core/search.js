// Search by words: all of them must be there, in any order.

import { h } from "./dom.js";
import { setQuery } from "./router.js";

// Returns the function that tells whether a text has all words of another.
export function matcher(wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => words.every((word) => text.toLowerCase().includes(word));
}

// A field whose words are in the query (`q`): { node, matcher(): the function that tells whether a text has them }.
export function searchField(view, label, { placeholder = label, grows = false } = {}) {
  const asked = () => view.query.get("q") ?? "";
  const node = h("input", { type: "search", class: grows && "grow", placeholder, "aria-label": label, value: asked(), oninput: () => setQuery({ q: node.value }) });
  return {
    node,
    matcher() {
      if (node.value !== asked()) node.value = asked();
      return matcher(asked());
    },
  };
}
