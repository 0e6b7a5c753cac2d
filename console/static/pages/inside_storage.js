// The files of a partition on this broker: segments, batches, indexes, and the search of an offset step by step.

import { badge, bytes, count, empty, facts, failed, h, plainTable, plural, replace, section, setQuery, svg, time } from "../core/page.js";
import { partitionForm } from "./inside_partition.js";
import { searchSteps } from "./inside_search.js";

const API = "inside/storage";
const KINDS = { batches: "Batches", offset: "Offset index", time: "Time index", transaction: "Aborted transactions" };

export async function show(root, view) {
  const body = h("div.stack");
  const detail = h("div.stack");
  const search = h("div.stack");
  root.append(h("div.stack", await partitionForm(view), body));
  const value = (name) => view.query.get(name);
  const asked = () => ({ topic: value("topic"), partition: value("partition") ?? 0 });
  let shown = null;
  let isHere = false;
  let stopSearch = null;

  async function load() {
    isHere = false;
    if (!value("topic")) {
      replace(body, empty("Choose a partition", h("p", "Then its segments, index entries and batches are shown as they are on the disk of this broker.")));
      return;
    }
    try {
      const found = await view.get(API, { ...asked(), first: value("first") });
      if (found.directory === null) {
        replace(body, empty(`This broker (${found.broker_id}) does not have ${value("topic")}-${value("partition") ?? 0}`,
          h("p", `It is on ${plural(found.replicas.length, "broker")}: ${found.replicas.join(", ")}. The console of each of them shows its copy.`)));
        return;
      }
      replace(body, overview(found, view), search, detail);
      isHere = true;
    } catch (error) {
      if (!view.signal.aborted) replace(body, failed(error, load));
    }
  }

  async function loadDetail() {
    const segment = value("segment");
    if (segment === null) return replace(detail);
    const kind = KINDS[value("show")] ? value("show") : "batches";
    const query = { ...asked(), segment };
    try {
      const page = kind === "batches"
        ? await view.get(`${API}/batches`, { ...query, position: value("position") })
        : await view.get(`${API}/index`, { ...query, index: kind, first: value("entry") });
      replace(detail, h("section.card.stack", { "aria-label": `Segment ${segment}` },
        h("div.row", h("h2", `Segment ${segment}`),
          Object.entries(KINDS).map(([name, text]) => h("button", { class: name === kind ? "primary" : null, "aria-pressed": String(name === kind), onclick: () => setQuery({ show: name, position: null, entry: null }) }, text))),
        kind === "batches" ? batches(page, value("offset")) : entries(page, kind)));
    } catch (error) {
      if (!view.signal.aborted) replace(detail, failed(error));
    }
  }

  async function loadSearch() {
    stopSearch?.();
    const input = h("input", { id: "find-offset", inputmode: "numeric", pattern: "[0-9]*", size: 14, value: value("offset") ?? "" });
    const form = h("form.row", { onsubmit: (event) => { event.preventDefault(); setQuery({ offset: input.value, step: null }, { push: true }); } },
      h("label", { for: "find-offset" }, "Find offset"), input, h("button.primary", "Search"));
    const place = h("div.stack");
    replace(search, section("How a read finds an offset", form, place));
    if (value("offset") === null) {
      replace(place, h("p.muted", "The index is sparse: it has an entry for every few KiB of the log. A read finds the segment, then the last index entry that is not above the offset, and scans the log from there."));
      return;
    }
    try {
      const found = await view.get(`${API}/search`, { ...asked(), offset: value("offset") });
      stopSearch = searchSteps(place, found, view);
    } catch (error) {
      if (!view.signal.aborted) replace(place, h("p.notice", { role: "alert" }, error.message));
    }
  }

  // Only what the address has changed is read again.
  async function update() {
    const parts = [[["topic", "partition", "first", "segment"], load], [["topic", "partition", "offset"], loadSearch], [["topic", "partition", "segment", "show", "position", "entry", "offset"], loadDetail]];
    const before = shown;
    shown = view.query;
    for (const [names, run] of parts) {
      if (!before || names.some((name) => before.get(name) !== shown.get(name))) await run();
      if (!isHere) return;
    }
  }
  view.onquery = update;
  view.signal.addEventListener("abort", () => stopSearch?.(), { once: true });
  await update();
}

