// The settings of a topic: value, source and documentation; changed after a look at what differs.

import { field, formDialog } from "../../core/dialog.js";
import { address, badge, cluster, getSession, h, plural, post, replace, setQuery, setText } from "../../core/page.js";
import { searchField } from "../../core/search.js";
import { Table } from "../../core/table.js";
import { toast } from "../../core/toast.js";
import { SOURCES, check, control, meaning } from "./settings.js";

const isOwn = (row) => row.source === "DYNAMIC_TOPIC_CONFIG";
// What was set for the topic itself; null: nothing.
export const ownValue = (row) => (isOwn(row) ? row.value : null);

export async function show(root, view, topic) {
  const [{ may_change }, first] = await Promise.all([getSession(), load()]);
  let settings = first;
  let turn = 0;
  const search = searchField(view, "Search settings");
  const own = h("input", { type: "checkbox", onchange: () => setQuery({ own: own.checked ? "yes" : null }) });
  const shown = h("span.muted", { role: "status" });
  const table = new Table({
    columns: columns(may_change, change), key: (row) => row.name, caption: "Settings", view, cards: true, nothing: "No setting has these words.",
  });

  function load() {
    return view.get(address`topics/${topic.name}/settings`).then((found) => found.settings);
  }

  function draw() {
    own.checked = view.query.get("own") === "yes";
    const has = search.matcher();
    const rows = settings.filter((one) => (!own.checked || isOwn(one)) && has(`${one.name} ${one.documentation}`));
    setText(shown, `${plural(rows.length, "setting")}, ${settings.filter(isOwn).length} set for this topic`);
    table.update(rows);
  }

  // to: the new value; null resets the setting.
  async function apply(row, to) {
    await alter(topic.name, row.name, to);
    const mine = ++turn;
    const found = await load();
    if (mine !== turn) return; // a later change has been made, and has asked later
    settings = found;
    draw();
  }

  function change(name, isReset) {
    const row = settings.find((one) => one.name === name);
    const before = ownValue(row);
    changeDialog(topic.name, row, isReset, async (to) => {
      await apply(row, to);
      toast(to === null ? `${row.name} of ${topic.name} was reset.` : `${row.name} of ${topic.name} is ${to} now.`, {
        undo: () => apply(row, before), undone: `${row.name} of ${topic.name} is as before.`,
      });
    });
  }

  view.onquery = draw;
  draw();
  root.append(h("div.stack", h("div.row", search.node, h("label.row", own, "Only those set for this topic"), shown), table.node));
}

export async function alter(topic, name, to) {
  const one = to === null ? { name, operation: "DELETE" } : { name, value: to, operation: "SET" };
  await post(await cluster(`${address`/topics/${topic}`}/configs:alter`), { data: [one] });
}

function columns(mayChange, change) {
  const button = (row, isReset) => h("button", { "aria-label": `${isReset ? "Reset" : "Edit"} ${row.name}`, onclick: () => change(row.name, isReset) }, isReset ? "Reset" : "Edit");
  const found = [
    { key: "name", label: "Setting", head: true, value: (row) => row.name,
      cell: (row) => [h("code", row.name), h("p.muted.small", row.documentation ?? "")] },
    { key: "value", value: (row) => row.value,
      cell: (row) => [h("code", row.is_sensitive ? "hidden" : row.value || "(empty)"), h("span.muted.small", ` ${meaning(row.name, row.value)}`)] },
    { key: "source", value: "source", cell: (row) => badge(SOURCES[row.source] ?? row.source, isOwn(row) ? "accent" : "") },
    { key: "default", label: "Kafka's default", wide: true, value: (row) => row.rule?.default ?? null, cell: (row) => h("code", row.rule?.default ?? "–") },
  ];
  if (mayChange) {
    found.push({ key: "actions", label: "Change",
      cell: (row) => (row.is_read_only ? "read-only" : h("div.row", button(row, false), isOwn(row) && button(row, true))) });
  }
  return found;
}

function changeDialog(topic, row, isReset, submit) {
  const input = control(row.rule, row.value);
  const diff = h("div", { role: "status" });
  const after = () => (isReset ? null : input.value.trim());
  const draw = () => replace(diff, difference(row, after()) ?? h("p.muted", "Nothing changes."));
  input.addEventListener("input", draw);
  draw();
  const dialog = formDialog({
    title: `${isReset ? "Reset" : "Change"} ${row.name}`,
    action: isReset ? "Reset" : "Apply",
    content: [
      h("p.muted", row.documentation ?? ""),
      !isReset && field(`Value for topic ${topic}`, input, { help: row.rule?.choices ? row.rule.choices.join(", ") : null, check: (value) => check(row.rule, value) }),
      diff,
    ],
    submit: () => submit(after()),
  });
  if (!isReset) input.focus();
  return dialog;
}

// What a new value does (null: a reset), as lines taken away and added; null if nothing changes.
export function difference(row, to) {
  if (to === ownValue(row)) return null;
  const line = (kind, when, sign, value, isInherited) => h(`p.${kind}`, h("span.visually-hidden", `${when}: `),
    `${sign} ${row.name}=${value === null ? "the brokers' value" : value || "(empty)"} `, h("span.muted", isInherited && "inherited ", meaning(row.name, value)));
  return h("div.diff.mono", line("removed", "Before", "−", row.value, !isOwn(row)), line("added", "After", "+", to ?? row.inherited, to === null));
}
