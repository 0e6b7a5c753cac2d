// Produces many records that were pasted or are in a file: lines of JSON, as Download writes them, or of text.

import { field } from "../../core/dialog.js";
import { address, cluster, count, h, options, plural, replace, request } from "../../core/page.js";
import { toast } from "../../core/toast.js";
import { base64 } from "./produce.js";

const FORMATS = [["json", "JSON lines, as downloaded"], ["value", "A value on each line"], ["key", "Key, tab, value on each line"]];
const MOST_RECORDS = 500;
const MOST_CHARACTERS = 1_000_000; // of one request; far below what the server takes, with the longest encoding
const MOST_SHOWN = 10;

export function produceMany(topic, disabled, signal) {
  const format = h("select", { disabled, onchange: look }, options(FORMATS));
  const encoding = h("select", { disabled, onchange: look }, options([["STRING", "text"], ["BINARY", "base64"]]));
  const keeps = h("input", { type: "checkbox", disabled, onchange: look });
  const text = h("textarea", { rows: "8", spellcheck: "false", disabled, oninput: look });
  const file = h("input", { type: "file", disabled, onchange: open });
  const told = h("div", { role: "status" });
  const done = h("div");
  const button = h("button.primary", "Produce");
  const cancel = h("button", { hidden: true, onclick: () => work.abort() }, "Cancel");
  let found = { entries: [], problems: [] };
  let work = null;

  async function open() {
    if (file.files[0]) text.value = await file.files[0].text();
    look();
  }

  function look() {
    keeps.disabled = disabled || format.value !== "json";
    found = entriesOf(text.value, { format: format.value, type: encoding.value, keeps: keeps.checked });
    const { entries, problems } = found;
    replace(told, problems.length ? lines(`${plural(problems.length, "line")} cannot be read:`, problems) : text.value && plural(entries.length, "record"));
    button.disabled = disabled || work !== null || !entries.length || problems.length > 0;
    button.textContent = entries.length ? `Produce ${plural(entries.length, "record")}` : "Produce";
  }

  async function send(event) {
    event.preventDefault();
    work = new AbortController();
    cancel.hidden = false;
    const { entries } = found;
    const failures = [];
    let written = 0;
    look();
    let unknown = "";
    for (const slice of slices(entries)) {
      try {
        const answer = await request("POST", await cluster(address`/topics/${topic}/records:batch`), { body: { entries: slice }, signal: AbortSignal.any([work.signal, signal]) });
        written += answer.successes.length;
        failures.push(...answer.failures.map((one) => `line ${one.id}: ${one.message}`));
      } catch (error) {
        unknown = `Lines ${slice[0].id} to ${slice.at(-1).id} may or may not be written: ${error.name === "AbortError" ? "cancelled" : error.message}`;
        break;
      }
      replace(done, h("p", `${count(written + failures.length)} of ${plural(entries.length, "record")}…`));
    }
    work = null;
    cancel.hidden = true;
    const link = { href: address`/topics/${topic}`, text: "Messages" };
    if (written) toast(`${plural(written, "record")} written to ${topic}.`, { link });
    replace(done, h("p", `${plural(written, "record")} written.`),
      failures.length > 0 && lines(`${plural(failures.length, "record")} not written:`, failures), unknown && h("p.notice", { "data-kind": "bad" }, unknown));
    look();
  }

  look();
  return h("form.card.stack", { "aria-label": "Many records", onsubmit: send },
    h("h2", "Many records"),
    h("div.row", field("Format", format), field("Keys and values are", encoding)),
    h("label", keeps, " Keep the partitions and times of the lines"),
    field("Records", text), field("Or from a file", file), told, done,
    h("div.row", button, cancel));
}

const lines = (title, all) => h("div.notice", { "data-kind": "bad" }, h("p", title),
  h("ul", all.slice(0, MOST_SHOWN).map((one) => h("li", one)), all.length > MOST_SHOWN && h("li", `and ${count(all.length - MOST_SHOWN)} more`)));

// The lines of a text as entries of /v3 …/records:batch, whose ids are the numbers of the lines, and what is wrong with the others.
function entriesOf(text, { format, type, keeps }) {
  const entries = [];
  const problems = [];
  const part = (data) => (data === null ? null : { type, data });
  const read = {
    json: (line) => fromJson(JSON.parse(line), { part, type, keeps }),
    value: (line) => ({ value: part(line) }),
    key(line) {
      const tab = line.indexOf("\t");
      if (tab < 0) throw new Error("there is no tab");
      return { key: part(line.slice(0, tab)), value: part(line.slice(tab + 1)) };
    },
  }[format];
  text.split(/\r?\n/).forEach((line, index) => {
    if (!line.trim()) return;
    try {
      entries.push({ id: String(index + 1), ...read(line) });
    } catch (error) {
      problems.push(`line ${index + 1}: ${error.message}`);
    }
  });
  return { entries, problems };
}

function fromJson(line, { part, type, keeps }) {
  if (typeof line !== "object" || line === null || Array.isArray(line)) throw new Error("is not a JSON object");
  const { key = null, value = null, headers = [], partition, timestamp } = line;
  for (const [name, one] of Object.entries({ key, value })) if (one !== null && typeof one !== "string") throw new Error(`${name} must be a string or null`);
  if (!Array.isArray(headers) || !headers.every(isHeader)) throw new Error("headers must be pairs of a name and a string or null");
  if (keeps && !(Number.isInteger(partition) && Number.isInteger(timestamp))) throw new Error("partition and timestamp must be whole numbers");
  return {
    key: part(key),
    value: part(value),
    headers: headers.map(([name, one]) => ({ name, value: one === null || type === "BINARY" ? one : base64(one) })),
    ...(keeps && { partition_id: partition, timestamp: new Date(timestamp).toISOString() }),
  };
}

const isHeader = (one) => Array.isArray(one) && one.length === 2 && typeof one[0] === "string" && (one[1] === null || typeof one[1] === "string");

function* slices(entries) {
  let slice = [];
  let characters = 0;
  for (const entry of entries) {
    const size = JSON.stringify(entry).length;
    if (slice.length && (slice.length === MOST_RECORDS || characters + size > MOST_CHARACTERS)) {
      yield slice;
      slice = [];
      characters = 0;
    }
    slice.push(entry);
    characters += size;
  }
  if (slice.length) yield slice;
}
