// The groups that read a topic, with their lag; the partitions of the one that the query names.

import { address, badge, count, empty, failed, get, groupLink, h, poll, problems, replace, setQuery, setText } from "../../core/page.js";
import { Table } from "../../core/table.js";

const PERIOD_MS = 5000;

export async function show(root, view, topic) {
  let found;
  const ask = async (signal) => (found = await get(address`topics/${topic.name}/groups`, { signal }));
  await ask(view.signal);
  const groups = new Table({ view, columns: groupColumns(), key: (row) => row.group_id, caption: "Groups that read this topic", sort: "-lag" });
  const parts = new Table({ view, columns: partitionColumns(), key: (row) => row.partition, caption: "Partitions of the group", name: "partition-sort" });
  const nothing = h("div");
  const title = h("h2");
  const detail = h("section.stack", title, parts.node);
  const notes = h("div");
  const error = h("div");

  function draw() {
    replace(error);
    replace(notes, problems(found.problems));
    replace(nothing, empty(`No group ${found.problems.length ? "is known to read" : "reads"} this topic`,
      h("p", "A group appears here when one of its members reads the topic, or when it has committed offsets of it.")));
    nothing.hidden = found.groups.length > 0;
    groups.node.hidden = !nothing.hidden;
    groups.update(found.groups);
    const chosen = found.groups.find((one) => one.group_id === view.query.get("group"));
    detail.hidden = !chosen;
    setText(title, chosen ? `Partitions of ${chosen.group_id}` : "");
    parts.update(chosen?.partitions ?? []);
  }

  view.onquery = draw;
  draw();
  root.append(h("div.stack", error, notes, nothing, groups.node, detail));
  poll(PERIOD_MS, async (signal) => (await ask(signal), draw()), view.signal, (problem) => replace(error, failed(problem)));
}

function groupColumns() {
  const toggle = (row) => setQuery({ group: new URLSearchParams(location.search).get("group") === row.group_id ? null : row.group_id });
  return [
    { key: "group", head: true, value: "group_id", format: groupLink },
    { key: "state", value: "state", cell: (row) => badge(row.state || "unknown", row.state === "Stable" ? "good" : "") },
    { key: "members", number: true, wide: true, title: "Members that read this topic" },
    { key: "lag", number: count, title: "Records that the group has not committed yet" },
    { key: "partitions", number: true,
      cell: (row) => h("button", { "aria-label": `Partitions of ${row.group_id}`, onclick: () => toggle(row) }, count(row.partitions.length)) },
  ];
}

function partitionColumns() {
  return [
    { key: "partition", head: true, number: true },
    { key: "committed", number: count },
    { key: "lag", number: count },
    { key: "member", value: "client_id", cell: (row) => row.client_id ?? "none" },
    { key: "host", wide: true, value: "host", cell: (row) => row.host ?? "–" },
  ];
}
