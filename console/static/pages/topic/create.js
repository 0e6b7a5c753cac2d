// The form that creates a topic: checked while it is typed, by the cluster when it is sent.

import { field, formDialog } from "../../core/dialog.js";
import { address, cluster, get, h, post, replace, request, textInput } from "../../core/page.js";
import { attempt, toast } from "../../core/toast.js";
import { check, control, meaning } from "./settings.js";

const MAX_NAME = 249;

// Returns what is wrong with the name of a new topic, by Kafka's rules; null if nothing is.
function checkName(name, topics) {
  if (!name) return "A topic needs a name.";
  if (name === "." || name === "..") return "A topic cannot be named . or ..";
  if (name.length > MAX_NAME) return `At most ${MAX_NAME} characters, not ${name.length}.`;
  const wrong = /[^a-zA-Z0-9._-]/.exec(name);
  if (wrong) return `Only ASCII letters, digits, . _ and -, not ${JSON.stringify(wrong[0])}.`;
  const flat = (text) => text.replaceAll(".", "_");
  const same = topics.find((one) => flat(one.name) === flat(name));
  if (same) return same.name === name ? "This topic exists already." : `Too close to ${same.name}: . and _ are the same in the names of metrics.`;
  return null;
}

export async function createTopic({ topics, name, signal, done, opened, closed }) {
  const asked = Promise.all([cluster("/brokers").then((path) => get(path, { signal })), get("topic-settings", { signal })]);
  const nameInput = textInput({ value: name, required: true });
  const partitions = h("input", { type: "number", min: "1", placeholder: "the brokers' default" });
  const factor = h("input", { type: "number", min: "1", placeholder: "the brokers' default" });
  const advanced = h("div.stack.choices");
  const chosen = new Map();
  let brokers = Infinity;
  const positive = (value) => (value === "" || (/^\d+$/.test(value) && Number(value) >= 1) ? null : "At least 1, or empty for the brokers' default.");
  const factorRule = (value) => positive(value) ?? (Number(value) > brokers ? `At most ${brokers}: each replica is on another broker.` : null);
  const dialog = formDialog({
    title: "Create topic", action: "Create topic", large: true, submit, closed,
    content: [
      field("Name", nameInput, { help: "Letters, digits, . _ and -. The name cannot be changed later.", check: (value) => checkName(value, topics) }),
      h("div.columns",
        field("Partitions", partitions, { help: "More can be added later, but not taken away.", check: positive }),
        field("Replicas of each partition", factor, { help: "On as many brokers.", check: factorRule })),
      h("details", h("summary", "Advanced settings"), advanced),
    ],
  });
  opened(dialog);
  nameInput.focus();
  try {
    const [found, { settings }] = await asked;
    brokers = found.data.length;
    factor.max = String(brokers);
    factor.dispatchEvent(new Event("input")); // something may have been typed before its rule was known
    replace(advanced, settings.map((rule) => setting(rule, chosen)));
  } catch (error) {
    if (!signal.aborted) replace(advanced, h("p.notice", error.message));
  }

  async function submit() {
    const topic = nameInput.value;
    const body = { topic_name: topic, configs: [...chosen].map(([key, input]) => ({ name: key, value: input.value.trim() })) };
    if (partitions.value) body.partitions_count = Number(partitions.value);
    if (factor.value) body.replication_factor = Number(factor.value);
    await post(await cluster("/topics"), body);
    toast(`Topic ${topic} was created.`, { link: { href: address`/topics/${topic}`, text: "Open" }, undo: () => undo(topic) });
    done();
  }

  // A new topic is deleted again only while it is empty.
  async function undo(topic) {
    const { partitions: logs } = await get(address`topics/${topic}/partitions`);
    if (logs.some((one) => one.end !== 0)) toast(`Topic ${topic} has records, or does not answer. It was not deleted.`, { kind: "bad" });
    else await attempt(async () => request("DELETE", await cluster(address`/topics/${topic}`)), `Topic ${topic} was deleted again.`);
    done();
  }
}

// One advanced setting: its control appears when it is chosen.
function setting(rule, chosen) {
  const input = control(rule, rule.default);
  const means = h("span.muted.small");
  const show = () => replace(means, meaning(rule.name, input.value));
  input.addEventListener("input", show);
  show();
  const place = h("div", { hidden: true }, field(`Value of ${rule.name}`, input, { check: (value) => (chosen.has(rule.name) ? check(rule, value) : null) }), means);
  const box = h("input", {
    type: "checkbox",
    onchange: () => {
      place.hidden = !box.checked;
      if (box.checked) chosen.set(rule.name, input);
      else chosen.delete(rule.name);
      input.disabled = !box.checked;
    },
  });
  input.disabled = true;
  return h("div",
    h("label", box, " ", h("code", rule.name), h("span.muted.small", ` Kafka's default: ${rule.default || "(empty)"} ${meaning(rule.name, rule.default)}`)),
    h("p.muted.small", rule.documentation), place);
}
