// Short messages about what happened, with a link to it or a way back.

import { h } from "./dom.js";

const VISIBLE_MS = 8000;

// kind: "good" or "bad". link: { href, text }. undo: an action; undone: what is said after it. Errors stay until they are
// closed.
export function toast(text, { kind = "good", link = null, undo = null, undone = null } = {}) {
  const close = () => node.remove();
  const node = h(
    "div.toast",
    { "data-kind": kind },
    h("div.text", text, link && [" ", h("a", { href: link.href, onclick: close }, link.text)]),
    undo && h("button", { onclick: () => (close(), attempt(() => undo().catch(unlessLeft), undone)) }, "Undo"),
    h("button.quiet", { "aria-label": "Close", onclick: close }, "×"),
  );
  document.getElementById("toasts").append(node);
  if (kind !== "bad") setTimeout(close, VISIBLE_MS);
}

// A page that has been left cannot be drawn again, which does not keep an action from being undone.
function unlessLeft(error) {
  if (error.name !== "AbortError") throw error;
}

// Runs an action and says what went wrong. Returns whether it succeeded.
export async function attempt(action, done = null) {
  try {
    const found = await action();
    if (done) toast(typeof done === "function" ? done(found) : done);
    return true;
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, { kind: "bad" });
    return false;
  }
}
