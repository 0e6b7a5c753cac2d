// Quotas of users, client ids and addresses: set, change, remove, with the difference before and a way back after.

import { field, formDialog } from "../../core/dialog.js";
import { bytes, count, get, h, options, post, replace } from "../../core/page.js";
import { toast } from "../../core/toast.js";
import { actionColumn, addButton, added, buttons, listing } from "./listing.js";

const perSecond = (unit) => (value) => `${count(value)} ${unit}/s`;
const QUOTAS = { // label, unit, format
  producer_byte_rate: ["Produce", "bytes/s", (value) => `${bytes(value)}/s`],
  consumer_byte_rate: ["Fetch", "bytes/s", (value) => `${bytes(value)}/s`],
  request_percentage: ["Request time", "% of a thread", (value) => `${count(value)} %`],
  controller_mutation_rate: ["Changes of topics", "partitions/s", perSecond("partitions")],
  connection_creation_rate: ["New connections", "connections/s", perSecond("connections")],
};
const TYPES = { user: "user", client_id: "client id", ip: "address" };
const KINDS = { user: ["user"], client_id: ["client_id"], both: ["user", "client_id"], ip: ["ip"] };
const label = (key) => QUOTAS[key]?.[0] ?? key;
const shown = (key, value) => (value === null || value === undefined ? "none" : (QUOTAS[key]?.[2] ?? count)(value));
const typesOf = (one) => Object.keys(TYPES).filter((type) => one[type] !== null || one.is_default.includes(type));
const named = (one) => typesOf(one).map((type) => (one[type] === null ? `every other ${TYPES[type]}` : `${TYPES[type]} ${one[type]}`)).join(", ");

export async function show(root, view, may, addActions) {
  const list = await listing(root, view, {
    caption: "quotas", key: named, nothing: "There is no quota, or none has these words.",
    load: async () => (await view.get("quotas")).entities,
    text: named,
    missing: [["NOT_SERVED", "This cluster has no API for quotas", "Brokers have it from Kafka 2.6 on.", "quotas"]],
    open: may ? () => edit(null) : null,
    columns: [
      { key: "entity", label: "For", head: true, value: named },
      { key: "quotas", label: "Limits on each broker", cell: (one) => h("ul.small", Object.entries(one.quotas).map(([key, value]) => h("li", `${label(key)}: ${shown(key, value)}`))) },
      ...(may ? [actionColumn((one) => buttons(named(one), [["Change…", () => edit(one)], ["Remove…", () => remove(one), "danger"]]))] : []),
    ],
  });
  if (may && list) addActions(addButton("Set quotas…"));

  const entityOf = ({ user, client_id, ip, is_default }) => ({ user, client_id, ip, is_default });

  // Applies values (null: remove) and offers the way back to those of before.
  async function apply(entity, values, before) {
    const send = (quotas) => post("quotas:alter", { ...entityOf(entity), quotas });
    await send(values);
    const old = Object.fromEntries(Object.keys(values).map((key) => [key, before[key] ?? null]));
    toast(`The quotas of ${named(entity)} are changed.`, { undo: async () => (await send(old), list.ask()), undone: `The quotas of ${named(entity)} are as before.` });
    list.ask();
  }

  function remove(one) {
    const values = Object.fromEntries(Object.keys(one.quotas).map((key) => [key, null]));
    formDialog({
      title: `Remove the quotas of ${named(one)}?`, action: "Remove", kind: "danger",
      content: [h("p", "The quotas of the next entity that fits apply instead, or none."), difference(one.quotas, values)],
      submit: () => apply(one, values, one.quotas),
    });
  }

  function edit(one) {
    const draw = () => {
      const used = types();
      for (const type of Object.keys(TYPES)) names[type].parentNode.hidden = Boolean(one) || !used.includes(type);
      for (const key of Object.keys(QUOTAS)) inputs[key].parentNode.hidden = (key === "connection_creation_rate") !== used.includes("ip");
      replace(preview, difference(before(), values()));
    };
    const kind = h("select", { onchange: draw }, options([["user", "A user"], ["client_id", "A client id"], ["both", "A client id of a user"], ["ip", "An address"]]));
    const text = (value, more) => h("input", { value, autocomplete: "off", oninput: draw, ...more });
    const names = Object.fromEntries(Object.keys(TYPES).map((type) => [type, text("", { type: "text", placeholder: "every other" })]));
    const inputs = Object.fromEntries(Object.keys(QUOTAS).map((key) => [key, text(one?.quotas[key] ?? "", { type: "number", min: 0, step: "any" })]));
    const preview = h("div", { role: "status" });
    const types = () => (one ? typesOf(one) : KINDS[kind.value]);
    const entity = () => one ?? { ...Object.fromEntries(Object.keys(TYPES).map((type) => [type, types().includes(type) && names[type].value ? names[type].value : null])), is_default: types().filter((type) => !names[type].value) };
    const before = () => one?.quotas ?? {};
    const values = () => Object.fromEntries(Object.keys(QUOTAS)
      .filter((key) => !inputs[key].parentNode?.hidden)
      .map((key) => [key, inputs[key].value === "" ? null : Number(inputs[key].value)])
      .filter(([key, value]) => value !== (before()[key] ?? null)));
    formDialog({
      title: one ? `Change the quotas of ${named(one)}` : "Set quotas", action: "Apply", large: true, closed: added,
      content: [
        !one && field("For", kind),
        h("div.columns", Object.entries(names).map(([type, input]) => field(TYPES[type][0].toUpperCase() + TYPES[type].slice(1), input, { help: "Empty: all that have no quota of their own." }))),
        h("div.columns", Object.entries(inputs).map(([key, input]) => field(`${label(key)} (${QUOTAS[key][1]})`, input, { help: "Empty: none." }))),
        preview,
      ],
      submit: async () => {
        const asked = values();
        if (!Object.keys(asked).length) throw new Error("Nothing is changed.");
        await apply(entity(), asked, one ? one.quotas : await known(entity()));
      },
    });
    draw();
  }

  // The quotas that an entity has already, for the way back.
  async function known(entity) {
    const { entities } = await get("quotas");
    return entities.find((each) => named(each) === named(entity))?.quotas ?? {};
  }
}

function difference(before, values) {
  const keys = Object.keys(values);
  return h("pre.difference", { "aria-label": "What changes" }, keys.length ? keys.map((key) => [
    (before[key] ?? null) !== null && h("del", `- ${label(key)}: ${shown(key, before[key])}\n`),
    values[key] !== null && h("ins", `+ ${label(key)}: ${shown(key, values[key])}\n`),
  ]) : "Nothing changes yet.");
}
