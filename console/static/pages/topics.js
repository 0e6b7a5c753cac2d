// All topics: searched, sorted, with the health of their replicas.

import { address, get } from "/static/core/api.js";
import { h, setText } from "/static/core/dom.js";
import { count, plural } from "/static/core/format.js";
import { badge, pageHead } from "/static/core/parts.js";
import { poll } from "/static/core/poll.js";
import { setQuery, setTitle } from "/static/core/router.js";
import { Table } from "/static/core/table.js";
import { health } from "/static/pages/topic.js";

const PERIOD_MS = 5000;

export async function show(root, view) {
  setTitle("Topics");
  let topics = [];
  const ask = async (signal) => ({ topics } = await get("/api/v1/topics", { signal }));
  await ask(view.signal);
  const table = new Table({ columns: columns(), key: (row) => row.name, caption: "Topics", signal: view.signal, query: view.query, nothing: "No topic has these words." });
  const search = h("input", {
    type: "search", placeholder: "Search topics", "aria-label": "Search topics", value: view.query.get("q") ?? "",
    oninput: () => setQuery({ q: search.value }),
  });
  const internal = h("input", { type: "checkbox", onchange: () => setQuery({ internal: internal.checked ? "yes" : null }) });
  const shown = h("span", { class: "muted", role: "status" });
  const draw = () => {
    internal.checked = view.query.get("internal") === "yes";
    if (document.activeElement !== search) search.value = view.query.get("q") ?? "";
    const words = (view.query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const offered = topics.filter((one) => internal.checked || !one.is_internal);
    const rows = offered.filter((one) => words.every((word) => one.name.toLowerCase().includes(word)));
    setText(shown, rows.length === offered.length ? plural(rows.length, "topic") : `${count(rows.length)} of ${plural(offered.length, "topic")}`);
    table.update(rows);
  };
  view.onquery = draw;
  root.append(
    pageHead("Topics"),
    h("div", { class: "stack" }, h("div", { class: "row" }, search, h("label", { class: "row" }, internal, "Internal topics"), shown), table.node));
  draw();
  poll(PERIOD_MS, async (signal) => (await ask(signal), draw()), view.signal);
}

function columns() {
  return [
    { key: "name", label: "Topic", head: true, value: (row) => row.name,
      cell: (row) => [h("a", { href: address`/topics/${row.name}` }, row.name), row.is_internal && [" ", badge("internal")]].flat().filter(Boolean) },
    { key: "partitions", label: "Partitions", number: true, value: (row) => row.partitions, cell: (row) => count(row.partitions) },
    { key: "replicas", label: "Replicas", number: true, wide: true, value: (row) => row.replication_factor },
    { key: "health", label: "Health", value: (row) => row.offline * 1e6 + row.under_replicated, cell: health },
  ];
}
