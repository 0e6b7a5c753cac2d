// Resets the committed offsets of a group. First it shows old and new offsets; only these are then committed.

import { act, field } from "../../core/dialog.js";
import { address, count, h, NOTHING, partitionName, plainTable, plural, post, replace, setQuery } from "../../core/page.js";
import { attempt, toast } from "../../core/toast.js";

const TARGETS = {
  earliest: ["The first record", null],
  latest: ["The end of the log: only new records", null],
  time: ["A time", "To the first record at or after", "datetime-local"],
  duration: ["Some time ago", "Minutes ago", "number"],
  shift: ["Back or forward", "Records (negative: back)", "number"],
  offset: ["An offset", "Offset", "number"],
  explicit: ["An offset for each partition", null],
};

export function show(root, { query, group, path, may, refresh }) {
  const to = h("select", { onchange: changed }, Object.entries(TARGETS).map(([value, [text]]) => h("option", { value, selected: value === query.get("to") }, text)));
  const value = h("input", { oninput: changed, step: "any" });
  const topic = h("select", { onchange: changed });
  const valueField = field("", value);
  const each = h("div.offsets");
  const outcome = h("div.stack", { "aria-live": "polite" });
  const refused = h("p.notice", { role: "status", hidden: true });
  const button = h("button.primary", "Show what changes");
  const form = h("form.card.stack", { onsubmit: plan },
    h("div.columns",
      field("Reset to", to), valueField,
      field("Topic", topic)),
    each, h("div", button), h("p.muted.small", "Nothing is changed before you have seen old and new offsets."));
  let topics = null;
  value.value = query.get("value") ?? "";
  replace(root, refused, form, outcome);

  function changed() {
    setQuery({ to: to.value, value: valueField.hidden ? null : value.value, topic: topic.value });
    draw();
    replace(outcome);
  }

  function draw() {
    const [, text, type] = TARGETS[to.value];
    valueField.hidden = !text;
    value.required = Boolean(text);
    if (text && value.type !== type) value.type = type;
    replace(valueField.firstChild, text);
    each.hidden = to.value !== "explicit";
    if (!each.hidden) {
      const rows = group().partitions.filter((one) => !topic.value || one.topic === topic.value);
      replace(each, rows.map((one) => {
        return h("label.row", h("span.grow", partitionName(one)), h("input", { type: "number", min: 0, "data-topic": one.topic, "data-partition": one.partition, value: one.committed ?? "", placeholder: "unchanged" }));
      }));
    }
  }

  function asked() {
    const body = { to: to.value, topic: topic.value || null };
    if (to.value === "time") body.value = new Date(value.value).getTime();
    else if (to.value === "duration") body.value = Math.round(Number(value.value) * 60_000);
    else if (value.required) body.value = Number(value.value);
    if (to.value !== "explicit") return body;
    const inputs = [...each.querySelectorAll("input")].filter((one) => one.value !== "");
    return { to: "explicit", offsets: inputs.map((one) => ({ topic: one.dataset.topic, partition: Number(one.dataset.partition), offset: Number(one.value) })) };
  }

  function plan(event) {
    event.preventDefault();
    act(button, outcome, async () => replace(outcome, shownPlan(await post(`${path}/offsets:plan`, asked()), apply)));
  }

  // isBack: to the earlier offsets, with what was committed with them.
  async function apply(changes, isBack = false) {
    const body = changes.map(({ topic: name, partition, current, new: offset, leader_epoch, metadata }) => (
      { topic: name, partition, offset, current, ...(isBack && { leader_epoch, metadata }) }));
    const isDone = await attempt(() => post(`${path}/offsets:apply`, { offsets: body }));
    if (!isDone) return;
    replace(outcome);
    const back = changes.map((one) => ({ ...one, current: one.new, new: one.current }));
    const undo = back.every((one) => one.new !== null) ? () => apply(back, !isBack) : null;
    toast(`${plural(changes.length, "offset")} of ${group().group_id} reset.`, { undo, link: { href: address`/groups/${group().group_id}/lag`, text: "Show lag" } });
    refresh();
  }

  return (found) => {
    const names = [...new Set(found.partitions.map((one) => one.topic))];
    if (String(names) !== topics) {
      const chosen = topics === null ? query.get("topic") : topic.value;
      topics = String(names);
      replace(topic, h("option", { value: "" }, "All topics with committed offsets"), names.map((one) => h("option", { value: one, selected: one === chosen }, one)));
      draw();
    }
    const why = !may
      ? "You may look, but not change anything here."
      : found.state !== "Empty" && `Group ${found.group_id} is ${found.state} with ${plural(found.member_count, "member")}. Its offsets can be changed only while it has none: stop its consumers first.`;
    refused.hidden = !why;
    if (refused.textContent !== (why || "")) replace(refused, why);
    button.disabled = Boolean(why);
  };
}

function shownPlan({ offsets, problems }, apply) {
  const changes = offsets.filter((one) => one.current !== one.new);
  const said = problems.map((one) => h("p.notice", one));
  if (!changes.length) return [said, h("p.notice", { role: "status" }, "Nothing would change: the committed offsets are there already.")];
  const difference = ({ current, new: offset }) => (current === null ? NOTHING : `${offset > current ? "+" : ""}${count(offset - current)}`);
  const columns = ["Partition", ...["Committed", "New", "Difference", "Lag then"].map((text) => [text, "number"]), ""];
  const rows = offsets.slice(0, 1000).map((one) =>
    h("tr", h("th", { scope: "row" }, partitionName(one)), h("td.number", count(one.current)), h("td.number", count(one.new)),
      h("td.number", difference(one)), h("td.number", count(one.end - one.new)), h("td.muted", one.note)));
  return [
    said,
    plainTable("Old and new offsets", columns, h("tbody", rows)),
    h("div", h("button.primary.danger", () => apply(changes), `Reset ${plural(changes.length, "offset")}`)),
  ];
}
