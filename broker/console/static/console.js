// The page: requests /api/cluster every two seconds and changes only the nodes that differ.

import { $, element, setText, show } from "/dom.js";
import { NOTHING, bytes, count, duration, perSecond, plural, rate } from "/format.js";
import { updateGroups } from "/groups.js";
import { updateTopics } from "/topics.js";

const PERIOD_MS = 2000;
const TIMEOUT_MS = 5000;
const HISTORY = 60; // points of a curve: two minutes

let previous = null;
let answeredAt = null;
let timer = 0;

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
    else if (previous === null) one.history.length = 0; // otherwise a topic was deleted, with its counters
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
  updateTopics(cluster, previous, seconds);
  updateGroups(cluster);
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

function refused(reason) {
  setState("lost", "Refused", `${reason} Trying again every ${PERIOD_MS / 1000} seconds.`);
}

async function poll() {
  clearTimeout(timer);
  try {
    const answer = await fetch("/api/cluster", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (answer.status === 401 || answer.status === 403) {
      refused((await answer.json()).error);
    } else {
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const cluster = await answer.json();
      answeredAt = Date.now();
      update(cluster);
    }
  } catch (error) {
    console.warn(error);
    lost();
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(poll, PERIOD_MS);
}

makeRates();
$("filter").addEventListener("input", () => previous && updateTopics(previous, null, 0));
document.addEventListener("visibilitychange", () => document.hidden || poll());
poll();
