// One broker: its settings, log directories, partitions, statistics, API versions and log levels.

import { confirmDialog } from "../core/dialog.js";
import { absent, address, badge, bytes, cluster, count, duration, empty, facts, getSession, h, pageHead, PARTITION, partitionLink, plural, poll, post, replace, setQuery, setTitle, tabs } from "../core/page.js";
import { searchField } from "../core/search.js";
import { editDialog, settingsList, sourceOf } from "../core/settings.js";
import { Table } from "../core/table.js";
import { attempt, toast } from "../core/toast.js";

const TABS = { "": ["Configuration", configuration], "log-dirs": ["Log directories", logDirs], partitions: ["Partitions", partitions], statistics: ["Statistics", statistics], apis: ["API versions", apis], "log-levels": ["Log levels", logLevels] };
const LEVELS = ["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
const PERIOD_MS = 2000;

export async function show(root, view) {
  const { id, tab = "" } = view.params;
  setTitle(`Broker ${id}`);
  const [path, session] = await Promise.all([cluster(address`/brokers/${id}`), getSession()]);
  view.absent = [`There is no broker ${id}`, `Broker ${id} is not in the cluster, or it does not run now.`, "/brokers", "All brokers"];
  const broker = await view.get(path);
  root.append(
    pageHead(`Broker ${id}`, { crumbs: [{ href: "/brokers", text: "Brokers" }], badge: h("span.muted", [`${broker.host}:${broker.port}`, broker.rack && `rack ${broker.rack}`].filter(Boolean).join(" · ")) }),
    tabs(`Broker ${id}`, address`/brokers/${id}`, Object.entries(TABS).map(([name, [text]]) => [name, text])),
  );
  const [, draw] = TABS[tab] ?? [null, () => absent(`A broker has no page ${tab}`, `Broker ${id} has the pages above.`, address`/brokers/${id}`, `Broker ${id}`)];
  root.append(await draw({ id, path, view, mayChange: session.may_change, of: (name) => view.get(address`brokers/${id}/${name}`) }));
}

// -- configuration ------------------------------------------------------------------------------------------------------

const SCOPES = { broker: "DYNAMIC_BROKER_CONFIG", all: "DYNAMIC_DEFAULT_BROKER_CONFIG" };
const scopeOf = (one) => Object.keys(SCOPES).find((scope) => SCOPES[scope] === one.source);

async function configuration({ id, path, view, mayChange, of }) {
  const cluster_path = await cluster("/broker-configs:alter");
  const shown = settingsList({ view, mayChange, edit, reset, canReset: scopeOf });
  const load = async () => shown.update((await of("settings")).settings);

  async function alter(name, scope, value) {
    const where = scope === "all" ? cluster_path : `${path}/configs:alter`;
    const data = [value === null ? { name, operation: "DELETE" } : { name, value }];
    await post(where, { data, validate_only: true });
    await post(where, { data });
    await load();
  }

  // value: null removes that of the scope. A hidden value cannot be restored.
  async function change({ name, synonyms }, scope, value, said) {
    const before = synonyms.find((one) => one.name === name && one.source === SCOPES[scope]);
    await alter(name, scope, value);
    toast(said, before?.value === null ? {} : { undo: () => alter(name, scope, before?.value ?? null), undone: `${name} is as before.` });
  }

  function edit(one) {
    editDialog(one, {
      scopes: [{ value: "broker", text: `Broker ${id} only` }, { value: "all", text: "All brokers" }],
      apply: (value, scope) => change(one, scope, value, `${one.name} is ${one.is_sensitive ? "changed" : value} on ${scope === "all" ? "all brokers" : `broker ${id}`} now.`),
    });
  }

  function reset(one) {
    const next = one.synonyms.find((each) => each.source !== one.source);
    confirmDialog({
      title: `Reset ${one.name}?`, action: "Reset",
      consequence: `The value ${one.value ?? ""} that is set for ${sourceOf(one.source)} is removed. ${next ? `Then ${next.value ?? "a hidden value"} applies (${sourceOf(next.source)}).` : "Then the default applies."}`,
      submit: () => change(one, scopeOf(one), null, `${one.name} is reset.`),
    });
  }

  await load();
  return shown.node;
}

// -- log directories, partitions ----------------------------------------------------------------------------------------

async function logDirs({ view, of }) {
  const { log_dirs: found } = await of("log-dirs");
  return h("div.stack", found.map((one, index) => {
    const table = new Table({
      caption: `Replicas in ${one.path}`, view, name: `sort${index || ""}`, sort: "-size", key: (each) => `${each.topic}-${each.partition}-${each.is_future}`, nothing: "No replica is in this directory.",
      columns: [
        { ...PARTITION, cell: (each) => [partitionLink(each), ...(each.is_future ? [" ", badge("moves here", "warn")] : [])] },
        { key: "size", number: bytes, value: "size_bytes" },
        { key: "lag", label: "Behind", number: count, title: "Records behind the high watermark", value: "offset_lag" },
      ],
    });
    table.update(one.replicas);
    return h("section.stack",
      h("div.card.stack", h("div.row", h("h2", h("code", one.path)), one.error && badge(one.error, "bad")),
        facts([["Logs", bytes(one.size_bytes)], ["Replicas", count(one.replicas.length)], ["Free", bytes(one.usable_bytes)], ["Disk", bytes(one.total_bytes)]])),
      table.node);
  }));
}

async function partitions({ path, view }) {
  const { data } = await view.get(`${path}/partition-replicas`);
  const table = new Table({
    caption: "Replicas on this broker", view, key: (one) => `${one.topic_name}-${one.partition_id}`, nothing: "No partition has a replica here.",
    columns: [
      { key: "partition", head: true, value: (one) => `${one.topic_name}-${one.partition_id}`, cell: (one) => partitionLink({ topic: one.topic_name, partition: one.partition_id }) },
      { key: "role", value: (one) => (one.is_leader ? "leader" : "follower"), cell: (one) => badge(one.is_leader ? "leader" : "follower", one.is_leader ? "accent" : "") },
      { key: "sync", label: "In sync", value: (one) => Number(one.is_in_sync), cell: (one) => (one.is_in_sync ? "yes" : badge("no", "warn")) },
    ],
  });
  const only = h("input", { type: "checkbox", checked: view.query.get("led") === "1", onchange: () => setQuery({ led: only.checked ? "1" : null }) });
  const draw = () => table.update(data.filter((one) => one.is_leader || !only.checked));
  view.onquery = (query) => {
    only.checked = query.get("led") === "1";
    draw();
  };
  draw();
  const leads = data.filter((one) => one.is_leader).length;
  return h("div.stack", h("div.row", h("span", `Leads ${count(leads)} of ${plural(data.length, "replica")}.`), h("label.row", only, "Only those that it leads")), table.node);
}

// -- statistics, API versions -------------------------------------------------------------------------------------------

async function statistics({ view, of }) {
  const first = await of("statistics");
  if (!first.statistics) return empty("No statistics here", h("p", first.reason));
  const head = h("div.card");
  const table = new Table({
    caption: "Requests since the start of the broker", view, sort: "-requests", key: (one) => one.api,
    columns: [
      { key: "api", label: "API", head: true },
      { key: "requests", number: count },
      { key: "errors", number: true, wide: true, value: "errors", cell: (one) => (one.errors ? badge(count(one.errors), "bad") : "0") },
      { key: "in", label: "Received", number: bytes, wide: true, value: "request_bytes" },
      { key: "out", label: "Sent", number: bytes, wide: true, value: "response_bytes" },
      { key: "mean", number: time, title: "Time until the answer, with long polls", value: "mean_seconds" },
      { key: "p99", label: "99 % below", number: true, value: (one) => one.p99_seconds ?? Infinity, cell: (one) => (one.p99_seconds === null ? "over 10 s" : time(one.p99_seconds)) },
    ],
  });
  function update({ statistics: now }) {
    const listeners = Object.entries(now.connections);
    replace(head, facts([
      ["Connections", count(listeners.reduce((sum, [, open]) => sum + open, 0))],
      ...(listeners.length > 1 ? listeners.map(([name, open]) => [name, count(open)]) : []),
      ["Waiting fetches", count(now.delayed_fetches)], ["Waiting produces", count(now.delayed_produces)], ["Rejected frames", count(now.rejected_frames)],
    ]));
    table.update(now.apis);
  }
  update(first);
  poll(PERIOD_MS, async () => update(await of("statistics")), view.signal);
  return h("div.stack", head, table.node);
}

const time = (seconds) => (seconds < 0.001 ? `${Math.round(seconds * 1e6)} µs` : duration(seconds));

async function apis({ view, of }) {
  const table = new Table({
    caption: "APIs of this broker", view, key: (one) => one.api_key,
    columns: [
      { key: "key", number: true, value: "api_key" },
      { key: "name", label: "API", head: true },
      { key: "versions", number: true, value: "highest", cell: (one) => (one.lowest === one.highest ? String(one.lowest) : `${one.lowest} to ${one.highest}`) },
    ],
  });
  table.update((await of("apis")).apis);
  return table.node;
}

// -- log levels ---------------------------------------------------------------------------------------------------------

async function logLevels({ id, view, mayChange, of }) {
  const first = await of("log-levels");
  if (!first.levels) return empty("No log levels here", h("p", first.reason));
  const words = searchField(view, "Search loggers");
  let { levels } = first;
  const table = new Table({
    caption: "Loggers", view, cards: true, key: ([name]) => name, nothing: "No logger has these words.",
    columns: [
      { key: "logger", head: true, value: ([name]) => name },
      { key: "level", value: ([, level]) => level, cell: ([name, level]) => !mayChange ? level :
        h("select", { "aria-label": `Level of ${name}`, onchange: (event) => set(name, event.target) },
          LEVELS.map((one) => h("option", { value: one, selected: one === level }, one)), h("option", { value: "" }, "as the one above")) },
    ],
  });
  const draw = () => {
    const has = words.matcher();
    table.update(Object.entries(levels).filter(([name]) => has(name)));
  };
  const send = (logger, level) => post(address`brokers/${id}/log-levels`, { data: [{ logger, level }] });
  async function load() {
    ({ levels } = await of("log-levels"));
    draw();
  }
  async function set(logger, select) {
    const level = select.value || null;
    const before = levels[logger];
    // Brokers do not tell whether a level is the logger's own: if it is that of the logger above it, Undo removes it.
    const above = logger === "root" ? null : levels[Object.keys(levels).filter((one) => logger.startsWith(`${one}.`)).pop() ?? "root"];
    if (await attempt(() => send(logger, level))) {
      toast(level ? `${logger} logs ${level} now, until the broker stops.` : `${logger} has the level of the logger above it now.`, {
        undo: async () => (await send(logger, before === above ? null : before), load()), undone: `${logger} logs ${before} again.`,
      });
    }
    await load();
    select.value = levels[logger]; // a row whose level has not changed keeps its node
  }
  view.onquery = draw;
  draw();
  return h("div.stack", mayChange && h("p.muted", "A change lasts until the broker stops."), words.node, table.node);
}
