// One record with all that is known about it: value, key, headers, metadata.

import { address, badge, bytes, copyButton, exactTime, failed, get, getSession, h, loading, plainTable, plural, replace, setQuery, withQuery } from "../../core/page.js";
import { jsonTree } from "./json_tree.js";

// The parameters of a request for a record with exactly its bytes.
export const EXACT = { key_decoder: "base64", value_decoder: "base64", header_decoder: "base64" };
const PARTS = [["value", "Value"], ["key", "Key"], ["headers", "Headers"], ["metadata", "Metadata"]];

// Shows the record "PARTITION:OFFSET" in a node. decoders: the parameters of the request; part: the name of the part.
export async function showRecord(root, topic, place, { decoders, part, close, signal }) {
  const [partition, offset] = place.split(":");
  const path = address`/api/v1/topics/${topic}/partitions/${partition}/records/${offset}`;
  const body = h("div", { role: "tabpanel", tabindex: "0", "aria-label": "Part of the record" });
  const list = h("div.tabs", { role: "tablist", "aria-label": "Parts of the record" });
  const actions = h("div.row");
  replace(root,
    h("div.row", h("h2.grow", `Partition ${partition}, offset ${offset}`),
      h("button.quiet", { "aria-label": "Close the record", onclick: close }, "×")),
    actions, list, body);
  const done = loading(body);
  let record, may_change;
  try {
    [record, { may_change }] = await Promise.all([get(path, { query: decoders, signal }), getSession()]);
  } catch (error) {
    done();
    if (!signal.aborted) replace(body, failed(error));
    return;
  }
  done();
  const content = () => (selected === "key" || selected === "value" ? record[selected] : null);
  let selected = PARTS.some(([name]) => name === part) ? part : "value";
  function draw() {
    replace(list, PARTS.map(([name, text]) =>
      h("button.quiet", { role: "tab", "aria-selected": String(name === selected), tabindex: name === selected ? "0" : "-1", onclick: () => choose(name), onkeydown: onKey },
        name === "headers" ? `${text} (${record.headers.length})` : text)));
    replace(body, selected === "headers" ? headers(record) : selected === "metadata" ? metadata(record) : contentOf(content(), `${path}/${selected}`));
    replace(actions,
      content() && copyButton(() => content().text, `Copy ${selected}`),
      may_change && h("a.button", { href: withQuery(address`/topics/${topic}/produce`, { resend: place }) }, "Produce again…"));
  }
  function choose(name) {
    selected = name;
    draw();
    setQuery({ part: name === "value" ? null : name });
  }
  function onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = PARTS.findIndex(([name]) => name === selected);
    choose(PARTS[(index + step + PARTS.length) % PARTS.length][0]);
    list.querySelector("[aria-selected=true]").focus();
  }
  draw();
}

function contentOf(content, path) {
  if (!content) return h("p.muted", "null");
  const tree = content.is_json ? jsonTree(content.text) : null;
  return h("div.stack",
    h("p.small.muted", `${content.decoder} · ${bytes(content.size)}`, " · ",
      h("a", { href: path, download: "" }, "Download the bytes")),
    content.error && h("p.notice", `It ${content.error}.`),
    content.is_truncated && h("p.notice", "Only the beginning is shown."),
    content.schema_id !== null && schema(content),
    tree ?? h("pre", content.text),
    tree && h("details", h("summary", "As text"), h("pre", content.text)));
}

// The schema that the content names; its text is asked for when it is opened.
function schema({ schema_id: id, schema_type: type }) {
  const body = h("div");
  async function load({ target }) {
    if (!target.open || body.firstChild) return;
    const done = loading(body);
    try {
      const { text, subjects, references } = await get(address`schemas/${id}`);
      done();
      replace(body, subjects.length > 0 && h("p.small.muted", subjects.map((one) => `${one.subject}, version ${one.version}`).join(" · ")),
        [{ text }, ...references].map((one) => [one.name && h("p.small", one.name), h("pre", { tabindex: "0", "aria-label": "Text of the schema" }, pretty(one.text))]));
    } catch (error) {
      done();
      replace(body, failed(error));
    }
  }
  return h("details", { ontoggle: load }, h("summary", `Schema ${id} (${type})`), body);
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // Protobuf
  }
}

function headers(record) {
  if (!record.headers.length) return h("p.muted", "No headers");
  return plainTable("Headers", ["Name", "Value"],
    h("tbody", record.headers.map(({ name, value }) =>
      h("tr", h("th.mono", { scope: "row" }, name), h("td.mono", value ? value.text : h("span.muted", "null"))))));
}

function metadata(record) {
  const { batch } = record;
  const rows = [
    ["Timestamp", record.timestamp === null ? "none" : `${exactTime(record.timestamp)} (${record.timestamp})`],
    ["Set by", record.timestamp_type === "create" ? "the producer" : "the broker"],
    ["Key", record.key ? bytes(record.key.size) : "null"],
    ["Value", record.value ? bytes(record.value.size) : "null: a tombstone"],
    ["Transaction", record.transaction ? transaction(record) : "none"],
    ["Producer", batch.producer_id === null ? "without idempotence" : `id ${batch.producer_id}, epoch ${batch.producer_epoch}`],
    ["Sequence number", record.sequence ?? "none"],
    ["Batch", `offsets ${batch.base_offset} to ${batch.last_offset}, ${plural(batch.record_count, "record")}, ${bytes(batch.size)}`],
    ["Compression", batch.compression],
    ["Leader epoch", batch.leader_epoch],
    ["Message format", batch.format],
  ];
  return h("table", h("tbody", rows.map(([name, value]) => h("tr", h("th", { scope: "row" }, name), h("td", value)))));
}

export function transaction(record) {
  return badge(record.transaction, { committed: "good", aborted: "bad", open: "warn" }[record.transaction]);
}
