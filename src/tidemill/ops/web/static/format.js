// Numbers, times and sizes as people read them. All functions take numbers and give text; what is not there is "–".

export const NOTHING = "–";

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clockOnly = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

const is = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

/** 1234567 -> "1,234,567" */
export function count(value) {
  return is(value) ? whole.format(Math.round(value)) : NOTHING;
}

/** A few digits and a unit: 1234567 -> "1.23 M", with two digits "1.2 M"; 12.3 -> "12.3", 0.004 -> "0.004" */
export function short(value, precision = 3) {
  if (!is(value)) return NOTHING;
  const [scaled, unit] = scale(Number(value), 1000, ["", "k", "M", "G", "T"]);
  return unit ? `${digits(scaled, precision)} ${unit}` : digits(scaled, precision);
}

/** 1234 -> "1.23 k/s" */
export function rate(value, precision = 3) {
  return is(value) ? `${short(value, precision)}/s` : NOTHING;
}

/** 123456 -> "121 KiB" */
export function bytes(value) {
  if (!is(value)) return NOTHING;
  const [scaled, unit] = scale(Number(value), 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  return `${digits(scaled)} ${unit}`;
}

/** 0.318 -> "32 %" */
export function percent(share) {
  if (!is(share)) return NOTHING;
  const value = share * 100;
  return `${value > 0 && value < 1 ? "<1" : Math.round(value)} %`;
}

/** Milliseconds: 0.25 -> "250 µs", 1530 -> "1.53 s", 3723000 -> "1 h 2 min", 90061000 -> "1 d 1 h" */
export function duration(millis) {
  if (!is(millis)) return NOTHING;
  const value = Number(millis);
  if (value < 0) return `-${duration(-value)}`;
  if (value > 0 && value < 0.9995) return value < 0.0005 ? "<1 µs" : `${digits(value * 1000)} µs`;
  if (value < 999.5) return `${digits(value)} ms`;
  if (value < 59_950) return `${digits(value / 1000)} s`;
  const seconds = Math.floor(value / 1000);
  const [days, hours, minutes] = [
    Math.floor(seconds / 86400),
    Math.floor(seconds / 3600) % 24,
    Math.floor(seconds / 60) % 60,
  ];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return `${minutes} min ${seconds % 60} s`;
}

/** How long something has run, in whole seconds: "42 s", "3 min 5 s" */
export function uptime(millis) {
  return is(millis) ? duration(Math.max(0, Math.floor(millis / 1000) * 1000)).replace("0 ms", "0 s") : NOTHING;
}

/** Milliseconds since 1970 as date and time of this place. */
export function time(millis) {
  return is(millis) && millis > 0 ? clock.format(new Date(Number(millis))) : NOTHING;
}

/** As `time`, without the date. */
export function timeOfDay(millis) {
  return is(millis) && millis > 0 ? clockOnly.format(new Date(Number(millis))) : NOTHING;
}

/** "12 s ago" */
export function ago(millis, now = Date.now()) {
  if (!is(millis) || millis <= 0) return NOTHING;
  const passed = now - millis;
  return passed < 1000 ? "just now" : `${uptime(passed)} ago`;
}

const LOWEST_WATERMARK = -(2 ** 63);
const HIGHEST_WATERMARK = 2 ** 63 - 1;
const [YEAR_1990, YEAR_2100] = [631_152_000_000, 4_102_444_800_000];

/**
 * A watermark: none yet, the end of all input, how far it is behind the clock if it looks like milliseconds since 1970,
 * or the number itself.
 */
export function watermark(value, now = Date.now()) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return "none yet";
  const mark = Number(value);
  if (mark <= LOWEST_WATERMARK + 1024) return "none yet";
  if (mark >= HIGHEST_WATERMARK - 1024) return "end of input";
  if (mark < YEAR_1990 || mark > YEAR_2100) return count(mark);
  const behind = now - mark;
  if (Math.abs(behind) < 1000) return "now";
  return behind > 0 ? `${uptime(behind)} behind` : `${uptime(-behind)} ahead`;
}

/** A watermark in full, for a tooltip. */
export function watermarkTitle(value) {
  const mark = Number(value);
  if (value === null || value === undefined || mark < YEAR_1990 || mark > YEAR_2100) return watermark(value);
  return `${new Date(mark).toISOString()} (${mark})`;
}

/** "1 key", "3 keys" */
export function plural(number, word, words = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : words}`;
}

function scale(value, step, units) {
  let [scaled, unit] = [value, 0];
  while (Math.abs(scaled) >= step * 0.9995 && unit < units.length - 1) {
    scaled /= step;
    unit += 1;
  }
  return [scaled, units[unit]];
}

function digits(value, precision = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return "<0.001";
  if (size >= 99.95 && precision === 3) return String(Math.round(value));
  return String(Number(value.toPrecision(size >= 1 ? precision : 2)));
}
