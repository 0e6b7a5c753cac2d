// What is done to topics from their list and from their pages: delete, add partitions, set a setting.

import { confirmDialog, field, formDialog } from "../../core/dialog.js";
import { address, cluster, count, get, h, options, plural, replace, request } from "../../core/page.js";
import { toast } from "../../core/toast.js";
import { alter, difference, ownValue } from "./configuration.js";
import { check, control } from "./settings.js";

const AT_ONCE = 4;

// Runs act(topic) for each, some at once. Returns the errors by the topic's name.
async function forEach(topics, act) {
  const left = [...topics];
  const failed = new Map();
  const work = async () => {
    for (let one = left.shift(); one; one = left.shift()) {
      await act(one).catch((error) => failed.set(one.name, error.message));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failed;
}

// all: how many there were. done(number): what to say about those that have not failed. options: of its toast.
function report(failed, all, done, options) {
  const reasons = [...failed].slice(0, 3).map((one) => one.join(": ")).join("; ");
  if (failed.size === all) throw new Error(reasons);
  if (failed.size) toast(`${plural(failed.size, "topic")} failed. ${reasons}`, { kind: "bad" });
  if (done) toast(done(all - failed.size), options);
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
      const failed = await forEach(topics, async (one) => request("DELETE", await cluster(address`/topics/${one.name}`)));
      report(failed, topics.length, (number) => (isOne ? `Topic ${name} was deleted.` : `${plural(number, "topic")} deleted.`));
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
  const { settings } = await get("topic-settings");
  const known = [];
  const unknown = await forEach(topics, async ({ name }) => known.push({ name, ...(await get(address`topics/${name}/settings`)) }));
  report(unknown, topics.length);
  known.sort((a, b) => (a.name < b.name ? -1 : 1));
  const choice = h("select", { onchange: draw }, options(settings.map((one) => one.name)));
  choice.value = "retention.ms";
  const reset = h("input", { type: "checkbox", onchange: () => draw() });
  const place = h("div");
  const said = h("p.muted", { role: "status" });
  const differences = h("div.stack.choices", { role: "group", "aria-label": "What changes", tabindex: "0" });
  let input;
  formDialog({
    title: `Configure ${plural(known.length, "topic")}`,
    action: "Apply", large: true,
    content: [field("Setting", choice), h("label", reset, " Reset: the topics get the brokers' value"), place, said, differences],
    async submit() {
      const [name, to, changed] = [choice.value, value(), changing()];
      if (!changed.length) throw new Error("Nothing changes.");
      const failed = await forEach(changed, (one) => alter(one.name, name, to));
      const back = changed.filter((one) => !failed.has(one.name));
      const of = (number) => `${name} of ${plural(number, "topic")}`;
      report(failed, changed.length, (number) => `${of(number)} ${to === null ? "was reset" : `is ${to} now`}.`, {
        undo: async () => report(await forEach(back, (one) => alter(one.name, name, ownValue(one.row))), back.length, (number) => `${of(number)} is as before.`),
      });
      done();
    },
  });
  function value() {
    return reset.checked ? null : input.value.trim();
  }
  // The topics that get another value, or one of their own, with the row of the setting.
  function changing() {
    return known.map((one) => ({ name: one.name, row: one.settings.find((each) => each.name === choice.value) ?? { name: choice.value, value: null, inherited: null } }))
      .filter(({ row }) => ownValue(row) !== value());
  }
  function draw() {
    const rule = settings.find((one) => one.name === choice.value);
    input = control(rule, rule.default);
    input.addEventListener("input", compare);
    replace(place, reset.checked ? h("p.help", rule.documentation) : field("Value", input, { help: rule.documentation, check: (text) => check(rule, text) }));
    compare();
  }
  function compare() {
    const changed = changing();
    replace(said, `Changes ${changed.length} of ${plural(known.length, "topic")}.`);
    replace(differences, changed.map(({ name, row }) => h("div", h("code", name), difference(row, value()))));
  }
  draw();
}
