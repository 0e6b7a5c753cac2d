// All groups: state, coordinator, members and lag, searched and sorted.

import { address, badge, count, empty, get, groupLink, h, NOTHING, pageHead, plural, poll, problems, replace, setText, setTitle } from "../core/page.js";
import { searchField } from "../core/search.js";
import { Table } from "../core/table.js";

const PERIOD_MS = 5000;
const STATES = { Stable: "good", Empty: "", Dead: "bad" };

export const stateBadge = (state) => badge(state || "unknown", STATES[state] ?? (state ? "warn" : ""));

export async function show(root, view) {
  setTitle("Groups");
  let listed = await view.get("groups");
  let lags = new Map();
  let unknown = [];
  const table = new Table({ columns: columns(), key: (row) => row.group_id, caption: "Groups", view, nothing: "No group has these words." });
  const search = searchField(view, "Search groups");
  const shown = h("span.muted", { role: "status" });
  const notices = h("div");
  const body = h("div.stack");
  const list = [h("div.row", search.node, shown), table.node];

  function draw() {
    const has = search.matcher();
    const all = listed.groups.map((one) => ({ ...one, ...lags.get(one.group_id) }));
    const rows = all.filter((one) => has(one.group_id));
    setText(shown, rows.length === listed.total ? plural(listed.total, "group") : `${count(rows.length)} of ${plural(listed.total, "group")}`);
    const said = [...new Set([...listed.problems, ...unknown])];
    replace(notices, problems(said));
    const wanted = listed.total ? list : said.length ? [] : [nothing()];
    if (body.firstChild !== (wanted[0] ?? null)) replace(body, wanted);
    table.update(rows);
  }

  view.onquery = draw;
  root.append(pageHead("Groups"), h("div.stack", notices, body));
  draw();
  const askLags = async (signal) => {
    const found = await get("group-lags", { signal });
    lags = new Map(found.groups.map((one) => [one.group_id, one]));
    unknown = found.problems;
    draw();
  };
  const failed = (error) => ((unknown = [error.message]), draw());
  poll(PERIOD_MS, async (signal) => ((listed = await get("groups", { signal })), draw()), view.signal, failed);
  poll(PERIOD_MS, askLags, view.signal, failed)();
}

const nothing = () =>
  empty("There is no consumer group yet", h("p", "A group is there as soon as a consumer with a group.id joins, or offsets are committed for it."));

function columns() {
  return [
    { key: "group", head: true, value: "group_id", format: groupLink },
    { key: "state", format: stateBadge },
    { key: "protocol", wide: true, value: protocol },
    { key: "coordinator", number: true, wide: true },
    { key: "members", number: count },
    { key: "lag", number: count, title: "Records between the committed offsets and the ends of the logs" },
  ];
}

// What members speak: the type of the group; for groups of other programs (Connect) theirs.
export function protocol({ type, protocol_type }) {
  if (protocol_type && protocol_type !== "consumer") return protocol_type;
  if (!type) return NOTHING;
  return type === "consumer" ? "consumer (KIP-848)" : type;
}

export async function groupCommands() {
  const { groups } = await get("groups");
  return groups.map((one) => ({ text: one.group_id, hint: "group", href: address`/groups/${one.group_id}` }));
}
