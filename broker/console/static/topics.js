// The topics: their rates since the previous answer, and their partitions.

import { $, setText, show } from "/dom.js";
import { NOTHING, bytes, count, perSecond, plural, rate, sum } from "/format.js";
import { OpeningTable } from "/opening_table.js";

const FILTER_FROM = 8; // with fewer topics no filter is needed

const table = new OpeningTable($("topics"), {
  name: (topic) => topic.name,
  id: (topic) => topic.id,
  cells: { partitions: false, offsets: true, in: false, out: false, size: true },
  tag: (topic) => (topic.is_internal ? "internal" : null),
  problem(topic) {
    const { offline, behind } = troubles(topic.partitions);
    if (offline) return { state: "bad", text: `${plural(offline, "partition")} offline` };
    if (behind) return { state: "warning", text: `${plural(behind, "partition")} under-replicated` };
    return null;
  },
  texts(topic, { before, seconds }) {
    const then = before.get(topic.name);
    const inRate = perSecond(topic.produced_records, then?.produced_records, seconds);
    const outRate = perSecond(topic.fetched_bytes, then?.fetched_bytes, seconds);
    return {
      partitions: count(topic.partitions.length),
      offsets: count(sum(topic.partitions.map(offsets))),
      in: inRate === null ? NOTHING : `${rate(inRate)}/s`,
      out: outRate === null ? NOTHING : `${bytes(outRate)}/s`,
      size: bytes(sum(topic.partitions.map((one) => one.size_bytes ?? 0))),
      narrow: plural(topic.partitions.length, "partition") + (inRate ? `, ${rate(inRate)}/s in` : ""),
    };
  },
  details: (topic) => topic.partitions,
  caption: (topic) => `Partitions of ${topic.name}`,
  columns: [
    ["Partition", (one) => count(one.partition)],
    ["Start", (one) => count(one.log_start_offset)],
    ["High watermark", (one) => count(one.high_watermark)],
    ["End", (one) => count(one.log_end_offset)],
    ["Size", (one) => bytes(one.size_bytes)],
    ["Leader", (one) => (one.leader === null ? "none" : String(one.leader))],
    ["Replicas", (one) => one.replicas.join(", ")],
    ["In sync", (one) => one.isr.join(", ")],
  ],
  state: (partition) => (partition.leader === null ? "bad" : isBehind(partition) ? "warning" : ""),
});

function isBehind(partition) {
  return partition.isr.length < partition.replicas.length;
}

function troubles(partitions) {
  return {
    offline: partitions.filter((one) => one.leader === null).length,
    behind: partitions.filter(isBehind).length,
  };
}

// Not records: a control record takes an offset, too, and compaction leaves gaps.
function offsets(partition) {
  return partition.log_end_offset === null ? 0 : partition.log_end_offset - partition.log_start_offset;
}

// `previous` is the previous answer, or null; it is `seconds` older.
export function updateTopics({ topics }, previous, seconds) {
  const wanted = $("filter").value.trim().toLowerCase();
  const before = new Map(previous?.topics.map((topic) => [topic.name, topic]));
  const matching = table.update(topics, { before, seconds }, (topic) => topic.name.toLowerCase().includes(wanted));
  show($("filter"), topics.length >= FILTER_FROM || wanted !== "");
  show($("no-match"), topics.length > 0 && matching === 0);
  show($("empty"), topics.length === 0);
  show($("topics"), matching > 0);
  updateSummary(topics);
}

function updateSummary(topics) {
  const partitions = topics.flatMap((topic) => topic.partitions);
  const { offline, behind } = troubles(partitions);
  const parts = [`${count(topics.length)} with ${plural(partitions.length, "partition")}`];
  if (offline) parts.push(`${count(offline)} offline`);
  if (behind) parts.push(`${count(behind)} under-replicated`);
  setText($("topics-summary"), topics.length ? parts.join(", ") : "");
}
