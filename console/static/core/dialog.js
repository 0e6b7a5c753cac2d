// Modal dialogs: a form with an action, and a question before an action that destroys something.

import { h, newId, replace, setAttribute, textInput } from "./dom.js";
import { failed } from "./parts.js";

// Shows a form. submit: called with the form's FormData; the dialog closes when it returns, unless it returns false, and
// shows the error if it throws. kind: "danger" for actions that destroy. Returns the dialog's element; `closed` runs when
// it is closed.
export function formDialog({ title, content, action, submit, kind = "", large = false, closed = () => {} }) {
  const problem = h("div");
  const button = h("button", { class: `primary ${kind}` }, action);
  const label = newId("dialog");
  const form = h(
    "form",
    { method: "dialog", onsubmit: send },
    h("h2", { id: label }, title),
    content,
    problem,
    h("div.actions", h("button", close, "Cancel"), button),
  );
  const dialog = h("dialog", { class: large ? "large" : null, "aria-labelledby": label, onclose: end }, form);

  function send(event) {
    event.preventDefault();
    act(button, problem, async () => {
      if ((await submit(new FormData(form))) !== false) close();
    });
  }

  // The event of a closed dialog comes a moment later: until then the page would take it for open, or open it again.
  function close() {
    dialog.close();
    end();
  }

  function end() {
    if (!dialog.isConnected) return;
    dialog.remove();
    closed();
  }

  document.body.append(dialog);
  dialog.showModal();
  dialog.submitButton = button;
  return dialog;
}

// Runs an action whose button cannot be pressed again meanwhile. Shows in `place` why it failed.
export async function act(button, place, action) {
  button.disabled = true;
  replace(place);
  try {
    await action();
  } catch (error) {
    replace(place, failed(error));
  } finally {
    button.disabled = false;
  }
}

// Asks before something is destroyed. consequence: what the action will do, in a sentence. typed: the name that must be
// typed first, if the action cannot be undone.
export function confirmDialog({ title, consequence, action, submit, typed = null, kind = "danger" }) {
  const id = newId("typed");
  const input = typed && textInput({ id, oninput: check });
  const dialog = formDialog({
    title,
    action,
    kind,
    submit,
    content: [
      h("p", consequence),
      typed && h("div.field", h("label", { for: id }, "Type ", h("code", typed), " to confirm"), input),
    ],
  });
  function check() {
    dialog.submitButton.disabled = typed !== null && input.value !== typed;
  }
  if (typed) check();
  return dialog;
}

// A labelled control with help and a place for what is wrong with its value. check(value) returns the problem or null.
export function field(label, control, { help = null, check = () => null } = {}) {
  const id = control.id || newId("field");
  control.id = id;
  const problem = h("p.problem", { id: `${id}-problem` });
  control.setAttribute("aria-describedby", `${id}-help ${id}-problem`);
  control.addEventListener("input", validate);
  function validate() {
    const found = check(control.value);
    replace(problem, found);
    setAttribute(control, "aria-invalid", found ? "true" : null);
    control.setCustomValidity?.(found ?? "");
  }
  return h("div.field", h("label", { for: id }, label), control, h("p.help", { id: `${id}-help` }, help), problem);
}
