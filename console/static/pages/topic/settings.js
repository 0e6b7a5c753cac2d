// Settings of topics: the control for one, the check of a value while it is typed, and what a value means.
//
// rule: as /api/v1/topic-settings answers; null for a setting that this console does not know.

import { bytes, count, duration, h, options, textInput } from "../../core/page.js";

const WHOLE = new Set(["INT", "LONG", "SHORT"]);

export function control(rule, value) {
  if (rule?.type === "BOOLEAN") return select(["true", "false"], value);
  if (rule?.choices && rule.type !== "LIST") return select(rule.choices, value);
  return textInput({ value: value ?? "", inputmode: WHOLE.has(rule?.type) ? "numeric" : null });
}

function select(choices, value) {
  const all = choices.includes(value) || value === null ? choices : [value, ...choices];
  const node = h("select", options(all));
  if (value !== null) node.value = value;
  return node;
}

// Returns what is wrong with a value; null if Kafka would take it, as far as the rule says.
export function check(rule, value) {
  if (!rule) return null;
  const text = value.trim();
  if (WHOLE.has(rule.type)) {
    if (!/^[+-]?\d+$/.test(text)) return "A whole number, please.";
    return outside(rule, Number(text));
  }
  if (rule.type === "DOUBLE") return text === "" || Number.isNaN(Number(text)) ? "A number, please." : outside(rule, Number(text));
  if (rule.type === "LIST" && rule.choices) {
    const wrong = text.split(",").map((one) => one.trim()).filter((one) => one && !rule.choices.includes(one));
    return wrong.length ? `One or more of ${rule.choices.join(", ")}, with commas between them; not ${wrong[0]}.` : null;
  }
  return null;
}

function outside({ low, high, other }, number) {
  if (number === other) return null;
  const instead = other === null ? "" : `, or ${other}`;
  if (low !== null && number < low) return `At least ${count(low)}${instead}.`;
  return high !== null && number > high ? `At most ${count(high)}${instead}.` : null;
}

// "= 7 d": what a number of ms or bytes means; "" if its name says no unit.
export function meaning(name, value) {
  const number = Number(value);
  if (value === null || value === "" || !Number.isFinite(number)) return "";
  if (/\.bytes$|\.bytes\.max$/.test(name)) return number >= 1024 && number < 2 ** 60 ? `= ${bytes(number)}` : number === -1 ? "no limit" : "";
  if (!/\.ms$/.test(name)) return "";
  if (number === -1) return "no limit";
  return number > 1e15 ? "never" : number >= 1000 ? `= ${duration(number / 1000)}` : "";
}

export const SOURCES = {
  DYNAMIC_TOPIC_CONFIG: "this topic",
  DYNAMIC_BROKER_CONFIG: "broker, dynamic",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, dynamic",
  STATIC_BROKER_CONFIG: "broker, file",
  DEFAULT_CONFIG: "default",
};
