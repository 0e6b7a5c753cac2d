// What is done to topics from their list and from their pages: delete, add partitions, set a setting.

import { address, cluster, get, request } from "../../core/api.js";
import { confirmDialog, field, formDialog } from "../../core/dialog.js";
import { h, options, replace } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { toast } from "../../core/toast.js";
import { alter } from "./configuration.js";
import { check, control } from "./settings.js";

const AT_ONCE = 4;

// Runs act(topic) for each, some at once. Returns the errors by the topic's name.
async function forEach(topics, act) {
  const left = [...topics];
  const errors = [];
  const work = async () => {
    for (let one = left.shift(); one; one = left.shift()) {
      await act(one).catch((error) => errors.push(`${one.name}: ${error.message}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return errors;
}

function report(errors, all, done) {
  if (errors.length === all) throw new Error(errors.slice(0, 3).join("; "));
  if (errors.length) toast(`${plural(errors.length, "topic")} failed. ${errors.slice(0, 3).join("; ")}`, { kind: "bad" });
  if (all > errors.length) toast(done(all - errors.length));
}

// topics: { name, partitions }. done: called when at least one is deleted.
export function deleteTopics(topics, done) {
  const partitions = topics.reduce((sum, one) => sum + one.partitions, 0);
  const [{ name }] = topics;
  const isOne = topics.length === 1;
  confirmDialog({
    title: isOne ? `Delete topic ${name}?` : `Delete ${plural(topics.length, "topic")}?`,
    consequence: [
      isOne ? `The topic, its ${plural(partitions, "partition")} and all records in it` : `These topics, their ${plural(partitions, "partition")} and all records in them`,
      " are deleted on every broker. This cannot be undone.",
      !isOne && h("ul.choices.mono.small", topics.map((one) => h("li", one.name))),
    ],
    action: isOne ? "Delete topic" : `Delete ${plural(topics.length, "topic")}`,
    typed: isOne ? name : `delete ${topics.length}`,
    async submit() {
      const errors = await forEach(topics, async (one) => request("DELETE", await cluster(address`/topics/${one.name}`)));
      report(errors, topics.length, (number) => (isOne ? `Topic ${name} was deleted.` : `${plural(number, "topic")} deleted.`));
      done();
    },
  });
}

export function addPartitions({ name, partitions }, done) {
  const input = h("input", { type: "number", min: String(partitions + 1), value: String(partitions + 1) });
  const wrong = (value) => (/^\d+$/.test(value) && Number(value) > partitions ? null : `More than ${count(partitions)}: partitions cannot be taken away.`);
  formDialog({
    title: `Add partitions to ${name}`,
    action: "Add partitions",
    content: [
      field("Partitions", input, { help: `There are ${count(partitions)} now.`, check: wrong }),
      h("p.notice", "Records with a key go to other partitions than before, so the order of the records of a key is not kept. This cannot be undone."),
    ],
    async submit() {
      await request("PATCH", await cluster(address`/topics/${name}`), { body: { partitions_count: Number(input.value) } });
      toast(`${name} has ${plural(Number(input.value), "partition")} now.`, { link: { href: address`/topics/${name}/partitions`, text: "Show" } });
      done();
    },
  });
}

export async function configureTopics(topics, done) {
  const { settings } = await get("/api/v1/topic-settings");
  const choice = h("select", { onchange: draw }, options(settings.map((one) => one.name)));
  choice.value = "retention.ms";
  const reset = h("input", { type: "checkbox", onchange: () => draw() });
  const place = h("div");
  let input;
  formDialog({
    title: `Configure ${plural(topics.length, "topic")}`,
    action: "Apply",
    content: [
      field("Setting", choice), h("label", reset, " Reset: the topics get the brokers' value"), place,
      h("p.muted.small", `Topics: ${topics.slice(0, 8).map((one) => one.name).join(", ")}${topics.length > 8 ? ` and ${topics.length - 8} more` : ""}`),
    ],
    async submit() {
      const to = reset.checked ? null : input.value.trim();
      const errors = await forEach(topics, (one) => alter(one.name, choice.value, to));
      report(errors, topics.length, (number) => `${choice.value} of ${plural(number, "topic")} ${to === null ? "was reset" : `is ${to} now`}.`);
      done();
    },
  });
  function draw() {
    const rule = settings.find((one) => one.name === choice.value);
    input = control(rule, rule.default);
    replace(place, reset.checked ? h("p.help", rule.documentation) : field("Value", input, { help: rule.documentation, check: (value) => check(rule, value) }));
  }
  draw();
}
