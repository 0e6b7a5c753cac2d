// The page: asks /api/cluster every two seconds and changes only what is different, so that nothing flickers,
// an open topic stays open, and a selection or the focus stays where it is.

import { NOTHING, bytes, count, duration, plural, rate } from "/format.js";

const PERIOD_MS = 2000;
const TIMEOUT_MS = 5000;
const HISTORY = 60; // points of a curve: two minutes
const FILTER_FROM = 8; // with fewer topics there is nothing to search for

const $ = (id) => document.getElementById(id);
const open = new Set(); // names of the topics that show their partitions
const rows = new Map(); // topic name -> its <tbody>
let previous = null;
let answeredAt = null;
let timer = 0;

// -- small tools ----------------------------------------------------------------------------------------------------

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// Per second since the answer before; null where there is none, or the broker was restarted in between.
function perSecond(now, before, seconds) {
  if (before === undefined || seconds <= 0 || now < before) return null;
  return (now - before) / seconds;
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

// -- rates ----------------------------------------------------------------------------------------------------------

const RATES = [
  { name: "Requests", unit: "/s", counter: "requests", format: rate },
  { name: "Messages in", unit: "/s", counter: "produced_records", format: rate },
  { name: "Bytes in", unit: "/s", counter: "produced_bytes", format: bytes },
  { name: "Bytes out", unit: "/s", counter: "fetched_bytes", format: bytes },
];

function makeRates() {
  const svg = "http://www.w3.org/2000/svg";
  for (const one of RATES) {
    one.history = [];
    one.value = element("span", { class: "value" }, NOTHING);
    one.unitNode = element("span", { class: "unit" }, "");
    one.area = document.createElementNS(svg, "path");
    one.area.setAttribute("class", "area");
    one.line = document.createElementNS(svg, "path");
    one.line.setAttribute("class", "line");
    const curve = document.createElementNS(svg, "svg");
    curve.setAttribute("viewBox", "0 0 100 24");
    curve.setAttribute("preserveAspectRatio", "none");
    curve.setAttribute("aria-hidden", "true");
    curve.append(one.area, one.line);
    const value = element("dd", {}, one.value, one.unitNode, curve);
    $("rates").append(element("div", {}, element("dt", {}, one.name), value));
  }
}

function updateRates(cluster, seconds) {
  for (const one of RATES) {
    const value = perSecond(cluster.counters[one.counter], previous?.counters[one.counter], seconds);
    const [number, unit = ""] = value === null ? [NOTHING] : one.format(value).split(" ");
    setText(one.value, number);
    setText(one.unitNode, value === null ? "" : ` ${unit}${one.unit}`);
    if (value !== null) one.history.push(value);
    else if (previous === null) one.history.length = 0; // else a topic was deleted, and its counters with it
    if (one.history.length > HISTORY) one.history.shift();
    draw(one);
  }
}

function draw({ history, line, area }) {
  const most = Math.max(...history, 1e-9);
  const step = 100 / (HISTORY - 1);
  const start = 100 - (history.length - 1) * step;
  const points = history.map((value, i) => `${(start + i * step).toFixed(1)},${(23 - (value / most) * 21).toFixed(1)}`);
  const path = points.length > 1 ? `M${points.join("L")}` : "";
  line.setAttribute("d", path);
  area.setAttribute("d", path && `${path}L100,24L${start.toFixed(1)},24Z`);
}

// -- topics ---------------------------------------------------------------------------------------------------------

function health(topic) {
  const offline = topic.partitions.filter((one) => one.leader === null).length;
  const behind = topic.partitions.filter((one) => one.isr.length < one.replicas.length).length;
  if (offline) return { state: "bad", text: `${plural(offline, "partition")} offline` };
  if (behind) return { state: "warning", text: `${plural(behind, "partition")} under-replicated` };
  return null;
}

function messages(partition) {
  return partition.log_end_offset === null ? 0 : partition.log_end_offset - partition.log_start_offset;
}

function makeTopic(topic) {
  const id = `partitions-${rows.size}-${topic.id}`;
  const button = element("button", { type: "button", "aria-expanded": "false", "aria-controls": id });
  button.append(element("span", { class: "name" }, topic.name));
  const name = element("th", { scope: "row" }, button);
  if (topic.is_internal) name.append(element("span", { class: "tag" }, "internal"));
  const warning = element("span", { class: "tag", hidden: "" });
  const narrow = element("span", { class: "narrow" });
  name.append(warning, narrow);
  const cells = {};
  const row = element("tr", {}, name);
  for (const key of ["partitions", "messages", "in", "out", "size"]) {
    const wide = ["partitions", "in", "out"].includes(key) ? " wide" : "";
    cells[key] = element("td", { class: `number${wide}` });
    row.append(cells[key]);
  }
  const details = element("tr", { class: "details", id, hidden: "" }, element("td", { colspan: "6" }));
  const body = element("tbody", {}, row, details);
  Object.assign(body, { button, cells, warning, narrow, details, partitions: null, topicId: topic.id });
  button.addEventListener("click", () => {
    if (!open.delete(topic.name)) open.add(topic.name);
    const current = previous?.topics.find((one) => one.name === topic.name);
    if (current) updatePartitions(body, current);
  });
  return body;
}

function updateTopic(body, topic, before, seconds) {
  const { cells, warning, narrow } = body;
  const inRate = perSecond(topic.produced_records, before?.produced_records, seconds);
  const outRate = perSecond(topic.fetched_bytes, before?.fetched_bytes, seconds);
  setText(cells.partitions, count(topic.partitions.length));
  setText(cells.messages, count(sum(topic.partitions.map(messages))));
  setText(cells.in, inRate === null ? NOTHING : `${rate(inRate)}/s`);
  setText(cells.out, outRate === null ? NOTHING : `${bytes(outRate)}/s`);
  setText(cells.size, bytes(sum(topic.partitions.map((one) => one.size_bytes ?? 0))));
  setText(narrow, plural(topic.partitions.length, "partition") + (inRate ? `, ${rate(inRate)}/s in` : ""));
  const problem = health(topic);
  show(warning, problem !== null);
  if (problem) {
    setText(warning, problem.text);
    warning.dataset.state = problem.state;
  }
  updatePartitions(body, topic);
}

const PARTITION_COLUMNS = [
  ["Partition", (one) => count(one.partition)],
  ["Start", (one) => count(one.log_start_offset)],
  ["High watermark", (one) => count(one.high_watermark)],
  ["End", (one) => count(one.log_end_offset)],
  ["Size", (one) => bytes(one.size_bytes)],
  ["Leader", (one) => (one.leader === null ? "none" : String(one.leader))],
  ["Replicas", (one) => one.replicas.join(", ")],
  ["In sync", (one) => one.isr.join(", ")],
];

function updatePartitions(body, topic) {
  const isOpen = open.has(topic.name);
  const expanded = String(isOpen);
  if (body.button.getAttribute("aria-expanded") !== expanded) body.button.setAttribute("aria-expanded", expanded);
  show(body.details, isOpen);
  if (!isOpen) return;
  if (body.partitions === null) {
    const head = element("tr");
    for (const [name] of PARTITION_COLUMNS) head.append(element("th", { scope: "col" }, name));
    body.partitions = element("tbody");
    const caption = element("caption", { class: "visually-hidden" }, `Partitions of ${topic.name}`);
    const table = element("table", { class: "partitions" }, caption, element("thead", {}, head), body.partitions);
    const scroller = { class: "scroller", role: "region", tabindex: "0", "aria-label": `Partitions of ${topic.name}` };
    body.details.firstChild.append(element("div", scroller, table));
  }
  const list = body.partitions;
  while (list.rows.length > topic.partitions.length) list.deleteRow(-1);
  topic.partitions.forEach((partition, index) => {
    let row = list.rows[index];
    if (!row) {
      row = list.insertRow();
      PARTITION_COLUMNS.forEach((_, column) => row.append(column ? element("td") : element("th", { scope: "row" })));
    }
    const behind = partition.isr.length < partition.replicas.length;
    const state = partition.leader === null ? "bad" : behind ? "warning" : "";
    if ((row.dataset.state ?? "") !== state) row.dataset.state = state;
    PARTITION_COLUMNS.forEach(([, text], column) => setText(row.cells[column], text(partition)));
  });
}

function updateTopics(cluster, seconds) {
  const table = $("topics");
  const wanted = $("filter").value.trim().toLowerCase();
  const before = new Map(previous?.topics.map((topic) => [topic.name, topic]));
  const names = new Set(cluster.topics.map((topic) => topic.name));
  for (const [name, body] of rows) {
    if (names.has(name)) continue;
    body.remove();
    rows.delete(name);
    open.delete(name);
  }
  let at = table.tHead.nextElementSibling;
  let matching = 0;
  for (const topic of cluster.topics) {
    let body = rows.get(topic.name);
    if (body && body.topicId !== topic.id) { // deleted and created again
      if (at === body) at = body.nextElementSibling;
      body.remove();
      body = undefined;
    }
    if (!body) {
      body = makeTopic(topic);
      rows.set(topic.name, body);
    }
    if (at === body) at = body.nextElementSibling;
    else table.insertBefore(body, at);
    const matches = topic.name.toLowerCase().includes(wanted);
    matching += matches;
    show(body, matches);
    updateTopic(body, topic, before.get(topic.name), seconds);
  }
  show($("filter"), cluster.topics.length >= FILTER_FROM || wanted !== "");
  show($("no-match"), cluster.topics.length > 0 && matching === 0);
  show($("empty"), cluster.topics.length === 0);
  show(table, matching > 0);
  updateTopicsSummary(cluster);
}

function updateTopicsSummary(cluster) {
  const partitions = cluster.topics.flatMap((topic) => topic.partitions);
  const offline = partitions.filter((one) => one.leader === null).length;
  const behind = partitions.filter((one) => one.isr.length < one.replicas.length).length;
  const parts = [`${count(cluster.topics.length)} with ${plural(partitions.length, "partition")}`];
  if (offline) parts.push(`${count(offline)} offline`);
  if (behind) parts.push(`${count(behind)} under-replicated`);
  setText($("topics-summary"), cluster.topics.length ? parts.join(", ") : "");
}

// -- brokers, empty state, everything -------------------------------------------------------------------------------

function updateBrokers(cluster) {
  const body = $("brokers").tBodies[0];
  while (body.rows.length > cluster.brokers.length) body.deleteRow(-1);
  cluster.brokers.forEach((broker, index) => {
    let row = body.rows[index];
    if (!row) {
      row = body.insertRow();
      row.append(element("th", { scope: "row" }), element("td", { class: "address" }), element("td"));
    }
    const roles = [];
    if (broker.id === cluster.controller.id) roles.push(`controller, epoch ${cluster.controller.epoch}`);
    if (broker.id === cluster.broker_id) roles.push("this broker");
    setText(row.cells[0], String(broker.id));
    const addresses = broker.listeners.map((one) => `${one.host}:${one.port}`);
    setText(row.cells[1], addresses.join(", ") + (broker.rack ? ` (rack ${broker.rack})` : ""));
    setText(row.cells[2], roles.join("; "));
  });
  setText($("brokers-summary"), `${plural(cluster.connections, "connection")} to this broker`);
}

function updateCommands(commands) {
  const list = $("commands");
  commands.forEach((command, index) => {
    const item = list.children[index] ?? list.appendChild(element("li", {}, element("code")));
    if (item.textContent === command) return;
    const words = command.split(" ").flatMap((word) => [" ", element("span", {}, word)]);
    item.firstChild.replaceChildren(...words.slice(1));
  });
}

function update(cluster) {
  const seconds = previous ? cluster.uptime_s - previous.uptime_s : 0;
  if (seconds < 0) previous = null; // the broker was restarted
  setText(
    $("identity"),
    `Broker ${cluster.broker_id} of cluster ${cluster.cluster_id}` +
      (cluster.version === "unknown" ? "" : `, version ${cluster.version}`) +
      `, up\u00a0${duration(cluster.uptime_s).replace(" ", "\u00a0")}`,
  );
  updateRates(cluster, seconds);
  updateTopics(cluster, seconds);
  updateBrokers(cluster);
  updateCommands(cluster.commands);
  show($("content"), true);
  previous = cluster;
  if (cluster.not_ready) setState("waiting", "Not ready", `Not ready: ${cluster.not_ready}.`);
  else setState("ready", "Ready", storageNotice(cluster.log_dirs));
}

function storageNotice(directories) {
  return directories
    .filter((one) => one.failure !== null || one.is_full)
    .map((one) => (one.failure === null ? `Log directory ${one.path} is full.` : `Log directory failed: ${one.failure}.`))
    .join(" ");
}

function setState(state, label, notice) {
  const node = $("state");
  if (node.dataset.state !== state) node.dataset.state = state;
  setText(node, label);
  setText($("notice"), notice);
  show($("notice"), notice !== "");
  document.body.classList.toggle("stale", state === "lost");
}

function lost() {
  const since = answeredAt === null ? "" : ` Last answer at ${new Date(answeredAt).toLocaleTimeString()}.`;
  setState("lost", "No answer", `The broker does not answer.${since} Trying again every ${PERIOD_MS / 1000} seconds.`);
}

async function poll() {
  clearTimeout(timer);
  try {
    const answer = await fetch("/api/cluster", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const cluster = await answer.json();
    answeredAt = Date.now();
    update(cluster);
  } catch (error) {
    console.warn(error);
    lost();
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(poll, PERIOD_MS);
}

makeRates();
$("filter").addEventListener("input", () => previous && updateTopics(previous, 0));
document.addEventListener("visibilitychange", () => document.hidden || poll());
poll();
