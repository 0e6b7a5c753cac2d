// The members of a group and, as a picture, which of them has which partition.

import { address, count, empty, h, replace } from "../../core/page.js";
import { Table } from "../../core/table.js";

const COLOURS = 6;

export function show(root, view) {
  const table = new Table({ columns: columns(view.group), key: (row) => row.member_id, caption: "Members", name: "members", view });
  const picture = h("div.card.stack");
  const nobody = empty("The group has no members", h("p", "Its consumers do not run, or have not joined. Its committed offsets stay until they expire."));
  let shown = "";
  return (found) => {
    const parts = [found.members.length ? table.node : nobody, ...(found.partitions.length ? [picture] : [])];
    if (parts.some((one) => !one.isConnected || one.parentNode !== root) || root.children.length !== parts.length) replace(root, parts);
    table.update(found.members.map((one, index) => ({ ...one, number: index + 1 })));
    const state = JSON.stringify([found.members, found.partitions.map((one) => [one.topic, one.partition, one.member_id])]);
    if (state === shown) return;
    shown = state;
    replace(picture, h("h2", "Assignment"), assignment(found));
  };
}

const mark = (number) => h("span", { class: `part part-${((number - 1) % COLOURS) + 1}` }, String(number));

function columns(group) {
  const isNew = group().epoch !== null;
  return [
    { key: "number", label: "No.", format: mark },
    { key: "client", head: true, value: (row) => row.client_id,
      cell: (row) => [h("div", row.instance_id ?? row.client_id), h("div.muted.small", row.member_id)] },
    { key: "host", wide: true, value: (row) => row.host.replace(/^\//, "") },
    ...(isNew ? [{ key: "epoch", number: true, wide: true }] : []),
    { key: "count", label: "Partitions", number: true, value: (row) => size(row.assigned), cell: (row) => moving(row) },
    { key: "assigned", wide: true, cell: (row) => text(row.assigned) },
  ];
}

const size = (assigned) => (assigned ?? []).reduce((sum, one) => sum + one.partitions.length, 0);

function moving(row) {
  const target = row.target && size(row.target);
  return target === null || target === size(row.assigned) ? count(size(row.assigned)) : `${size(row.assigned)} → ${target}`;
}

function text(assigned) {
  if (!assigned) return "not a consumer's";
  return assigned.map(({ topic, partitions }) => `${topic}: ${ranges(partitions)}`).join(", ") || "nothing";
}

function ranges(numbers) {
  const found = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

function assignment(group) {
  const numbers = new Map(group.members.map((one, index) => [one.member_id, index + 1]));
  const topics = Map.groupBy(group.partitions, (one) => one.topic);
  const hidden = group.partition_count - group.partitions.length;
  return [
    h("p.muted.small", "A square is a partition, with the number of the member that reads it."),
    [...topics].map(([topic, partitions]) => h("div.topic-parts",
      h("h3", h("a", { href: address`/topics/${topic}` }, topic)),
      h("ul.parts", { "aria-label": `Partitions of ${topic}` }, partitions.map((one) => square(one, numbers.get(one.member_id)))))),
    hidden > 0 && h("p.muted", `${count(hidden)} more partitions are not shown.`),
  ];
}

function square({ partition, lag }, number) {
  const who = number ? `member ${number}` : "no member";
  const colour = number ? `part-${((number - 1) % COLOURS) + 1}` : "part-none";
  const words = `partition ${partition}: ${who}${lag === null ? "" : `, lag ${count(lag)}`}`;
  return h("li", { class: `part ${colour}`, title: words }, h("span.visually-hidden", words), h("span", { "aria-hidden": "true" }, number ?? "–"));
}
