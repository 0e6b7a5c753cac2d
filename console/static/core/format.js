// Formats numbers and times as the browser's language and time zone ask.

const whole = new Intl.NumberFormat();
const decimal = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const exact = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const NOTHING = "–";

const isMissing = (value) => value === null || value === undefined;

export function count(value) {
  return isMissing(value) ? NOTHING : whole.format(value);
}

export function bytes(value) {
  if (isMissing(value)) return NOTHING;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(Math.round(value)) : significant(value)} ${UNITS[unit]}`;
}

// A number per second, without the unit.
export function rate(value) {
  return isMissing(value) ? NOTHING : significant(value);
}

// A rate below ten has one decimal, so that a low rate is not "0".
function significant(value) {
  return value < 10 && !Number.isInteger(value) ? decimal.format(value) : whole.format(Math.round(value));
}

export function duration(seconds) {
  if (isMissing(seconds)) return NOTHING;
  for (const [name, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${name}`;
  }
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${Math.floor(seconds)} s`;
}

// Milliseconds since 1970.
export function time(ms, format = moment) {
  return isMissing(ms) || ms < 0 ? NOTHING : format.format(ms);
}

// The same, with milliseconds.
export function exactTime(ms) {
  return time(ms, exact);
}

export function clockTime(ms) {
  return clock.format(ms);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}
