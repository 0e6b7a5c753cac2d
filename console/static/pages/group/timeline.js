// What happened in a group since it is watched: its states, its members as bars, and each change.

import { badge, clockTime, get, h, plainTable, plural, poll, replace } from "../../core/page.js";

const PERIOD_MS = 1000;
const SHORTEST_MS = 30_000; // the axis has at least this length
const KINDS = { state: "accent", joined: "good", left: "warn", epoch: "", assignor: "", assigned: "" };

export function show(root, { signal, path }) {
  const picture = h("div.card.stack");
  const rows = h("tbody");
  let shown = 0;
  replace(root,
    h("p.muted", "The group is compared with what it was a second before, while this page is open, and every ten seconds for half an hour longer. A state that lasts shorter may be missed."),
    picture,
    plainTable("Changes, the newest first", ["Time", "What", "Change"], rows));
  poll(PERIOD_MS, async (asked) => {
    const found = await get(`${path}/timeline`, { signal: asked });
    replace(picture, h("h2", `Since ${clockTime(found.since_ms)}`), lanes(found));
    const newest = found.events.at(-1)?.at_ms ?? 0;
    if (shown === newest + found.events.length) return;
    shown = newest + found.events.length;
    replace(rows, found.events.toReversed().map((one) =>
      h("tr", h("td.mono", clockTime(one.at_ms)), h("td", badge(one.kind, KINDS[one.kind])), h("td", one.text))));
  }, signal)();
  return () => {};
}

function lanes({ since_ms, now_ms, states, members }) {
  const from = since_ms;
  const to = Math.max(now_ms, from + SHORTEST_MS);
  const at = (ms) => ((Math.min(Math.max(ms, from), to) - from) / (to - from)) * 100;
  const bar = (start, end, kind, text, words) => {
    const node = h("span.span", { "data-kind": kind || null, title: words }, text);
    node.style.left = `${at(start)}%`;
    node.style.width = `${Math.max(at(end) - at(start), 0.4)}%`;
    return node;
  };
  const lane = (label, title, spans, words) =>
    h("div.timeline-lane", h("div.lane-name", { title }, label), h("div.track", { role: "img", "aria-label": words }, spans));
  const stateSpans = states.map((one, index) => {
    const end = states[index + 1]?.from_ms ?? now_ms;
    const kind = { Stable: "good", Empty: "", Dead: "bad" }[one.state] ?? "warn";
    return bar(one.from_ms, end, kind, one.state, `${one.state}, ${clockTime(one.from_ms)} to ${clockTime(end)}`);
  });
  return h("div.lanes",
    lane("State", "State", stateSpans, `States: ${states.map((one) => one.state).join(", ")}`),
    members.map((one) => {
      const end = one.to_ms ?? now_ms;
      const spans = one.counts.map(([ms, number], index) => bar(ms, one.counts[index + 1]?.[0] ?? end, "accent", String(number), `${plural(number, "partition")} from ${clockTime(ms)}`));
      return lane(`${one.client_id || "member"} …${one.member_id.slice(-6)}`, one.member_id, spans,
        `${one.client_id}, from ${clockTime(one.from_ms)}${one.to_ms ? ` to ${clockTime(one.to_ms)}` : ""}: ${one.counts.map(([, number]) => plural(number, "partition")).join(", then ")}`);
    }),
    h("div.timeline-lane", { "aria-hidden": "true" }, h("div.lane-name"), h("div.times.muted.small", h("span", clockTime(from)), h("span", clockTime(to)))));
}
