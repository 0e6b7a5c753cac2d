// What destroys data of a topic: deleting records, deleting the topic. Each says first what it will do.

import { act, confirmDialog, field } from "../../core/dialog.js";
import { address, count, get, getSession, h, navigate, options, plural, post, replace, section } from "../../core/page.js";
import { toast } from "../../core/toast.js";
import { deleteTopics } from "./actions.js";

const INTERNAL = "The brokers need this topic for themselves.";

export async function show(root, view, topic) {
  const { may_change } = await getSession();
  const reason = may_change ? topic.is_internal && INTERNAL : "You may look at this topic, but not change it.";
  root.append(h("div.stack",
    reason && h("p.notice", reason),
    deleteRecords(topic, Boolean(reason)),
    section("Delete this topic",
      h("p", "Removes all its partitions with their records from every broker. This cannot be undone."),
      h("p", h("button.danger", { disabled: Boolean(reason), onclick: () => deleteTopics([topic], () => navigate("/topics")) }, "Delete topic…")))));
}

function deleteRecords(topic, disabled) {
  const until = h("select", { disabled, onchange: draw },
    options([["all", "All records"], ["time", "Records before a time"], ["offset", "Records before an offset"]]));
  const partition = h("select", options([["", "all"], ...topic.states.map((one) => one.partition)]));
  const offset = h("input", { type: "text", inputmode: "numeric", value: "0" });
  const moment = h("input", { type: "datetime-local", step: "1" });
  const place = h("div.row");
  const problem = h("div");
  const button = h("button.danger", { disabled, onclick: () => ask() }, "Delete records…");
  const whole = (value) => (/^\d{1,18}$/.test(value) ? null : "A whole number, please.");

  function draw() {
    replace(place,
      until.value === "time" && field("Before", moment, { help: "In the time zone of this browser" }),
      until.value === "offset" && field("Before offset", offset, { check: whole }),
      field("Partition", partition));
  }

  const ask = () => act(button, problem, async () => {
    const ranges = await find();
    const records = ranges.reduce((sum, one) => sum + one.to - one.from, 0);
    if (!records) throw new Error("There are no such records. Nothing was deleted.");
    confirm(topic.name, ranges, records);
  });

  // What would be deleted: { partition, from, to } of each partition, `to` is the new start.
  async function find() {
    const at = moment.value ? new Date(moment.value).getTime() : null;
    if (until.value === "time" && !(at >= 0)) throw new Error("Choose a time first.");
    if (until.value === "offset" && whole(offset.value)) throw new Error(whole(offset.value));
    const [logs, times] = await Promise.all([
      get(address`topics/${topic.name}/partitions`),
      until.value === "time" ? get(address`topics/${topic.name}/offsets`, { query: { timestamp: at } }) : null,
    ]);
    const wanted = logs.partitions.filter((one) => partition.value === "" || one.partition === Number(partition.value));
    const silent = wanted.find((one) => one.start === null || one.end === null);
    if (silent || times?.problems.length) throw new Error([`Partition ${silent?.partition ?? ""} does not answer, nothing was deleted.`, ...logs.problems, ...(times?.problems ?? [])].join(" "));
    const atTime = new Map(times?.partitions.map((one) => [one.partition, one.offset]));
    const end = { all: (one) => one.end, time: (one) => atTime.get(one.partition) ?? one.end, offset: (one) => Math.min(Number(offset.value), one.end) }[until.value];
    return wanted.map((one) => ({ partition: one.partition, from: one.start, to: end(one) })).filter((one) => one.to > one.from);
  }

  draw();
  return section("Delete records",
    h("p", "Moves the start of partitions forward. The records before it are gone for all consumers, on every replica."),
    h("div.row", field("Delete", until), place), problem, h("p", button));
}

function confirm(name, ranges, records) {
  confirmDialog({
    title: `Delete records of ${name}?`,
    consequence: [
      `Up to ${plural(records, "record")} in ${plural(ranges.length, "partition")} are deleted. This cannot be undone.`,
      h("ul.choices.small", ranges.map((one) =>
        h("li", `Partition ${one.partition}: offsets ${count(one.from)} to ${count(one.to - 1)}, then it starts at ${count(one.to)}`))),
    ],
    action: `Delete ${plural(records, "record")}`,
    typed: name,
    async submit() {
      await post(`${address`topics/${name}`}/records:delete`, { before: Object.fromEntries(ranges.map((one) => [one.partition, one.to])) });
      toast(`${plural(records, "record")} of ${name} deleted.`, { link: { href: address`/topics/${name}/partitions`, text: "Partitions" } });
    },
  });
}
