// The records of a topic: pages in both directions, search, and the live tail. What is shown is in the query.

import { address, count, empty, events, exactTime, failed, get, h, navigate, options, plural, replace, setQuery, setText, textInput, withQuery } from "../../core/page.js";
import { addCommands } from "../../core/palette.js";
import { EXACT, showRecord, transaction } from "./record_panel.js";

const FILTERS = ["value", "key", "header", "path", "regex"];
const SELECTION = ["from", "at", "direction", "partitions", "transactions", "key_decoder", "value_decoder", ...FILTERS];
const DECODERS = ["auto", "text", "json", "hex", "base64", "messagepack", "cbor", "int32", "int64", "uuid", "internal", "registry"];
const MOST_ROWS = 500;

export function show(root, view) {
  new Messages(root, view, view.params.topic);
}

class Messages {
  constructor(root, view, topic) {
    // trail: how to ask for the page that one came from, by the place to which one went.
    Object.assign(this, { view, topic, trail: new Map(), rows: [], work: null, panelWork: null, listKey: null, shown: null });
    this.status = h("p.grow.muted.records-status", { role: "status" });
    this.controls = h("div.row");
    this.notices = h("div");
    this.body = h("tbody");
    this.table = h("div.table-wrap",
      h("table.records", h("caption.visually-hidden", "Records"),
        h("thead", h("tr", h("th.when", { scope: "col" }, "Time"), h("th.number.of-partition", { scope: "col" }, "Partition"),
          h("th.number.at", { scope: "col" }, "Offset"), h("th.key", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Value"))),
        this.body));
    this.nothing = h("div", { hidden: true });
    this.panel = h("aside.card.stack", { "aria-label": "Record", hidden: true });
    this.area = h("div.messages", h("div.stack", this.table, this.nothing), this.panel);
    this.form = this.makeForm();
    root.append(h("div.stack", this.form, h("div.row", this.status, this.controls), this.notices, this.area));
    this.body.addEventListener("keydown", (event) => this.onKey(event));
    this.body.addEventListener("click", (event) => this.onClick(event));
    root.addEventListener("keydown", (event) => event.key === "Escape" && this.shown && this.closeRecord());
    addCommands(() => [
      { text: `Follow ${topic} live`, hint: "topic", href: address`/topics/${topic}/messages?live=1` },
      { text: `Newest records of ${topic}`, hint: "topic", href: address`/topics/${topic}/messages` },
    ], view.signal);
    view.onquery = (query) => this.follow(query);
    this.follow(view.query);
  }

  // -- the query ------------------------------------------------------------------------------------------------------

  follow(query) {
    this.query = query;
    const key = JSON.stringify([...SELECTION, "live"].map((name) => query.get(name)));
    if (key !== this.listKey) {
      this.listKey = key;
      this.fillForm();
      this.load();
    }
    const record = query.get("record");
    if (record !== this.shown) this.openRecord(record);
  }

  selection() {
    return Object.fromEntries(SELECTION.map((name) => [name, this.query.get(name)]));
  }

  get isSearch() {
    return FILTERS.some((name) => this.query.get(name));
  }

  // Which records are first, on all pages: those that the start asks for.
  get order() {
    return this.query.get("from") ? "newer" : "older";
  }

  get direction() {
    return this.query.get("direction") ?? this.order;
  }

  path(what = "") {
    return address`/api/v1/topics/${this.topic}/records` + what;
  }

  // -- the form -------------------------------------------------------------------------------------------------------

  makeForm() {
    const select = (name, label, list) => labelled(label, h("select", { name }, options(list)));
    const input = (name, label, placeholder) => labelled(label, textInput({ name, placeholder }));
    const decoders = DECODERS.map((name) => [name === "auto" ? "" : name, name]);
    this.moment = h("input", { name: "number", "aria-label": "Offset", inputmode: "numeric", size: "12" });
    this.when = h("input", { name: "moment", type: "datetime-local", step: "1", "aria-label": "Time" });
    this.filters = h("details", h("summary", "Filter"),
      h("div.filters",
        input("value", "Value contains", "text"), input("key", "Key contains", "text"), input("header", "Header", "text or name=text"),
        input("path", "JSON path", '$.user.id == 5'), input("regex", "Regular expression", "RE2, in key or value")));
    const form = h("form.card.stack", { onsubmit: (event) => (event.preventDefault(), this.apply()), onchange: () => this.showFields() },
      h("div.row",
        select("start", "Start", [["newest", "Newest"], ["oldest", "Oldest"], ["offset", "Offset"], ["time", "Time"]]), this.moment, this.when,
        input("partitions", "Partitions", "all"), select("key_decoder", "Key as", decoders), select("value_decoder", "Value as", decoders),
        h("label.check", h("input", { type: "checkbox", name: "transactions" }), " aborted and open transactions, too")),
      this.filters,
      h("div.row", h("button.primary", "Show"), h("button", () => this.clear(), "Clear"),
        h("button", () => this.apply({ live: "1" }), "Live")));
    return form;
  }

  fillForm() {
    const { elements } = this.form;
    const [start, value = ""] = (this.query.get("from") ?? "newest").split(":");
    elements.start.value = start;
    this.moment.value = start === "offset" ? value : "";
    this.when.value = start === "time" && value ? localTime(Number(value)) : "";
    for (const name of ["partitions", "key_decoder", "value_decoder", ...FILTERS]) elements[name].value = this.query.get(name) ?? "";
    elements.transactions.checked = this.query.get("transactions") === "all";
    if (this.isSearch) this.filters.open = true;
    this.showFields();
  }

  showFields() {
    const start = this.form.elements.start.value;
    this.moment.hidden = start !== "offset";
    this.when.hidden = start !== "time";
  }

  apply(more = {}) {
    const { elements } = this.form;
    this.trail.clear();
    const start = elements.start.value;
    const from = { newest: null, oldest: "oldest", offset: `offset:${this.moment.value.trim() || 0}`, time: `time:${new Date(this.when.value || Date.now()).getTime()}` }[start];
    const changes = { from, at: null, direction: null, live: null, record: null, part: null, transactions: elements.transactions.checked ? "all" : null, ...more };
    for (const name of ["partitions", "key_decoder", "value_decoder", ...FILTERS]) changes[name] = elements[name].value.trim();
    changes.partitions = changes.partitions.replaceAll(" ", "");
    const before = location.search;
    setQuery(changes, { push: true });
    if (location.search === before) this.load();
  }

  clear() {
    this.filters.open = false;
    navigate(address`/topics/${this.topic}/messages`);
  }

  // -- the list -------------------------------------------------------------------------------------------------------

  load() {
    this.work?.abort();
    this.work = this.nextWork();
    replace(this.notices);
    this.rows = []; // the same record may be decoded in another way now
    if (this.query.get("live")) this.startTail();
    else if (this.isSearch) this.startSearch();
    else this.loadPage();
  }

  async loadPage() {
    const { signal } = this.work;
    const slow = setTimeout(() => setText(this.status, "Loading…"), 200);
    try {
      const page = await get(this.path(), { query: this.selection(), signal });
      const { order } = this;
      if (this.direction !== order) page.records.reverse();
      this.draw(page.records);
      const total = page.ranges.reduce((sum, one) => sum + one.end - one.start, 0);
      setText(this.status, page.records.length ? `${plural(page.records.length, "record")} of about ${count(total)}` : "");
      this.warn(page.errors, page.left_out);
      this.showNothing(total ? "No records here" : "This topic has no records");
      // This page again: before its end or from its begin on, also when there are other records beyond.
      const again = order === "older" ? page.newer ?? page.end : page.older ?? page.ranges.map((one) => `${one.partition}:${one.start}`).join();
      const move = (at, to, text) => h("button", { disabled: !at, onclick: () => {
        const back = to === order ? null : this.trail.get(this.query.get("at"));
        if (to === order) this.trail.set(at, again);
        setQuery({ at: back ?? at, direction: back ? order : to, record: null, part: null }, { push: true });
      } }, text);
      const places = [["older", "Older"], ["newer", "Newer"]];
      const [[before, left], [after, right]] = order === "newer" ? places : places.reverse();
      replace(this.controls, move(page[before], before, `← ${left}`), move(page[after], after, `${right} →`), this.downloads());
    } catch (error) {
      this.fail(error, signal);
    } finally {
      clearTimeout(slow);
    }
  }

  downloads() {
    const link = (format, text, decoders = {}) => h("a.button", { download: "", href: withQuery(this.path(":download"), { ...this.selection(), ...decoders, format }) }, text);
    return h("details.menu", h("summary.button", "Download"), h("div.card.stack", link("jsonl", "JSON lines"), link("jsonl", "JSON lines, base64", EXACT), link("csv", "CSV")));
  }

  startSearch() {
    const { signal } = this.work;
    this.draw([]);
    this.nothing.hidden = true;
    const stop = h("button", () => (this.work.abort(), this.searched(progress, true)), "Stop");
    let progress = { scanned: 0, matched: 0, at: null, is_complete: false, errors: [] };
    setText(this.status, "Searching…");
    replace(this.controls, stop);
    const work = this.work;
    const tell = (data) => {
      progress = data;
      setText(this.status, `${plural(data.matched, "match", "matches")} in ${plural(data.scanned, "record")}…`);
    };
    events(withQuery(this.path(":search"), this.selection()), {
      records: ({ records }) => this.draw([...this.rows, ...records].slice(0, MOST_ROWS)),
      progress: tell,
      end: (data) => (work.abort(), tell(data), this.searched(data)),
      lost: () => this.explain(work),
    }, signal);
  }

  searched(data, isStopped = false) {
    setText(this.status, `${plural(data.matched, "match", "matches")} in ${plural(data.scanned, "record")}${data.is_complete ? "" : isStopped ? ", stopped" : ", not all"}`);
    const { direction } = this;
    const next = h("button", () => setQuery({ at: data.at, direction, record: null }, { push: true }), "Continue the search");
    replace(this.controls, !data.is_complete && data.at && next, this.downloads());
    this.warn(data.errors, 0);
    this.showNothing(data.is_complete ? "No record matches" : "No match so far");
  }

  startTail(at = null) {
    const { work } = this;
    let last = at;
    if (!at) this.draw([]);
    this.skipped = at ? this.skipped : 0;
    const told = () => `Live: ${plural(this.rows.length, "record")}${this.skipped ? `, ${count(this.skipped)} skipped, too many to show` : ""}`;
    setText(this.status, at ? told() : "Live: waiting for records…");
    this.nothing.hidden = true;
    const pause = h("button", () => {
      work.abort();
      setText(this.status, `${told()}. Paused.`);
      replace(this.controls, h("button.primary", () => (this.work = this.nextWork(), this.startTail(last)), "Resume"), stop);
    }, "Pause");
    const stop = h("button", () => setQuery({ live: null }), "End live view");
    replace(this.controls, pause, stop);
    events(withQuery(this.path(":tail"), { ...this.selection(), at: last }), {
      records: (data) => {
        last = data.at;
        this.skipped += data.skipped;
        if (!data.records.length && !data.skipped) return; // only where the stream begins
        this.draw([...data.records.reverse(), ...this.rows].slice(0, MOST_ROWS));
        setText(this.status, told());
      },
      lost: (isClosed) => {
        if (isClosed) return this.explain(work);
        if (!last) return undefined; // nothing was followed yet: the browser opens the stream again
        work.abort();
        const next = this.nextWork();
        this.work = next;
        setTimeout(() => next.signal.aborted || this.startTail(last), 1000);
        return undefined;
      },
    }, work.signal);
  }

  nextWork() {
    const work = new AbortController();
    this.view.signal.addEventListener("abort", () => work.abort(), { once: true });
    return work;
  }

  // A stream does not tell why it was refused: a search of one record with the same parameters does.
  async explain(work) {
    if (work.signal.aborted) return;
    work.abort();
    try {
      await get(this.path(":search"), { query: { ...this.selection(), max_scanned: 1 } });
      throw new Error("The connection was lost.");
    } catch (error) {
      this.fail(error, this.view.signal);
    }
  }

  fail(error, signal) {
    if (signal.aborted) return;
    setText(this.status, "");
    replace(this.controls);
    replace(this.notices, failed(error, () => this.load()));
  }

  warn(errors, leftOut) {
    const messages = new Map();
    for (const { partition, message } of errors) messages.set(message, [...(messages.get(message) ?? []), partition]);
    replace(this.notices,
      [...messages].map(([message, partitions]) => h("p.notice", { role: "alert" }, `Without partition ${partitions.slice(0, 20).join(", ")}${partitions.length > 20 ? ", …" : ""}: ${message}.`)),
      leftOut > 0 && h("p.notice", `${plural(leftOut, "partition")} left out: choose some above.`));
  }

  showNothing(title) {
    this.nothing.hidden = this.rows.length > 0;
    this.table.hidden = !this.nothing.hidden;
    replace(this.nothing, empty(title));
  }

  draw(records) {
    const known = new Map(this.rows.map((one) => [placeOf(one), one]));
    this.rows = records.map((one) => known.get(placeOf(one)) ?? one);
    this.table.hidden = false;
    replace(this.body, this.rows.map((one) => (one.node ??= this.row(one))));
    this.mark();
  }

  row(record) {
    const place = placeOf(record);
    return h("tr", { "data-place": place },
      h("td.when", exactTime(record.timestamp)), h("td.number.of-partition", record.partition),
      h("th.number.at", { scope: "row" }, h("a", { href: "#", "data-record": place }, String(record.offset))),
      h("td.key.mono", preview(record.key)),
      h("td.mono", record.error ? h("span.badge", { "data-kind": "bad" }, record.error) : [record.transaction && record.transaction !== "committed" && [transaction(record), " "], preview(record.value)]));
  }

  // -- one record -----------------------------------------------------------------------------------------------------

  onClick(event) {
    const place = event.target.closest("tr")?.dataset.place;
    if (!place || event.metaKey || event.ctrlKey || getSelection().toString()) return;
    event.preventDefault();
    event.stopPropagation();
    setQuery({ record: place }, { push: true });
  }

  onKey(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = step && event.target.closest("tr")?.[step];
    if (!next) return;
    event.preventDefault();
    next.querySelector("a").focus();
    if (this.shown) setQuery({ record: next.dataset.place });
  }

  async openRecord(place) {
    this.panelWork?.abort();
    this.shown = place;
    this.panel.hidden = !place;
    this.mark();
    if (!place) return;
    this.panelWork = this.nextWork();
    const { signal } = this.panelWork;
    const decoders = { key_decoder: this.query.get("key_decoder"), value_decoder: this.query.get("value_decoder") };
    const done = showRecord(this.panel, this.topic, place, { decoders, part: this.query.get("part"), close: () => this.closeRecord(), signal });
    const reveal = () => signal.aborted || !matchMedia("(max-width: 900px)").matches || this.panel.scrollIntoView();
    reveal();
    await done; // what has grown above the window moves the window
    reveal();
  }

  closeRecord() {
    const place = this.shown;
    setQuery({ record: null, part: null }, { push: true });
    this.body.querySelector(`tr[data-place="${place}"] a`)?.focus();
  }

  mark() {
    for (const row of this.body.children) row.toggleAttribute("data-open", row.dataset.place === this.shown);
    this.area.toggleAttribute("data-open", Boolean(this.shown));
  }
}

const placeOf = (record) => `${record.partition}:${record.offset}`;

function preview(content) {
  if (!content) return h("span.muted", "null");
  return h("span.preview", { title: content.error }, content.text.slice(0, 300));
}

function labelled(label, control) {
  return h("label.inline", h("span.small.muted", label), control);
}

function localTime(ms) {
  const date = new Date(ms);
  return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
