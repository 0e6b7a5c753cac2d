// The overview: health in one sentence, rates of the last hour, what needs a look, and what changed recently.

import { Chart } from "../core/chart.js";
import { address, badge, brokerLink, bytes, clockTime, copyButton, count, facts, groupLink, h, pageHead, partitionName, plural, poll, rate, replace, section, setText, setTitle, time } from "../core/page.js";

const PERIOD_MS = 5000;

export async function show(root, view) {
  setTitle("Overview");
  const page = parts();
  const load = async () => update(page, await view.get("overview"));
  await load();
  poll(PERIOD_MS, async () => {
    await load();
    page.lost.hidden = true;
  }, view.signal, (error) => {
    setText(page.lost, `${error.message} The page shows what was known before.`);
    page.lost.hidden = false;
  });
  root.append(
    pageHead("Overview"),
    h("div.stack", page.lost, page.health, page.start, h("section.card", page.facts),
      h("div.pairs", page.charts.map(({ node }) => node), page.traffic.map(({ node }) => ((node.hidden = !page.found.traffic), node))),
      !page.found.traffic && h("p.muted.small", "The requests and the traffic of a broker are in the console of that broker, if it is one of Ottla."),
      h("div.pairs", page.cards.map(({ title, body }) => section(title, body)))),
  );
}

// The nodes of the page, made once: only what differs is changed later.
function parts() {
  const chart = (title, format) => {
    const made = new Chart({ label: `${title}, last hour`, format });
    return { chart: made, node: section(title, made.node) };
  };
  const list = (title, draw) => ({ title, body: h("div"), draw, shown: null });
  const perSecond = (value) => `${rate(value)}/s`;
  const bytesPerSecond = (value) => `${bytes(value)}/s`;
  return {
    lost: h("p.notice", { role: "status", hidden: true }),
    health: h("div.notice", { role: "status" }),
    start: h("section.card.stack", { hidden: true }),
    facts: h("div"),
    charts: [chart("Records written", perSecond), chart("Bytes written", bytesPerSecond)],
    traffic: [chart("Requests of this broker", perSecond), chart("Traffic of this broker", bytesPerSecond)],
    cards: [
      list("Partitions to look at", partitionsToLookAt),
      list("Groups that are behind", laggingGroups),
      list("Disk use", disks),
      list("Changed recently", changes),
    ],
  };
}

function update(page, found) {
  page.found = found;
  change(page.health, healthOf(found), ({ kind, sentence, problems }) => {
    page.health.dataset.kind = kind;
    return [h("p", h("strong", sentence)), problems.map((one) => h("p.small", one))];
  });
  change(page.facts, summary(found), facts);
  change(page.start, found.topics ? null : found.bootstrap_servers, firstCommands);
  page.start.hidden = found.topics > 0;
  drawRates(page, found);
  for (const one of page.cards) change(one.body, one.draw.pick(found), one.draw);
}

const shown = new WeakMap();

// Draws the content of a node again if what it shows differs.
function change(node, value, draw) {
  const text = JSON.stringify(value);
  if (shown.get(node) === text) return;
  shown.set(node, text);
  replace(node, value === null ? null : draw(value));
}

function healthOf({ offline, under_replicated: behind, disks, controller_id: controller, partitions, topics, problems }) {
  const failed = disks.filter((one) => one.failed_log_dirs);
  const on = plural(disks.length, "broker");
  if (offline.count) return { kind: "bad", problems, sentence: `${plural(offline.count, "partition")} of ${count(partitions)} ${offline.count === 1 ? "has" : "have"} no leader and cannot be read or written.` };
  if (failed.length) return { kind: "bad", problems, sentence: `A log directory of broker ${failed.map((one) => one.broker_id).join(", ")} has failed.` };
  if (controller === null) return { kind: "bad", problems, sentence: "The cluster has no controller now: topics cannot be changed." };
  if (behind.count) return { kind: "warn", problems, sentence: `All partitions can be read and written; ${plural(behind.count, "partition")} of ${count(partitions)} ${behind.count === 1 ? "has" : "have"} a replica that is not in sync.` };
  if (problems.length) return { kind: "warn", problems, sentence: "All partitions are in sync, but not everything answered in time." };
  if (!topics) return { kind: "good", problems, sentence: `The cluster is healthy: ${on}, no topic yet.` };
  return { kind: "good", problems, sentence: `The cluster is healthy: all ${plural(partitions, "partition")} on ${on} are in sync.` };
}

