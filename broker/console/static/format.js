// Formats numbers.

const whole = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const NOTHING = "–";

export function count(value) {
  return value === null || value === undefined ? NOTHING : whole.format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return NOTHING;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${significant(value, unit === 0)} ${UNITS[unit]}`;
}

export function rate(value) {
  return value === null ? NOTHING : significant(value, false);
}

// Three digits are enough to see a change; a rate below ten has one decimal, so that a low rate is not "0".
function significant(value, isWhole) {
  if (isWhole || value === 0 || value >= 100) return whole.format(Math.round(value));
  return value.toFixed(value < 10 && !Number.isInteger(value) ? 1 : 0);
}

export function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  for (const [name, size] of units) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${name}`;
  }
  return `${Math.floor(seconds)} s`;
}

export function plural(value, one) {
  return `${count(value)} ${one}${value === 1 ? "" : "s"}`;
}

// The rate per second since the previous answer; null without one, or if the broker was restarted since.
export function perSecond(now, before, seconds) {
  if (before === undefined || seconds <= 0 || now < before) return null;
  return (now - before) / seconds;
}

export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