function overview(found, view) {
  const first = found.first_segment;
  const last = first + found.segments.length;
  return [
    h("section.card.stack",
      facts([
        ["Log start offset", count(found.log_start_offset)], ["Last stable offset", count(found.last_stable_offset)], ["High watermark", count(found.high_watermark)],
        ["Log end offset", count(found.log_end_offset)], ["On disk up to", count(found.recovery_point)], ["Segments", count(found.segments_found)],
      ]),
      picture(found, view),
      h("p.muted.small.mono", found.directory)),
    h("section.stack", { "aria-label": "Segments" },
      segmentTable(found, view),
      found.segments_found > found.segments.length && h("div.row",
        h("button", { disabled: first === 0, onclick: () => setQuery({ first: Math.max(0, first - 100) }) }, "Older"),
        h("span.muted", `Segments ${count(first + 1)} to ${count(last)} of ${count(found.segments_found)}`),
        h("button", { disabled: last >= found.segments_found, onclick: () => setQuery({ first: last }) }, "Newer"))),
    h("div.columns",
      listCard("Leader epochs", found.leader_epochs.toReversed(), (one) => [`epoch ${one.epoch}`, `from offset ${count(one.start_offset)}`], "The log has no epochs."),
      listCard("Producers", found.producers, (one) => [`${one.producer_id}, epoch ${one.epoch}${one.transaction_start === null ? "" : `, transaction from ${count(one.transaction_start)}`}`, `sequence ${count(one.last_sequence)} at offset ${count(one.last_offset)}`], "No idempotent producer has written here.")),
  ];
}

function listCard(title, rows, line, nothing) {
  return section(title,
    rows.length ? h("ul.lines.small", rows.slice(0, 20).map((one) => { const [a, b] = line(one); return h("li", h("span", a), h("span.muted.push", b)); })) : h("p.muted", nothing));
}

// Segments on a line of offsets, with the offsets that matter to readers.
function picture(found, view) {
  const [from, to] = [found.segments[0]?.base_offset ?? 0, Math.max(found.log_end_offset, (found.segments[0]?.base_offset ?? 0) + 1)];
  const x = (offset) => 10 + ((Math.min(Math.max(offset, from), to) - from) / (to - from)) * 980;
  const marks = [["start", found.log_start_offset], ["stable", found.last_stable_offset], ["high watermark", found.high_watermark], ["end", found.log_end_offset]];
  return h("div.inside-picture",
    svg("svg", { viewBox: "0 0 1000 46", role: "img", "aria-label": `Offsets ${from} to ${to} in ${plural(found.segments.length, "segment")}`, preserveAspectRatio: "none" },
      found.segments.map((one) => svg("rect", { class: String(one.base_offset) === view.query.get("segment") ? "chosen" : one.is_active ? "active" : "", x: x(one.base_offset), y: 8, width: Math.max(x(one.next_offset) - x(one.base_offset) - 1.5, 1), height: 22, rx: 2 })),
      marks.map(([name, offset], index) => svg("line", { class: `series-${index + 1}`, x1: x(offset), x2: x(offset), y1: 2 + index, y2: 36 + 2 * index }))),
    h("ul.legend", marks.map(([name, offset], index) => h("li", svg("svg", { viewBox: "0 0 4 12", "aria-hidden": "true" }, svg("line", { class: `series-${index + 1}`, x1: 2, x2: 2, y1: 0, y2: 12 })), `${name} ${count(offset)}`))));
}

const SUFFIXES = ["log", "index", "timeindex", "txnindex", "snapshot"];