function summary(found) {
  const controller = found.controller_id;
  return [
    ["Brokers", count(found.disks.length)],
    ["Controller", controller === null ? "none" : found.disks.some((one) => one.broker_id === controller) ? `broker ${controller}` : "unknown"],
    ["Topics", count(found.topics)],
    ["Internal topics", count(found.internal_topics)],
    ["Partitions", count(found.partitions)],
    [found.has_all_groups ? "Consumer groups" : "Known groups", count(found.groups)],
  ];
}

function drawRates(page, { rates, traffic }) {
  const series = (points, index, label) => ({ label, points: points.map((one) => [one.time_ms, one.values[index]]) });
  page.charts[0].chart.update([series(rates, 0, "Records")]);
  page.charts[1].chart.update([series(rates, 1, "Bytes")]);
  if (!traffic) return;
  page.traffic[0].chart.update([series(traffic.points, 0, `Broker ${traffic.broker_id}`)]);
  page.traffic[1].chart.update([series(traffic.points, 1, "Produced"), series(traffic.points, 2, "Fetched")]);
  for (const { node } of page.traffic) node.hidden = false;
}

function firstCommands(servers) {
  const command = (text) => h("div.row.command", h("pre.grow", text), copyButton(text));
  return [
    h("h2", "The first commands to try"),
    h("p.muted", "The cluster has no topic yet. Create one, send a message and read it:"),
    command(`ottla topics create greetings --partitions 3 --bootstrap-server ${servers}`),
    command(`echo 'franz:a first message' | ottla produce greetings --key-separator : --bootstrap-server ${servers}`),
    command(`ottla consume greetings --from-beginning --bootstrap-server ${servers}`),
  ];
}

const nothing = (text) => h("p.muted", text);
const items = (list) => h("ul.lines", list.map((content) => h("li", content)));
const topicLink = (topic, tab = "") => h("a", { href: address`/topics/${topic}` + tab }, topic);

function partitionsToLookAt({ offline, behind }) {
  const seen = new Set();
  const lines = [
    ...offline.partitions.map((one) => ({ one, kind: "bad", text: "no leader" })),
    ...behind.partitions.map((one) => ({ one, kind: "warn", text: `in sync: ${one.isr.length} of ${one.replicas.length}` })),
  ].filter(({ one }) => !seen.has(partitionName(one)) && seen.add(partitionName(one)));
  if (!lines.length) return nothing("None: every partition has a leader, and all its replicas are in sync.");
  const all = Math.max(offline.count, behind.count);
  return [
    items(lines.map(({ one, kind, text }) => [topicLink(one.topic, "/partitions"), h("span", `partition ${one.partition}`), badge(text, kind)])),
    all > lines.length && nothing(`and ${count(all - lines.length)} more`),
  ];
}
partitionsToLookAt.pick = ({ offline, under_replicated: behind }) => ({ offline, behind });

function laggingGroups({ groups, lagging }) {
  if (groups === null) return nothing("The groups are not known now.");
  if (!groups) return nothing("There is no consumer group.");
  if (!lagging.length) return nothing("None: every group has read everything.");
  return items(lagging.map((one) => [groupLink(one.group_id), h("span.push", `${plural(one.lag, "record")} behind`), one.members ? null : badge("no members", "warn")]));
}
laggingGroups.pick = ({ groups, lagging_groups: lagging }) => ({ groups, lagging });

function disks(found) {
  return items(found.map((one) => {
    if (one.used_bytes === null) return [brokerLink(one.broker_id), badge("no answer", "warn")];
    const logs = `${bytes(one.used_bytes)} of logs`;
    if (one.total_bytes === null) return [brokerLink(one.broker_id), h("span.push", logs)];
    const full = 1 - one.usable_bytes / one.total_bytes;
    const inner = h("span", { "data-kind": full > 0.9 ? "bad" : full > 0.8 ? "warn" : null });
    inner.style.width = `${Math.round(100 * full)}%`;
    return [
      brokerLink(one.broker_id),
      h("span.push", `${logs}, ${bytes(one.usable_bytes)} free`),
      one.failed_log_dirs > 0 && badge(`${plural(one.failed_log_dirs, "failed directory", "failed directories")}`, "bad"),
      h("span.disk-bar", { role: "img", "aria-label": `The disk is ${Math.round(100 * full)} % full` }, inner),
    ];
  }));
}
disks.pick = (found) => found.disks;

function changes(found) {
  if (!found.length) return nothing("Nothing has changed since the console began to watch.");
  return items(found.map((one) => {
    const about = one.topic !== null ? ["Topic ", topicLink(one.topic)] : one.group !== null ? ["Group ", groupLink(one.group)] : one.broker !== null ? brokerLink(one.broker) : null;
    return [h("time.muted.small", { title: time(one.time_ms) }, clockTime(one.time_ms)), h("span.grow", about, about && " ", one.text)];
  }));
}
changes.pick = (found) => found.changes;
