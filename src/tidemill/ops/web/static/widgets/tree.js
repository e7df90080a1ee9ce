// @ts-check
// Displays a value of a job's state: short values in one line, others as a tree whose nodes are created when they are
// opened. Of a large value, only a small part is shown at a time.

import { h } from "../core/dom.js";
import { plural } from "../core/format.js";

/** Values of at most this many characters are shown in one line. */
const LINE = 72;
/** How many characters of a long text, or of encoded bytes, are shown. */
const TEXT = 240;
/** How many items are shown at a time. */
const ITEMS = 50;

/**
 * A reviver for JSON.parse that does not round integers: those too large for a number become a BigInt.
 *
 * @param {string} name
 * @param {any} value
 * @param {{ source?: string }} [context]
 */
export function exact(name, value, context) {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value);
  const source = context?.source ?? "";
  return isRounded && /^-?\d+$/.test(source) ? BigInt(source) : value;
}

/**
 * A value as JSON, with spaces for readability.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function json(value) {
  if (Array.isArray(value)) return `[${value.map(json).join(", ")}]`;
  if (typeof value === "bigint") return String(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, item]) => `${JSON.stringify(name)}: ${json(item)}`)
    .join(", ")}}`;
}

/**
 * A value in one line of text, truncated if it is long.
 *
 * @param {unknown} value
 * @param {number} [most]
 */
export function brief(value, most = LINE) {
  const whole = typeof value === "string" ? value : json(value);
  return whole.length > most ? `${whole.slice(0, most - 1)}…` : whole;
}

/**
 * The element of a value from JSON.
 *
 * @param {unknown} value
 * @returns {HTMLElement}
 */
export function tree(value) {
  if (typeof value === "string") return text(value);
  if (value === null || typeof value !== "object") return scalar(value);
  return special(value) ?? inline(value) ?? branch(value);
}

/**
 * Like `tree`, for a map that is given as a list of pairs.
 *
 * @param {[unknown, unknown][]} pairs
 */
export function treeOfPairs(pairs) {
  return (
    inline(pairs) ??
    branchOf(
      pairs.map(([key, item]) => [brief(key), item]),
      `map with ${plural(pairs.length, "entry", "entries")}`,
    )
  );
}

/** @param {unknown} value */
function scalar(value) {
  const kind = value === null ? "null" : typeof value === "bigint" ? "number" : typeof value;
  return h("span", { class: `value value-${kind}` }, String(value));
}

/** @param {string} value */
function text(value) {
  const shown = h("span", { class: "value value-string" }, JSON.stringify(value.slice(0, TEXT)));
  if (value.length <= TEXT) return shown;
  const more = h(
    "button",
    {
      type: "button",
      class: "button button-small",
      onclick() {
        shown.textContent = JSON.stringify(value);
        more.remove();
      },
    },
    `Show all ${value.length} characters`,
  );
  return h("span", {}, shown, "… ", more);
}

/**
 * A value that JSON cannot represent: the server sends an object with one key that starts with a dollar sign.
 *
 * @param {object} value
 */
function special(value) {
  const entries = Object.entries(value);
  if (entries.length !== 1) return null;
  const [key, found] = entries[0];
  if (typeof found !== "string") return null;
  const size = Math.floor((found.length * 3) / 4);
  if (key === "$bytes") return marked(`${size} bytes, as base64`, found);
  if (key === "$pickle") return marked(`pickled, ${size} bytes: not unpickled, because that could run code`, null);
  if (key === "$truncated") return marked("truncated: only the beginning is shown", found);
  return null;
}

/**
 * @param {string} note
 * @param {string | null} content
 */
function marked(note, content) {
  return h(
    "span",
    {},
    h("span", { class: "value-note" }, note),
    content === null ? null : " ",
    content && text(content),
  );
}

/** @param {object} value */
function inline(value) {
  const items = Object.values(value);
  if (items.some((item) => item !== null && typeof item === "object" && Object.keys(item).length > 4)) return null;
  if (items.length > 16) return null;
  const line = json(value);
  return line.length <= LINE ? h("code", { class: "value" }, line) : null;
}

/** @param {object} value */
function branch(value) {
  const entries = Object.entries(value);
  if (Array.isArray(value)) return branchOf(entries, `list of ${plural(entries.length, "item")}`);
  return branchOf(entries, `${plural(entries.length, "field")}: ${brief(Object.keys(value).join(", "), 48)}`);
}

/**
 * @param {[string, unknown][]} entries
 * @param {string} what
 */
function branchOf(entries, what) {
  const list = h("ul", { class: "tree" });
  const details = h("details", { class: "branch" }, h("summary", {}, what), list);
  details.addEventListener("toggle", () => details.open && !list.firstChild && grow(list, entries, 0));
  return details;
}

/**
 * @param {HTMLElement} list
 * @param {[string, unknown][]} entries
 * @param {number} from
 */
function grow(list, entries, from) {
  for (const [name, item] of entries.slice(from, from + ITEMS)) {
    list.append(h("li", {}, h("span", { class: "tree-name" }, name), ": ", tree(item)));
  }
  const left = entries.length - from - ITEMS;
  if (left <= 0) return;
  const more = h("li");
  more.append(
    h(
      "button",
      {
        type: "button",
        class: "button button-small",
        onclick() {
          more.remove();
          grow(list, entries, from + ITEMS);
          const next = list.children[from + ITEMS]?.querySelector("summary, button");
          if (next instanceof HTMLElement) next.focus();
        },
      },
      `Show ${Math.min(left, ITEMS)} more of ${left}`,
    ),
  );
  list.append(more);
}
