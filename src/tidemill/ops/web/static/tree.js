// A value of a job's state as something to read: short ones in a line, others as a tree that is made as far as it is
// opened. However large a value is, little of it is shown at once.

import { h } from "./dom.js";
import { plural } from "./format.js";

/** Up to so many characters a value stands in one line. */
const LINE = 72;
/** So much is shown of a long text, and of its bytes. */
const TEXT = 240;
/** So many items are shown at a time. */
const ITEMS = 50;

/** Turns JSON into values without rounding whole numbers: those too large for a number become a BigInt. */
export function exact(name, value, context) {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value);
  return isRounded && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
}

/** A value as JSON, with spaces to read it. */
export function json(value) {
  if (Array.isArray(value)) return `[${value.map(json).join(", ")}]`;
  if (typeof value === "bigint") return String(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, item]) => `${JSON.stringify(name)}: ${json(item)}`)
    .join(", ")}}`;
}

/** A value in one line of text, cut off when it is long. */
export function brief(value, most = LINE) {
  const whole = typeof value === "string" ? value : json(value);
  return whole.length > most ? `${whole.slice(0, most - 1)}…` : whole;
}

/** The element of a value from JSON. */
export function tree(value) {
  if (typeof value === "string") return text(value);
  if (value === null || typeof value !== "object") return scalar(value);
  return special(value) ?? inline(value) ?? branch(value);
}

/** As `tree`, of a map that is given as a list of pairs. */
export function treeOfPairs(pairs) {
  return (
    inline(pairs) ??
    branchOf(
      pairs.map(([key, item]) => [brief(key), item]),
      `map with ${plural(pairs.length, "entry", "entries")}`,
    )
  );
}

function scalar(value) {
  const kind = value === null ? "null" : typeof value === "bigint" ? "number" : typeof value;
  return h("span", { class: `value value-${kind}` }, String(value));
}

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

/** What JSON has no form for, as the server writes it: an object with one key that begins with a dollar sign. */
function special(value) {
  const keys = Object.keys(value);
  if (keys.length !== 1 || typeof value[keys[0]] !== "string") return null;
  const found = value[keys[0]];
  const size = Math.floor((found.length * 3) / 4);
  if (keys[0] === "$bytes") return marked(`${size} bytes, as base64`, found);
  if (keys[0] === "$pickle") return marked(`pickled, ${size} bytes: not opened, as that could run code`, null);
  if (keys[0] === "$truncated") return marked("very long: only its beginning is here", found);
  return null;
}

function marked(note, content) {
  return h(
    "span",
    {},
    h("span", { class: "value-note" }, note),
    content === null ? null : " ",
    content && text(content),
  );
}

function inline(value) {
  const items = Object.values(value);
  if (items.some((item) => item !== null && typeof item === "object" && Object.keys(item).length > 4)) return null;
  if (items.length > 16) return null;
  const line = json(value);
  return line.length <= LINE ? h("code", { class: "value" }, line) : null;
}

function branch(value) {
  const entries = Object.entries(value);
  if (Array.isArray(value)) return branchOf(entries, `list of ${plural(entries.length, "item")}`);
  return branchOf(entries, `${plural(entries.length, "field")}: ${brief(Object.keys(value).join(", "), 48)}`);
}

function branchOf(entries, what) {
  const list = h("ul", { class: "tree" });
  const details = h("details", { class: "branch" }, h("summary", {}, what), list);
  details.addEventListener("toggle", () => details.open && !list.firstChild && grow(list, entries, 0));
  return details;
}

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
          list.children[from + ITEMS]?.querySelector("summary, button")?.focus();
        },
      },
      `Show ${Math.min(left, ITEMS)} more of ${left}`,
    ),
  );
  list.append(more);
}
