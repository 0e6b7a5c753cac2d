// Settings of a broker or topic: search, sources, documentation, and a change that shows its difference before it is made.

import { formDialog, field } from "./dialog.js";
import { h, options, replace, textInput } from "./dom.js";
import { plural } from "./format.js";
import { badge, empty } from "./parts.js";
import { setQuery } from "./router.js";
import { searchField } from "./search.js";

const SOURCES = {
  DEFAULT_CONFIG: "default", STATIC_BROKER_CONFIG: "server.properties", DYNAMIC_BROKER_CONFIG: "this broker",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers", DYNAMIC_TOPIC_CONFIG: "this topic",
};

export const sourceOf = (source) => SOURCES[source] ?? source.toLowerCase().replaceAll("_", " ");
const isSet = (one) => !one.is_default;
const shownValue = (one) => (one.is_sensitive ? "hidden" : one.value === null || one.value === "" ? "empty" : one.value);

// settings: as /api/v1 describes them. edit(setting), reset(setting): called by the buttons of a setting that can be
// changed; canReset(setting) says whether there is something to reset. Returns { node, update(settings) }.
export function settingsList({ view, mayChange, edit, reset, canReset }) {
  let settings = [];
  const list = h("div.stack.settings");
  const found = h("span.muted.small", { role: "status" });
  const search = searchField(view, "Search settings", { placeholder: "Search names and documentation", grows: true });
  const which = h("select", { "aria-label": "Which settings", onchange: () => setQuery({ which: which.value }) },
    options([["", "All settings"], ["set", "Not the default"], ["dynamic", "Can be changed now"]]));
  which.value = view.query.get("which") ?? "";
  view.onquery = (query) => {
    which.value = query.get("which") ?? "";
    draw();
  };

  function draw() {
    const has = search.matcher();
    const matches = settings.filter((one) =>
      has(`${one.name} ${one.documentation ?? ""}`) &&
      (which.value !== "set" || isSet(one)) && (which.value !== "dynamic" || !one.is_read_only));
    const open = new Set([...list.querySelectorAll("details[open]")].map((one) => one.dataset.name));
    replace(found, plural(matches.length, "setting"));
    replace(list, matches.length ? h("div.card.lines", matches.map((one) => setting(one, open.has(one.name)))) : empty("No setting has these words"));
  }

  function setting(one, isOpen) {
    const act = (text, action, isOff) => h("button", { disabled: isOff, onclick: () => action(one) }, text);
    return h("details", { "data-name": one.name, open: isOpen },
      h("summary", h("code.name", one.name), h("span", { class: one.value && !one.is_sensitive ? "mono value" : "muted value" }, shownValue(one)), badge(sourceOf(one.source), isSet(one) ? "accent" : "")),
      h("div.stack",
        h("p", one.documentation ?? "The broker gives no documentation."),
        h("p.muted.small", [one.type.toLowerCase(), one.is_read_only ? "needs a restart to change" : "can be changed now", one.is_sensitive && "the value is hidden"].filter(Boolean).join(" · ")),
        one.synonyms.length > 0 && h("ul.small", one.synonyms.map((each) => h("li", h("code", each.name), ` = ${each.value ?? "hidden"} `, h("span.muted", sourceOf(each.source))))),
        mayChange && !one.is_read_only && h("div.row", act("Change…", edit), act("Reset…", reset, !canReset(one)))));
  }

  return {
    node: h("div.stack", h("div.row", search.node, which, found), list),
    update(now) {
      settings = now;
      draw();
    },
  };
}

// Asks for a new value and shows the difference. scopes: [{ value, text }] where it can be set, or none.
// apply(value, scope): makes the change.
export function editDialog(setting, { apply, scopes = [] }) {
  const isSecret = setting.is_sensitive;
  const input = textInput({ name: "value", type: isSecret ? "password" : null, value: setting.is_sensitive ? "" : setting.value ?? "", oninput: () => draw() });
  const scope = scopes.length > 0 && h("select", { name: "scope" }, scopes.map(({ value, text }) => h("option", { value }, text)));
  const difference = h("pre.difference", { "aria-label": "What changes" });
  function draw() {
    replace(difference, h("del", `- ${setting.name} = ${shownValue(setting)}\n`), h("ins", `+ ${setting.name} = ${isSecret ? "hidden" : input.value}`));
  }
  draw();
  return formDialog({
    title: `Change ${setting.name}`, action: "Apply", large: true,
    content: [
      setting.documentation && h("p.muted.small", setting.documentation),
      field("New value", input, { help: setting.type.toLowerCase() }),
      scope && field("Where", scope),
      difference,
    ],
    submit: () => apply(input.value, scope ? scope.value : null),
  });
}
