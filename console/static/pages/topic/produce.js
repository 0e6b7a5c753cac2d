// Produces records to a topic: one from a form, which may begin as a copy of another record, or many that are pasted.

import { act, field } from "../../core/dialog.js";
import { address, cluster, getSession, h, newId, options, replace, request } from "../../core/page.js";
import { toast } from "../../core/toast.js";
import { produceMany } from "./produce_many.js";
import { EXACT } from "./record_panel.js";

const INTERNAL = "The brokers write to this topic. What others write to it can stop them.";
const READ_ONLY = "You may look at this topic, but not write to it.";
const KINDS = [["text", "Text"], ["json", "JSON"], ["base64", "Base64"], ["null", "null"]];

export async function show(root, view, topic) {
  const [{ may_change }, copied] = await Promise.all([getSession(), copyOf(view, topic.name)]);
  const reason = may_change ? topic.is_internal && INTERNAL : READ_ONLY;
  root.append(h("div.stack",
    reason && h("p.notice", reason),
    copied?.problem && h("p.notice", { "data-kind": "bad", role: "alert" }, copied.problem),
    h("div.columns", oneRecord(topic, Boolean(reason), copied?.record), produceMany(topic.name, Boolean(reason), view.signal))));
}

// The record PARTITION:OFFSET of ?resend=, with all its bytes in base64: { record } or { problem }.
async function copyOf(view, topic) {
  const place = view.query.get("resend");
  if (!place) return null;
  const [partition, offset] = place.split(":");
  try {
    const record = await view.get(address`topics/${topic}/partitions/${partition}/records/${offset ?? ""}`, EXACT);
    const isWhole = [record.key, record.value, ...record.headers.map((one) => one.value)].every((one) => !one?.is_truncated);
    return isWhole ? { record } : { problem: `Record ${place} is too large to be copied here.` };
  } catch (error) {
    if (view.signal.aborted) throw error;
    return { problem: `Record ${place} cannot be copied: ${error.message}` };
  }
}

// Base64 as text, if it is text; for a copy of a record.
function readable(content) {
  if (!content) return { kind: "null", text: "" };
  try {
    const found = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(atob(content.text), (one) => one.charCodeAt(0)));
    if (!/[\0-\x08\x0b-\x1f\x7f]/.test(found)) return { kind: "text", text: found };
  } catch {
    // not UTF-8
  }
  return { kind: "base64", text: content.text };
}

const problemOf = {
  text: () => null,
  null: () => null,
  json(text) {
    try {
      JSON.parse(text);
      return null;
    } catch (error) {
      return error.message;
    }
  },
  base64: (text) => (/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text) ? null : "This is not base64 (with +, / and =)."),
};

// A key, a value or the value of a header: what it is, and its text. JSON is sent as it was typed.
class Content {
  constructor(label, { kind, text }, { rows = 1, disabled }) {
    this.kind = h("select", { "aria-label": `${label} is`, disabled, onchange: () => this.changed() }, KINDS.map(([value, name]) => h("option", { value, selected: value === kind }, name)));
    this.text = h("textarea", { rows: String(rows), spellcheck: "false", disabled, value: text });
    this.text.id = newId("content");
    this.node = field(label, this.text, { check: (value) => problemOf[this.kind.value](value) });
    this.node.insertBefore(this.kind, this.text);
    this.changed();
  }

  changed() {
    this.text.hidden = this.kind.value === "null";
    this.text.dispatchEvent(new Event("input"));
  }

  get data() {
    if (this.kind.value === "null") return null;
    return { type: this.kind.value === "base64" ? "BINARY" : "STRING", data: this.text.value };
  }
}

// Text as base64 of its UTF-8, for headers.
export function base64(text) {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

function oneRecord(topic, disabled, copied) {
  const key = new Content("Key", copied ? readable(copied.key) : { kind: "null", text: "" }, { disabled });
  const value = new Content("Value", copied ? readable(copied.value) : { kind: "text", text: "" }, { rows: 8, disabled });
  const partition = h("select", { disabled }, options([["", "by the key, or any"], ...topic.states.map((one) => one.partition)]));
  const moment = h("input", { type: "datetime-local", step: "0.001", disabled });
  const headers = h("div.stack");
  const problem = h("div");
  const told = h("p.muted", { role: "status" });
  const button = h("button.primary", { disabled }, "Produce");
  let rows = [];

  function addHeader(name, content) {
    const row = { name: h("input.mono", { "aria-label": "Name of the header", required: true, value: name, disabled }), content: new Content("Value of the header", content, { disabled }) };
    const remove = () => ((rows = rows.filter((one) => one !== row)), row.node.remove());
    row.node = h("div.row", field("Header", row.name), row.content.node, h("button.quiet", { "aria-label": "Remove the header", onclick: remove }, "×"));
    rows.push(row);
    headers.append(row.node);
    return row;
  }

  function send(event) {
    event.preventDefault();
    act(button, problem, async () => {
      const found = await request("POST", await cluster(address`/topics/${topic.name}/records`), {
        body: {
          partition_id: partition.value === "" ? null : Number(partition.value),
          timestamp: moment.value ? new Date(moment.value).toISOString() : null,
          key: key.data,
          value: value.data,
          headers: rows.map(({ name, content: { data } }) => ({ name: name.value, value: data && (data.type === "BINARY" ? data.data : base64(data.data)) })),
        },
      });
      if (found.error_code !== 200) throw new Error(found.message);
      const place = `${found.partition_id}:${found.offset}`;
      toast(`${value.data ? "Record" : "Tombstone"} written to partition ${found.partition_id} at offset ${found.offset}.`,
        { link: { href: `${address`/topics/${topic.name}`}?from=offset:${found.offset}&partitions=${found.partition_id}&record=${place}`, text: "Show it" } });
    });
  }

  const explain = () => replace(told, value.data ? "" : "A value of null is a tombstone: compaction deletes the earlier records with this key.");
  value.kind.addEventListener("change", explain);
  explain();
  copied?.headers.forEach((one) => addHeader(one.name, readable(one.value)));
  return h("form.card.stack", { "aria-label": "One record", onsubmit: send },
    h("h2", copied ? `A copy of record ${copied.offset} of partition ${copied.partition}` : "One record"),
    key.node, value.node, told, headers,
    h("p", h("button", { disabled, onclick: () => addHeader("", { kind: "text", text: "" }).name.focus() }, "Add header")),
    h("div.row", field("Partition", partition), field("Timestamp", moment, { help: "Empty: now" })),
    problem, h("p", button));
}
