// The timeline of a group, live from its coordinator: generations, and members that join, get their assignment or leave.

import { address, badge, clockTime, empty, events, get, h, navigate, replace, whileVisible, withQuery } from "../core/page.js";

const SHOWN = 500;
const API = "inside/groups";
const WORDS = {
  STATE: (one) => ["The group is ", badge(one.value, { Stable: "good", Empty: "", Dead: "bad" }[one.value] ?? "warn")],
  GENERATION: (one) => [h("strong", `Generation ${one.value}`)],
  PRESENT: (one) => [member(one), " is a member"],
  JOINED: (one) => [member(one), " joins"],
  REJOINING: (one) => [member(one), " joins again"],
  SYNCED: (one) => [member(one), " has its assignment"],
  EXPIRED: (one) => [member(one), " sent no heartbeat in time"],
  LEFT: (one) => [member(one), " is no longer a member"],
};

const member = (one) => h("span.mono.small", one.client_id ? `${one.client_id} (${one.value})` : one.value);

export async function show(root, view) {
  const group = view.query.get("group");
  const input = h("input", { id: "inside-group", autocomplete: "off", spellcheck: "false", required: true, value: group ?? "" });
  const go = (event) => {
    event.preventDefault();
    navigate(withQuery("/inside/groups", { group: input.value }));
    view.refresh();
  };
  const coordinator = group && await get(`${API}/coordinator`, { query: { group }, signal: view.signal });
  const live = h("span", { role: "status" });
  const refused = h("p.notice", { role: "alert", hidden: true });
  const list = h("ol.lines.inside-timeline", { reversed: true, tabindex: "0", "aria-label": "Events, the newest first" });
  root.append(h("div.stack",
    h("form.card.row", { onsubmit: go, "aria-label": "Group" }, h("label", { for: "inside-group" }, "Group"), input, h("button.primary", "Show")),
    coordinator?.is_here ? h("section.card.stack", h("div.row", h("h2", `Timeline of ${group}`), live), refused, list)
      : instead(group, coordinator)));
  if (!coordinator?.is_here) return;
  const open = (signal) => {
    replace(list);
    events(withQuery(`${API}/events`, { group }), {
      group: (one) => {
        list.prepend(h("li", h("span", WORDS[one.kind]?.(one) ?? one.kind), h("span.muted.push", clockTime(one.at_ms))));
        while (list.children.length > SHOWN) list.lastChild.remove();
      },
      open: () => replace(live, badge("live", "good")),
      lost: (isOver) => (isOver ? explain() : replace(live, badge("connecting again", "warn"))),
    }, signal);
  };
  // A stream that is refused does not say why: an ordinary request does.
  const explain = () => get(`${API}/events`, { query: { group }, signal: view.signal }).catch((error) => {
    if (view.signal.aborted) return;
    replace(live);
    replace(refused, error.message);
    refused.hidden = false;
  });
  whileVisible(view.signal, open);
}

// What stands where the timeline would be.
function instead(group, coordinator) {
  if (!group) return empty("Choose a group", h("p", "Its coordinator tells what happens in it while you look: a rebalance shows as a generation with its members."));
  const id = coordinator.coordinator;
  if (id === null) return empty(`${group} has no coordinator now`, h("p", "A cluster has no coordinators before its first group. After the loss of a broker, another one takes over."));
  return empty(`Broker ${id} coordinates ${group}`, h("p", "The console of that broker shows the timeline."), h("p", h("a", { href: address`/brokers/${id}` }, `Go to broker ${id}`)));
}