function segmentTable(found, view) {
  const size = (segment, suffix) => segment.files.find((one) => one.name.endsWith(`.${suffix}`))?.size;
  return plainTable("Segments and their files", ["Segment", ["Next offset", "number wide"], ...SUFFIXES.map((one, index) => [`.${one}`, index > 1 ? "number wide" : "number"])],
    h("tbody", found.segments.toReversed().map((one) => h("tr", { class: String(one.base_offset) === view.query.get("segment") ? "inside-chosen" : null },
      h("th", { scope: "row" }, h("button.quiet.mono", () => setQuery({ segment: one.base_offset, position: null, entry: null }, { push: true }), String(one.base_offset).padStart(20, "0")), one.is_active && [" ", badge("active", "accent")]),
      h("td.number.wide", count(one.next_offset)),
      SUFFIXES.map((suffix, index) => h("td", { class: index > 1 ? "number wide" : "number" }, bytes(size(one, suffix))))))));
}

const table = (caption, heads, rows) => plainTable(caption, heads.map((one) => [one, one === "Flags" || one === "Producer" ? null : "number"]), h("tbody", rows));
const cells = (values) => values.map((one) => h("td.number", one));

function batches(page, offset) {
  const has = (one) => offset !== null && one.base_offset <= Number(offset) && Number(offset) <= one.last_offset;
  const rows = page.batches.map((one) => h("tr", { class: has(one) ? "inside-chosen" : null },
    cells([count(one.position), bytes(one.size), `${count(one.base_offset)} – ${count(one.last_offset)}`, count(one.records)]),
    h("td", one.compression === "none" ? "" : badge(one.compression), one.is_transactional && badge("transaction", "accent"), one.is_control && badge("marker", "warn"), one.magic < 2 && badge(`magic ${one.magic}`, "warn")),
    h("td", one.producer_id < 0 ? "" : `${one.producer_id}, epoch ${one.producer_epoch}, sequence ${count(one.base_sequence)}`),
    cells([one.leader_epoch < 0 ? "" : one.leader_epoch, time(one.max_timestamp_ms)]),
    h("td.number.mono", one.crc, one.is_crc_valid === false && [" ", badge("wrong", "bad")])));
  return [
    page.batches.length ? table("Batches", ["Position", "Size", "Offsets", "Records", "Flags", "Producer", "Epoch", "Latest time", "CRC"], rows) : h("p.muted", "The segment is empty."),
    h("div.row",
      h("button", () => setQuery({ position: null }), "First"),
      h("button", { disabled: page.next_position === null, onclick: () => setQuery({ position: page.next_position }, { push: true }) }, "Next")),
  ];
}

function entries(page, kind) {
  if (!page.entries_found) return h("p.muted", kind === "transaction" ? "No transaction was aborted in this segment." : "The index is empty: a segment gets its first entry after index.interval.bytes.");
  const heads = { offset: ["Entry", "Offset", "Position"], time: ["Entry", "Time", "Offset"], transaction: ["Entry", "Producer id", "First offset", "Last offset"] }[kind];
  const row = { offset: (one) => [count(one.offset), count(one.position)], time: (one) => [time(one.timestamp_ms), count(one.offset)], transaction: (one) => [one.producer_id, count(one.offset), count(one.last_offset)] }[kind];
  const after = page.first + page.entries.length;
  return [
    table(KINDS[kind], heads, page.entries.map((one, index) => h("tr", cells([count(page.first + index), ...row(one)])))),
    h("div.row",
      h("button", { disabled: page.first === 0, onclick: () => setQuery({ entry: Math.max(0, page.first - 200) }) }, "Previous"),
      h("span.muted", `Entries ${count(page.first)} to ${count(after - 1)} of ${count(page.entries_found)}`),
      h("button", { disabled: after >= page.entries_found, onclick: () => setQuery({ entry: after }) }, "Next")),
  ];
}
