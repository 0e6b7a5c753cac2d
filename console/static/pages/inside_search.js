// The search of an offset, one comparison at a time: buttons, arrow keys, or by itself.

import { count, h, plural, replace, setQuery, setText, svg } from "../core/page.js";

const PAUSE_MS = 900;

// A step: what is searched, how many there are, which are left, which one is compared, and what follows from it.
function stepsOf(found) {
  const steps = [];
  const offset = count(found.offset);
  if (!found.segment_steps.length) steps.push({ phase: "Segment", text: `The active segment begins at offset ${count(found.base_offset)}, which is not above ${offset}: no search is needed.`, size: found.segments, low: found.segments - 1, high: found.segments, at: found.segments - 1 });
  for (const one of found.segment_steps) {
    const isBelow = one.base_offset <= found.offset;
    steps.push({ phase: "Segment", size: found.segments, low: one.low, high: one.high, at: one.number,
      text: `Segment ${count(one.number + 1)} of ${count(found.segments)} begins at offset ${count(one.base_offset)}, ${isBelow ? "not above" : "above"} ${offset}: go on in the ${isBelow ? "upper" : "lower"} half.` });
  }
  if (!found.index_steps.length) steps.push({ phase: "Index", text: "The index of the segment is empty: the scan begins at the start of the file.", size: 1, low: 0, high: 0, at: null });
  for (const one of found.index_steps) {
    const isBelow = one.offset <= found.offset;
    steps.push({ phase: "Index", size: found.index_entries, low: one.low, high: one.high, at: one.slot,
      text: `Entry ${count(one.slot)} of ${count(found.index_entries)} says: offset ${count(one.offset)} is at position ${count(one.position)}. That is ${isBelow ? "not above" : "above"} ${offset}: go on in the ${isBelow ? "upper" : "lower"} half.` });
  }
  found.scanned.forEach((one, index) => {
    const isLast = index === found.scanned.length - 1;
    const number = isLast ? found.scanned_batches : index + 1;
    const range = `offsets ${count(one.base_offset)} to ${count(one.last_offset)}`;
    steps.push({ phase: "Scan", size: found.scanned.length, low: index, high: found.scanned.length, at: index,
      text: `${index ? `Batch ${count(number)} of the scan` : `The scan begins at position ${count(found.indexed_position)}: the batch at ${count(one.position)}`} has ${range}${isLast && found.is_found ? `: this is it, ${count(one.size)} bytes at position ${count(one.position)}.` : ", all below: read the next header."}` });
  });
  return steps;
}

// Shows the steps in a node; returns the function that ends them.
export function searchSteps(place, found, view) {
  const steps = stepsOf(found);
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let at = Math.min(Math.max(Number(view.query.get("step") ?? 1), 1), steps.length) - 1;
  let timer = 0;
  const text = h("p", { "aria-live": "polite" });
  const number = h("span.muted");
  const drawing = svg("svg", { viewBox: "0 0 1000 40", "aria-hidden": "true", preserveAspectRatio: "none" });
  const phases = h("ol.inside-phases");
  const back = h("button", () => go(at - 1), "Back");
  const next = h("button", () => go(at + 1), "Next");
  const play = h("button.primary", { hidden: isStill, onclick: () => (timer ? stop() : start()) }, "Play");
  const region = h("div.stack.inside-steps", { tabindex: "0", role: "group", "aria-label": "Steps of the search; arrow keys go back and forth", onkeydown: onKey },
    phases, drawing, text, h("div.row", back, next, play, number));

  function onKey(event) {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -steps.length, End: steps.length }[event.key];
    if (!move) return;
    event.preventDefault();
    stop();
    go(at + move);
  }

  function go(wanted) {
    at = Math.min(Math.max(wanted, 0), steps.length - 1);
    setQuery({ step: at + 1 });
    draw();
  }

  function start() {
    if (at === steps.length - 1) go(0);
    timer = setInterval(() => (at < steps.length - 1 ? go(at + 1) : stop()), PAUSE_MS);
    setText(play, "Pause");
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    setText(play, "Play");
  }

  function draw() {
    const step = steps[at];
    setText(text, step.text);
    setText(number, `Step ${at + 1} of ${steps.length}`);
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
    replace(phases, ["Segment", "Index", "Scan"].map((name) => h("li", { "aria-current": name === step.phase ? "step" : null }, name, " ", h("span.muted.small", plural(steps.filter((one) => one.phase === name).length, "step")))));
    const x = (slot) => (slot / Math.max(step.size, 1)) * 1000;
    const width = Math.max(x(step.high) - x(step.low), 2);
    replace(drawing,
      svg("rect.all", { x: 0, y: 10, width: 1000, height: 20 }),
      svg("rect.left", { x: x(step.low), y: 10, width, height: 20 }),
      step.size <= 60 && [...Array(Math.max(step.size - 1, 0)).keys()].map((slot) => svg("line.cut", { x1: x(slot + 1), x2: x(slot + 1), y1: 10, y2: 30 })),
      step.at !== null && svg("rect.probe", { x: x(step.at), y: 4, width: Math.max(x(1), 4), height: 32 }));
  }

  replace(place, region);
  draw();
  return stop;
}
