// What could not be found out, above what is known.

import { h } from "/static/core/dom.js";

const SHOWN = 5;

export function problems(sentences) {
  if (!sentences.length) return null;
  const more = sentences.length - SHOWN;
  return h("div.notice", { role: "status" }, sentences.slice(0, SHOWN).map((one) => h("p", one)), more > 0 && h("p", `And ${more} more.`));
}
