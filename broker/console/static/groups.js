// The groups that this broker coordinates, with their lag in each partition.

import { $, setText, show } from "/dom.js";
import { NOTHING, count, plural, sum } from "/format.js";
import { OpeningTable } from "/opening_table.js";

const table = new OpeningTable($("groups"), {
  name: (group) => group.group_id,
  id: (group) => group.type,
  cells: { state: false, members: false, partitions: false, lag: true },
  tag: () => null,
  problem: () => null,
  texts: (group) => ({
    state: stateOf(group),
    members: count(group.members),
    partitions: count(group.offsets.length),
    lag: lagOf(group),
    narrow: `${stateOf(group)}, ${plural(group.members, "member")}`,
  }),
  details: (group) => group.offsets,
  caption: (group) => `Committed offsets of ${group.group_id}`,
  columns: [
    ["Partition", (one) => `${one.topic}-${one.partition}`],
    ["Committed", (one) => count(one.committed_offset)],
    ["High watermark", (one) => count(one.high_watermark)],
    ["Lag", (one) => count(one.lag)],
  ],
  state: () => "",
});

// PreparingRebalance becomes "Preparing rebalance".
function stateOf(group) {
  return group.state.replace(/\B[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

// Sums the partitions of this broker; the lag is unknown if all partitions are on other brokers.
function lagOf(group) {
  const known = group.offsets.map((one) => one.lag).filter((lag) => lag !== null);
  return known.length || !group.offsets.length ? count(sum(known)) : NOTHING;
}

export function updateGroups({ groups }) {
  table.update(groups);
  setText($("groups-summary"), `${count(groups.length)} coordinated by this broker`);
  show($("groups-section"), groups.length > 0);
}
