// The command palette: Ctrl+K or ⌘K, then type. Pages and modules add what it offers.

import { h, newId, replace } from "./dom.js";
import { navigate } from "./router.js";

const SHOWN = 12;
const sources = [];

// source(): a list, or a promise of one, of { text, hint, href } or { text, hint, run }; asked when the palette opens.
export function addCommands(source, signal = null) {
  sources.push(source);
  signal?.addEventListener("abort", () => sources.splice(sources.indexOf(source), 1), { once: true });
}

export function startPalette() {
  document.getElementById("open-palette").addEventListener("click", open);
  addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
}

function open() {
  if (document.querySelector("dialog[open]")) return;
  const listId = newId("commands");
  const list = h("ul", { role: "listbox", id: listId, "aria-label": "Commands" });
  const input = h("input", {
    type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": listId, "aria-label": "Go to a page, topic or group, or run a command",
    placeholder: "Go to a page, topic or group…", autocomplete: "off", spellcheck: "false",
  });
  const dialog = h("dialog.palette", { "aria-label": "Commands", onclose: () => dialog.remove() }, input, list);
  let commands = [];
  let matches = [];
  let selected = 0;

  function draw() {
    matches = find(commands, input.value).slice(0, SHOWN);
    selected = Math.max(0, Math.min(selected, matches.length - 1));
    replace(list, matches.map((one, index) =>
      h("li", { role: "option", id: `${listId}-${index}`, "aria-selected": String(index === selected), onclick: () => choose(one) },
        h("span", one.text), h("span.muted.small", one.hint ?? ""))));
    if (matches.length) input.setAttribute("aria-activedescendant", `${listId}-${selected}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function choose(command) {
    dialog.close();
    if (command.href) navigate(command.href);
    else command.run();
  }

  input.addEventListener("input", () => ((selected = 0), draw()));
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      selected = (selected + step + matches.length) % (matches.length || 1);
      draw();
    } else if (event.key === "Enter" && matches[selected]) {
      event.preventDefault();
      choose(matches[selected]);
    }
  });
  for (const source of sources) {
    Promise.resolve(source()).then((found) => ((commands = [...commands, ...found]), draw()), () => {});
  }
  document.body.append(dialog);
  dialog.showModal();
  draw();
}

// Commands that have all the words, those that begin with the text first.
function find(commands, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = commands.filter((one) => words.every((word) => `${one.text} ${one.hint ?? ""}`.toLowerCase().includes(word)));
  const first = (one) => (one.text.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
  return has.map((one, index) => [first(one), index, one]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , one]) => one);
}
