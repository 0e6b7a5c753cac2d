// The lag of a group: its last half hour, and each partition.

import { Chart } from "../../core/chart.js";
import { count, get, h, PARTITION, partitionName, poll, rate, replace, section, svg } from "../../core/page.js";
import { Table } from "../../core/table.js";
import { progressText } from "../group.js";

const PERIOD_MS = 10_000;
const CHARTED = 5;

export function show(root, view) {
  const { signal, path } = view;
  const chart = new Chart({ label: "Lag in records", format: count });
  const note = h("p.muted.small", "Sampled every ten seconds while somebody looks at this group, and half an hour longer.");
  const chosen = h("p.muted.small");
  let lines = new Map();
  let last = null;
  const table = new Table({ columns: columns((row) => lines.get(partitionName(row))), key: partitionName, caption: "Lag by partition", sort: "-lag", view, nothing: "The group has no committed offsets." });
  replace(root, section("Lag of the last half hour", chart.node, chosen, note), table.node);
  const draw = (found) => table.update(found.partitions);
  poll(PERIOD_MS, async (asked) => {
    const found = await get(`${path}/lag-history`, { signal: asked });
    lines = new Map(found.partitions.map((one) => [partitionName(one), one.lags]));
    const line = (lags) => found.times_ms.map((ms, index) => [ms, lags[index]]);
    const many = found.partitions.length;
    const most = many > 1 ? found.partitions.toSorted((a, b) => b.lags.at(-1) - a.lags.at(-1)).slice(0, CHARTED) : [];
    replace(chosen, many > CHARTED && `Besides the sum, the chart has the ${CHARTED} partitions with the largest lag, of ${count(many)}.`);
    chart.update([{ label: "All partitions", points: line(found.total) }, ...most.map((one) => ({ label: partitionName(one), points: line(one.lags) }))]);
    if (last) draw(last);
  }, signal)();
  return (found) => draw((last = found));
}

function columns(lagsOf) {
  return [
    PARTITION,
    { key: "lag", number: count },
    { key: "spark", label: "Half hour", wide: true, cell: (row) => spark(lagsOf(row)) },
    { key: "progress", value: (row) => row.progress?.caught_up_in_s ?? row.progress?.status, cell: (row) => progressText(row.progress) },
    { key: "read", label: "Read/s", number: true, wide: true, value: (row) => row.progress?.consumed_per_s ?? -1, cell: (row) => rate(row.progress?.consumed_per_s) },
    { key: "written", label: "Written/s", number: true, wide: true, value: (row) => row.progress?.produced_per_s ?? -1, cell: (row) => rate(row.progress?.produced_per_s) },
    { key: "committed", number: count },
    { key: "end", label: "End of log", number: count, wide: true },
  ];
}

function spark(lags) {
  if (!lags || lags.length < 2) return "";
  const top = Math.max(1, ...lags.map((one) => one ?? 0));
  const points = lags.map((lag, index) => `${((index / (lags.length - 1)) * 100).toFixed(1)},${(19 - ((lag ?? 0) / top) * 18).toFixed(1)}`);
  return svg("svg.spark", { viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": `from ${count(lags[0])} to ${count(lags.at(-1))}, at most ${count(top)}` },
    svg("polyline.series-1", { points: points.join(" ") }));
}
