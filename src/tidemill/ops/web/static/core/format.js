// @ts-check
// Formats numbers, times and sizes for display. All functions accept numbers and return text; a missing number is "–".

/** @typedef {number | null | undefined} Amount */

export const NOTHING = "–";

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clockOnly = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/**
 * @param {Amount} value
 * @returns {value is number}
 */
const is = (value) => value !== null && value !== undefined && Number.isFinite(value);

/**
 * 1234567 -> "1,234,567"
 *
 * @param {Amount} value
 */
export function count(value) {
  return is(value) ? whole.format(Math.round(value)) : NOTHING;
}

/**
 * A few digits and a unit: 1234567 -> "1.23 M", with two digits "1.2 M"; 12.3 -> "12.3", 0.004 -> "0.004"
 *
 * @param {Amount} value
 * @param {number} [precision]
 */
export function short(value, precision = 3) {
  if (!is(value)) return NOTHING;
  const [scaled, unit] = scale(value, 1000, ["", "k", "M", "G", "T"]);
  return unit ? `${digits(scaled, precision)} ${unit}` : digits(scaled, precision);
}

/**
 * 1234 -> "1.23 k/s"
 *
 * @param {Amount} value
 * @param {number} [precision]
 */
export function rate(value, precision = 3) {
  return is(value) ? `${short(value, precision)}/s` : NOTHING;
}

/**
 * 123456 -> "121 KiB"
 *
 * @param {Amount} value
 */
export function bytes(value) {
  if (!is(value)) return NOTHING;
  const [scaled, unit] = scale(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  return `${digits(scaled)} ${unit}`;
}

/**
 * 0.318 -> "32 %"
 *
 * @param {Amount} share
 */
export function percent(share) {
  if (!is(share)) return NOTHING;
  const value = share * 100;
  return `${value > 0 && value < 1 ? "<1" : Math.round(value)} %`;
}

/**
 * Milliseconds: 0.25 -> "250 µs", 1530 -> "1.53 s", 3723000 -> "1 h 2 min", 90061000 -> "1 d 1 h"
 *
 * @param {Amount} millis
 * @returns {string}
 */
export function duration(millis) {
  if (!is(millis)) return NOTHING;
  if (millis < 0) return `-${duration(-millis)}`;
  if (millis > 0 && millis < 0.9995) return millis < 0.0005 ? "<1 µs" : `${digits(millis * 1000)} µs`;
  if (millis < 999.5) return `${digits(millis)} ms`;
  if (millis < 59_950) return `${digits(millis / 1000)} s`;
  const seconds = Math.floor(millis / 1000);
  const [days, hours, minutes] = [
    Math.floor(seconds / 86400),
    Math.floor(seconds / 3600) % 24,
    Math.floor(seconds / 60) % 60,
  ];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return `${minutes} min ${seconds % 60} s`;
}

/**
 * How long something has run, in whole seconds: "42 s", "3 min 5 s"
 *
 * @param {Amount} millis
 */
export function uptime(millis) {
  return is(millis) ? duration(Math.max(0, Math.floor(millis / 1000) * 1000)).replace("0 ms", "0 s") : NOTHING;
}

/**
 * Milliseconds since 1970 as local date and time.
 *
 * @param {Amount} millis
 */
export function time(millis) {
  return is(millis) && millis > 0 ? clock.format(new Date(millis)) : NOTHING;
}

/**
 * Like `time`, without the date.
 *
 * @param {Amount} millis
 */
export function timeOfDay(millis) {
  return is(millis) && millis > 0 ? clockOnly.format(new Date(millis)) : NOTHING;
}

const LOWEST_WATERMARK = -(2 ** 63);
const HIGHEST_WATERMARK = 2 ** 63 - 1;
const [YEAR_1990, YEAR_2100] = [631_152_000_000, 4_102_444_800_000];

/**
 * A watermark: none yet, the end of the input, the lag behind the clock if it looks like milliseconds since 1970, or the
 * number itself.
 *
 * @param {Amount} value
 * @param {number} [now]
 */
export function watermark(value, now = Date.now()) {
  if (value === null || value === undefined || Number.isNaN(value)) return "none yet";
  if (value <= LOWEST_WATERMARK + 1024) return "none yet";
  if (value >= HIGHEST_WATERMARK - 1024) return "end of input";
  if (value < YEAR_1990 || value > YEAR_2100) return count(value);
  const behind = now - value;
  if (Math.abs(behind) < 1000) return "now";
  return behind > 0 ? `${uptime(behind)} behind` : `${uptime(-behind)} ahead`;
}

/**
 * The time of a watermark, if it is one.
 *
 * @param {Amount} value
 */
export function watermarkTime(value) {
  return is(value) && value >= YEAR_1990 && value <= YEAR_2100 ? time(value) : "";
}

/**
 * A watermark in full, for a tooltip.
 *
 * @param {Amount} value
 */
export function watermarkTitle(value) {
  if (!is(value) || value < YEAR_1990 || value > YEAR_2100) return watermark(value);
  return `${new Date(value).toISOString()} (${value})`;
}

/**
 * "1 key", "3 keys"
 *
 * @param {number} number
 * @param {string} word
 * @param {string} [words]
 */
export function plural(number, word, words = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : words}`;
}

/**
 * @param {number} value
 * @param {number} step
 * @param {string[]} units
 * @returns {[number, string]}
 */
function scale(value, step, units) {
  let [scaled, unit] = [value, 0];
  while (Math.abs(scaled) >= step * 0.9995 && unit < units.length - 1) {
    scaled /= step;
    unit += 1;
  }
  return [scaled, units[unit]];
}

/**
 * @param {number} value
 * @param {number} [precision]
 */
function digits(value, precision = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return "<0.001";
  if (size >= 99.95 && precision === 3) return String(Math.round(value));
  return String(Number(value.toPrecision(size >= 1 ? precision : 2)));
}

/**
 * The name of a chain with arrows between its operators.
 *
 * @param {string} name
 */
export function chainName(name) {
  return name.replaceAll(" -> ", " → ");
}
