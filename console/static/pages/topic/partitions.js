// The partitions of a topic: leaders, replicas, offsets and sizes; what each broker has; elections and reassignments.

import { address, badge, brokerLink, bytes, count, failed, get, getSession, h, plural, poll, problems, replace, section, setAttribute } from "../../core/page.js";
import { Table } from "../../core/table.js";
import { attempt } from "../../core/toast.js";
import { addPartitions } from "./actions.js";
import { cancelMoves, elect, reassign } from "./replicas.js";

const PERIOD_MS = 3000;

export async function show(root, view, topic) {
  let rows = [];
  let moves = [];
  let sentences = [];
  let silent = [];
  const ask = async (signal) => {
    const [state, logs] = await Promise.all([
      get(address`topics/${topic.name}`, { signal }),
      get(address`topics/${topic.name}/partitions`, { signal }),
    ]);
    const found = new Map(logs.partitions.map((one) => [one.partition, one]));
    rows = state.states.map((one) => withLogs(one, found.get(one.partition)));
    sentences = logs.problems;
  };
  // Apart from the partitions: a cluster without a controller does not hold the page.
  const askMoves = async (signal) => {
    const found = await get("reassignments", { signal });
    moves = found.moves.filter((one) => one.topic === topic.name);
    silent = found.problems;
    draw();
  };
  const [{ may_change }] = await Promise.all([getSession(), ask(view.signal)]);
  const table = new Table({ columns: columns(), key: (row) => row.partition, caption: "Partitions", view });
  const notes = h("div");
  const moving = h("section.card.stack", { "aria-label": "Reassignments in progress" });
  const leaders = h("div.bars");
  const sizes = h("div.bars");
  const sized = section("Size by broker", sizes);
  const draw = () => {
    replace(notes, problems([...new Set([...sentences, ...silent])]));
    moving.hidden = moves.length === 0;
    replace(moving, moves.length > 0 && movesInProgress(moves, may_change, again));
    replace(leaders, bars(perBroker(rows, (row) => (row.leader === null ? [] : [[row.leader, 1]])), count));
    sized.hidden = rows.every((row) => row.logs.length === 0);
    replace(sizes, bars(perBroker(rows, (row) => row.logs.map((log) => [log.broker_id, log.size_bytes])), bytes));
    table.update(rows);
  };
  const tell = (error) => replace(notes, failed(error));
  const askAgain = poll(PERIOD_MS, async (signal) => (await ask(signal), draw()), view.signal, tell);
  const askMovesAgain = poll(PERIOD_MS, askMoves, view.signal, tell);
  const again = () => (askAgain(), askMovesAgain());
  draw();
  askMovesAgain();
  root.append(h("div.stack",
    notes,
    may_change && h("div.row",
      h("button", () => addPartitions({ name: topic.name, partitions: rows.length }, again), "Add partitions…"),
      h("button", () => elect(topic.name, rows, again), "Elect leaders…"),
      h("button", () => attempt(() => reassign(topic.name, rows, again)), "Move replicas…")),
    moving,
    h("div.columns",
      section("Leaders by broker", leaders),
      sized),
    table.node));
}

function withLogs(state, log) {
  const { start = null, end = null, logs = [] } = log ?? {};
  const size = logs.find((one) => one.broker_id === state.leader)?.size_bytes ?? null;
  return { ...state, start, end, logs, size, records: start === null || end === null ? null : Math.max(0, end - start) };
}

function columns() {
  const numeric = (key, label, format = count, rest = {}) => ({ key, label, number: true, value: (row) => row[key], cell: (row) => format(row[key]), ...rest });
  return [
    { key: "partition", head: true, number: true },
    { key: "leader", number: true, value: "leader", cell: leader },
    { key: "replicas", title: "The first is the preferred leader. In red: not in sync", value: (row) => row.replicas.length, cell: replicas },
    { key: "isr", label: "In sync", wide: true, value: (row) => row.isr.length, cell: (row) => row.isr.join(", ") },
    numeric("start", "Start", count, { wide: true, title: "Log start offset" }),
    numeric("end", "End", count, { wide: true, title: "High watermark: the offset after the last record that consumers see" }),
    numeric("records", "Records", count, { title: "End − start: compaction and transaction markers leave gaps, which count" }),
    numeric("size", "Size", bytes, { title: "The leader's log" }),
  ];
}

function leader(row) {
  if (row.leader === null) return badge("none", "bad");
  return row.leader === row.replicas[0] ? String(row.leader) : [`${row.leader} `, badge("not preferred", "warn")];
}

function replicas(row) {
  return row.replicas.flatMap((id, index) => [
    index ? ", " : "",
    row.isr.includes(id) ? h("span", String(id)) : h("span.lost", { title: "not in sync" }, String(id), h("span.visually-hidden", " not in sync")),
  ]);
}

// The sum for each broker that has a replica, by broker id. of(row): [[broker id, number], …].
function perBroker(rows, of) {
  const found = new Map(rows.flatMap((row) => row.replicas.map((id) => [id, 0])));
  for (const [id, number] of rows.flatMap(of)) found.set(id, (found.get(id) ?? 0) + number);
  return [...found].sort(([a], [b]) => a - b);
}

function bars(list, format) {
  const most = Math.max(1, ...list.map(([, value]) => value));
  return list.map(([id, value]) => {
    const bar = h("div");
    bar.style.width = `${(100 * value) / most}%`;
    return [brokerLink(id), h("div.bar", { "aria-hidden": "true" }, bar), h("span.number", format(value))];
  });
}

function movesInProgress(moves, mayChange, again) {
  const known = moves.filter((one) => one.progress !== null);
  const whole = known.length ? known.reduce((sum, one) => sum + one.progress, 0) / known.length : null;
  const bar = h("progress", { max: "1", "aria-label": "Copied" });
  if (whole !== null) setAttribute(bar, "value", whole);
  return [
    h("div.row",
      h("h2.grow", `${plural(moves.length, "partition")} being moved`),
      bar, whole !== null && h("span.number", `${Math.floor(whole * 100)} %`),
      mayChange && h("button", () => cancelMoves(moves, again), "Cancel all")),
    h("ul.small", moves.slice(0, 20).map((one) =>
      h("li", `Partition ${one.partition}: adds ${list(one.adding)}, removes ${list(one.removing)}`))),
  ];
}

const list = (ids) => (ids.length ? `broker ${ids.join(", ")}` : "nothing");
