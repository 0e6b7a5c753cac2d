// Replication of a partition, live: how far each replica is; and the way of one record from the socket to its commit.

import { act } from "../core/dialog.js";
import { badge, count, duration, empty, events, facts, failed, getSession, h, newId, plainTable, replace, request, section, setAttribute, setText, svg, whileVisible, withQuery } from "../core/page.js";
import { partitionForm } from "./inside_partition.js";

const API = "inside/replication";
const [LEFT, RIGHT, LANE] = [110, 980, 34];

export async function show(root, view) {
  const query = { topic: view.query.get("topic"), partition: view.query.get("partition") ?? 0 };
  const body = h("div.stack");
  root.append(h("div.stack", await partitionForm(view), body));
  if (!query.topic) {
    body.append(empty("Choose a partition", h("p", "Then the log end offsets of its replicas and the high watermark move as records arrive, and you can follow one record.")));
    return;
  }
  const load = async () => {
    try {
      const state = await view.get(API, query);
      const { may_change } = await getSession();
      const picture = new Picture(state);
      const live = h("span", { role: "status" }, badge("live", "good"));
      replace(body,
        h("section.card.stack", { "aria-label": "Replicas" }, h("div.row", h("h2", "Replicas"), live), picture.node),
        follow(query, state, may_change, view));
      listen(query, picture, live, view);
    } catch (error) {
      if (!view.signal.aborted) replace(body, failed(error, load));
    }
  };
  await load();
}

function listen(query, picture, live, view) {
  whileVisible(view.signal, (signal) => events(withQuery(`${API}/events`, query), {
    state: (state) => picture.update(state),
    open: () => replace(live, badge("live", "good")),
    lost: (isOver) => replace(live, badge(isOver ? "not live" : "connecting again", "warn")),
  }, signal));
}

// A lane for each replica: a bar to its log end offset, and a line at the high watermark.
class Picture {
  constructor(state) {
    this.facts = h("div");
    this.drawing = svg("svg.inside-lanes", { role: "img" });
    this.rows = h("tbody");
    this.lanes = new Map();
    this.watermark = svg("g.watermark", svg("line", { y1: 6 }), svg("text", { y: 12, "text-anchor": "end", x: -6 }, "high watermark"));
    this.note = h("p.muted");
    this.node = h("div.stack", this.facts, this.drawing,
      plainTable("Replicas and their offsets", ["Broker", "Role", ["Log end offset", "number"], ["Behind", "number"], ["Caught up", "number"]], this.rows), this.note);
    this.update(state);
  }

  update(state) {
    const isLeader = state.leader === state.broker_id;
    const replicas = [{ broker_id: state.broker_id, end_offset: state.log_end_offset, is_in_sync: state.isr.includes(state.broker_id), caught_up_ms_ago: isLeader ? 0 : null }, ...state.followers];
    const ends = replicas.map((one) => one.end_offset ?? state.log_start_offset);
    const to = Math.max(...ends, 1);
    const lowest = Math.min(...ends, state.high_watermark);
    // The picture shows the end of the log: differences of a few records would not be seen otherwise.
    const from = Math.max(0, Math.min(lowest - (to - lowest) * 0.2, to - 20));
    const x = (offset) => LEFT + (Math.max(offset - from, 0) / (to - from || 1)) * (RIGHT - LEFT);
    const height = replicas.length * LANE + 30;
    setAttribute(this.drawing, "viewBox", `0 0 1000 ${height}`);
    setAttribute(this.drawing, "aria-label", `High watermark ${state.high_watermark}, log end offset ${state.log_end_offset}`);
    replicas.forEach((one, index) => this.#lane(one, index, x(one.end_offset ?? from), one.broker_id === state.leader));
    setAttribute(this.watermark.firstChild, "y2", height - 8);
    this.watermark.style.transform = `translateX(${x(state.high_watermark)}px)`;
    this.drawing.append(this.watermark);
    replace(this.facts, facts([["High watermark", count(state.high_watermark)], ["Log end offset", count(state.log_end_offset)], ["Not committed yet", count(state.log_end_offset - state.high_watermark)], ["In sync (ISR)", state.isr.join(", ")], ["min.insync.replicas", count(state.min_insync_replicas)], ["Leader epoch", count(state.leader_epoch)]]));
    replace(this.rows, replicas.map((one) => h("tr", h("th", { scope: "row" }, one.broker_id),
      h("td", one.broker_id === state.leader ? badge("leader", "accent") : one.is_in_sync ? badge("in sync", "good") : badge("out of sync", "bad")),
      h("td.number", count(one.end_offset)), h("td.number", isLeader && one.end_offset !== null ? count(state.log_end_offset - one.end_offset) : "–"),
      h("td.number", one.caught_up_ms_ago === null ? "–" : one.caught_up_ms_ago ? `${duration(one.caught_up_ms_ago / 1000)} ago` : "now"))));
    setText(this.note, isLeader ? "" : state.leader === null ? "The partition has no leader." : `Broker ${state.leader} leads the partition: only its console knows the other replicas.`);
    this.note.hidden = isLeader;
  }

  #lane(one, index, at, isLeader) {
    let lane = this.lanes.get(one.broker_id);
    if (!lane) {
      const y = 24 + index * LANE;
      const bar = svg("rect", { class: isLeader ? "leader" : "follower", x: LEFT, y: y + 6, width: 1, height: 14 });
      const mark = svg("circle", { class: isLeader ? "leader" : "follower", cy: y + 13, r: 7 });
      lane = { bar, mark };
      this.drawing.append(svg("text", { x: 0, y: y + 18 }, `broker ${one.broker_id}`), svg("rect.lane", { x: LEFT, y: y + 6, width: RIGHT - LEFT, height: 14, rx: 3 }), bar, mark);
      this.lanes.set(one.broker_id, lane);
    }
    lane.bar.style.transform = `translateX(${LEFT}px) scaleX(${Math.max(at - LEFT, 1)}) translateX(${-LEFT}px)`;
    lane.mark.style.transform = `translateX(${at}px)`;
    setAttribute(lane.mark, "data-sync", String(one.is_in_sync));
  }
}

