// All topics: searched, sorted, with what they hold and the health of their replicas; several at once are changed.

import { address, badge, bytes, count, empty, failed, get, getSession, h, pageHead, plural, poll, problems, rate, replace, setQuery, setText, setTitle } from "../core/page.js";
import { searchField } from "../core/search.js";
import { Table } from "../core/table.js";
import { attempt } from "../core/toast.js";
import { RATE, RECORDS, SIZE, health, recordsPerSecond } from "./topic.js";
import { addPartitions, configureTopics, deleteTopics } from "./topic/actions.js";
import { createTopic } from "./topic/create.js";

const PERIOD_MS = 5000;

export async function show(root, view) {
  setTitle("Topics");
  const list = new TopicList(view);
  const [{ may_change }] = await Promise.all([getSession(), list.ask(view.signal)]);
  list.build(root, may_change);
  const again = poll(PERIOD_MS, async (signal) => (await list.ask(signal), list.draw()), view.signal, (error) => list.tell(failed(error)));
  list.again = again;
  poll(PERIOD_MS, (signal) => list.askStatistics(signal), view.signal, (error) => list.tell(failed(error)))();
}

class TopicList {
  constructor(view) {
    this.view = view;
    this.topics = [];
    this.statistics = new Map();
    this.rates = new Map();
    this.time = 0;
    this.chosen = new Set();
    this.creating = null;
  }

  async ask(signal) {
    const { topics } = await get("topics", { signal });
    this.topics = topics;
    const there = new Set(topics.map((one) => one.name));
    for (const name of this.chosen) if (!there.has(name)) this.chosen.delete(name);
  }

  async askStatistics(signal) {
    const found = await get("topic-statistics", { signal });
    if (found.time_ms === this.time) return;
    const now = new Map(found.topics.map((one) => [one.name, { ...one, time_ms: found.time_ms }]));
    for (const [name, one] of now) {
      const perSecond = recordsPerSecond(this.statistics.get(name), one);
      if (perSecond !== null) this.rates.set(name, perSecond);
    }
    this.statistics = now;
    this.time = found.time_ms;
    this.tell(problems(found.problems));
    this.draw();
  }

  tell(node) {
    replace(this.notes, node);
  }

  build(root, mayChange) {
    const { view } = this;
    this.notes = h("div");
    this.search = searchField(view, "Search topics");
    this.internal = h("input", { type: "checkbox", onchange: () => setQuery({ internal: this.internal.checked ? "yes" : null }) });
    this.count = h("span.muted", { role: "status" });
    this.selection = h("div.card.row.selection", { role: "group", "aria-label": "Selected topics", hidden: true });
    this.found = h("div.row", this.search.node, h("label.row", this.internal, "Internal topics"), this.count);
    this.none = empty("There is no topic yet",
      h("p", "A topic is there when somebody has created it: here, by ottla topics create, or by the first record to it if auto.create.topics.enable is true."),
      mayChange && h("p", h("button.primary", () => setQuery({ create: "yes" }), "Create the first topic")));
    const columns = mayChange ? [this.#selector(), ...this.#columns()] : this.#columns();
    this.table = new Table({ columns, key: (row) => row.name, caption: "Topics", sort: "name", view, nothing: "No topic is shown. Change the search, or show internal topics." });
    this.table.table.classList.toggle("has-selection", mayChange);
    root.append(
      pageHead("Topics", { actions: mayChange ? [h("button.primary", { onclick: () => setQuery({ create: "yes" }) }, "Create topic")] : [] }),
      h("div.stack", this.found, this.notes, this.none, this.table.node, this.selection));
    view.onquery = () => this.draw();
    view.signal.addEventListener("abort", () => this.creating?.close(), { once: true });
    this.mayChange = mayChange;
    this.draw();
  }

  draw() {
    const { view } = this;
    this.internal.checked = view.query.get("internal") === "yes";
    const has = this.search.matcher();
    const offered = this.topics.filter((one) => this.internal.checked || !one.is_internal);
    const rows = offered.filter((one) => has(one.name));
    this.found.hidden = !this.topics.length;
    this.table.node.hidden = !offered.length;
    this.none.hidden = offered.length > 0;
    setText(this.count, rows.length === offered.length ? plural(rows.length, "topic") : `${count(rows.length)} of ${plural(offered.length, "topic")}`);
    this.table.update(rows.map((one) => ({ ...one, ...this.statistics.get(one.name), per_second: this.rates.get(one.name) ?? null })));
    if (this.mayChange && view.query.get("create") === "yes" && !this.creating) this.#create();
    if (view.query.get("create") !== "yes") this.creating?.close();
  }

  #create() {
    createTopic({
      topics: this.topics, name: this.view.query.get("name") ?? "", signal: this.view.signal, done: () => this.again(),
      opened: (dialog) => (this.creating = dialog),
      closed: () => {
        this.creating = null;
        if (!this.view.signal.aborted) setQuery({ create: null, name: null });
      },
    });
  }

  #selector() {
    const cell = (row) => {
      const box = h("input", { type: "checkbox", disabled: row.is_internal, "aria-label": `Select ${row.name}`, onchange: () => this.#choose(row.name, box.checked) });
      box.checked = this.chosen.has(row.name); // no attribute: a row that is drawn again keeps its box
      return box;
    };
    return { key: "chosen", label: h("span.visually-hidden", "Select"), cell };
  }

  #choose(name, isChosen) {
    if (isChosen) this.chosen.add(name);
    else this.chosen.delete(name);
    this.#drawSelection();
  }

  #drawSelection() {
    const topics = this.topics.filter((one) => this.chosen.has(one.name));
    const clear = () => {
      this.chosen.clear();
      for (const box of this.table.body.querySelectorAll("input")) box.checked = false;
      this.#drawSelection();
    };
    const done = () => (clear(), this.again());
    const button = (text, run, kind = null) => h("button", { class: kind, onclick: run }, text);
    this.selection.hidden = topics.length === 0;
    replace(this.selection,
      h("span.grow", { role: "status" }, `${plural(topics.length, "topic")} selected`),
      topics.length === 1 && button("Add partitions…", () => addPartitions(topics[0], done)),
      button("Configure…", () => attempt(() => configureTopics(topics, done))),
      button("Delete…", () => deleteTopics(topics, done), "danger"),
      button("Clear", clear, "quiet"));
  }

  #columns() {
    return [
      { key: "name", label: "Topic", head: true, value: (row) => row.name,
        cell: (row) => [h("a", { href: address`/topics/${row.name}` }, row.name), ...(row.is_internal ? [" ", badge("internal")] : [])] },
      { key: "partitions", label: "Partitions", number: true, wide: true, format: count },
      { key: "replicas", label: "Replicas", number: true, wide: true, value: "replication_factor" },
      { key: "records", label: "Records", number: true, title: RECORDS, format: count },
      { key: "rate", label: "Records/s", number: true, wide: true, title: RATE, value: "per_second", format: rate },
      { key: "size", label: "Size", number: true, wide: true, title: SIZE, value: "size_bytes", format: bytes },
      { key: "health", label: "Health", value: (row) => row.offline * 1e6 + row.under_replicated, cell: health },
    ];
  }
}