const STEPS = {
  SENT: () => "The console sends the record",
  RECEIVED: (one) => `Broker ${one.broker_id} has read the Produce request from its socket`,
  APPENDED: (one, found) => `Broker ${one.broker_id} has appended it: offset ${count(found.offset)}${found.position === null ? "" : `, position ${count(found.position)} in segment ${found.segment}`}`,
  FETCHED: (one) => `Broker ${one.broker_id} has it: its next fetch begins behind it`,
  COMMITTED: () => "The high watermark has passed it: it is committed",
  ANSWERED: () => "The console has the acknowledgement (acks=all)",
};

// The form that writes a record, and its way.
function follow(query, state, mayChange, view) {
  const [key, value] = [newId("key"), newId("value")];
  const result = h("div.stack", { "aria-live": "polite" });
  const button = h("button.primary", "Write and follow");
  const isLeader = state.leader === state.broker_id;
  const send = (event) => {
    event.preventDefault();
    const data = new FormData(event.target);
    const body = { topic: query.topic, partition: Number(query.partition), value: data.get("value"), key: data.get("key") || null };
    act(button, result, async () => replace(result, way(await request("POST", `${API}/trace`, { body, signal: view.signal }))));
  };
  const why = !isLeader ? "Only the console of the partition's leader can follow a record." : !mayChange ? "You may not write with this console." : null;
  return section("Follow a record",
    why ? h("p.muted", why) : [
      h("p.muted", `This writes one record into ${query.topic}-${query.partition}. Consumers of the topic will read it.`),
      h("form.row", { onsubmit: send }, h("label", { for: key }, "Key"), h("input", { id: key, name: "key", autocomplete: "off", size: 12 }),
        h("label", { for: value }, "Value"), h("input", { id: value, name: "value", autocomplete: "off", value: "a record to follow" }), button), result]);
}

function way(found) {
  const last = Math.max(...found.steps.map((one) => one.at_us), 1);
  return [
    h("ol.inside-way", found.steps.map((one, index) => {
      const bar = h("span.bar", h("span"));
      bar.firstChild.style.width = `${(one.at_us / last) * 100}%`;
      const since = index ? one.at_us - found.steps[index - 1].at_us : 0;
      return h("li", { "data-step": one.step }, h("span", STEPS[one.step](one, found)), h("span.number", `${count(one.at_us)} µs`), h("span.number.muted", index ? `+${count(since)}` : ""), bar);
    })),
    found.missing.length > 0 && h("p.notice", `Broker ${found.missing.join(", ")} did not fetch the record within two seconds after the acknowledgement.`),
    h("p", h("a", { href: withQuery("/inside/storage", { topic: found.topic, partition: found.partition, offset: found.offset, segment: found.segment, position: found.position }) }, "See it in the file")),
  ];
}
