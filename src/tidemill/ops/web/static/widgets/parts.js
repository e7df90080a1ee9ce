// @ts-check
// Small components that several views share. Data from jobs is always shown as text.

import { messageOf } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { NOTHING } from "../core/format.js";

/** @import { Child } from "../core/dom.js" */

/** @typedef {"info" | "good" | "warning" | "error"} NoticeKind */
/** @typedef {{ name: string, class?: string }} Column */
/** @typedef {false | "" | null | undefined} Falsy */

/**
 * A box with a message. Screen readers announce warnings and errors.
 *
 * @param {NoticeKind} kind
 * @param {...Child} children
 */
export function notice(kind, ...children) {
  const role = kind === "error" ? "alert" : kind === "warning" ? "status" : null;
  return h("div", { class: `notice notice-${kind}`, role }, ...children);
}

/**
 * An error message; `retry` adds a button.
 *
 * @param {unknown} error
 * @param {(() => void) | null} [retry]
 */
export function problem(error, retry) {
  return notice(
    "error",
    h("p", {}, messageOf(error)),
    retry ? h("button", { type: "button", class: "button", onclick: retry }, "Try again") : null,
  );
}

/**
 * A text that explains why there is nothing to show.
 *
 * @param {...Child} children
 */
export function nothing(...children) {
  return h("p", { class: "nothing" }, ...children);
}

/**
 * Facts as a list of terms: each fact is [term, ...children]; falsy ones are omitted.
 *
 * @param {...([string, ...Child[]] | Falsy)} all
 */
export function facts(...all) {
  const shown = all.flatMap((fact) => (fact ? [fact] : []));
  return h(
    "dl",
    { class: "facts" },
    shown.map(([term, ...children]) => h("div", {}, h("dt", {}, term), h("dd", {}, ...children))),
  );
}

/**
 * A figure for the row at the top of a view: {element, value}, where `value` is the element of its text.
 *
 * @param {string} name
 */
export function figure(name) {
  const value = h("span", { class: "figure-value" }, NOTHING);
  return { value, element: h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value)) };
}

/**
 * A button that copies a text, which may be computed, and confirms it.
 *
 * @param {string | (() => string)} text
 * @param {string} what
 * @param {(text: string) => void} [announce]
 * @param {string} [name]
 */
export function copyButton(text, what, announce = () => {}, name = "Copy") {
  const label = h("span", {}, name);
  const button = h("button", { type: "button", class: "button button-small", "aria-label": `Copy ${what}` }, label);
  button.addEventListener("click", async () => {
    const done = await copied(typeof text === "function" ? text() : text);
    label.textContent = done ? "Copied" : "Not copied";
    announce(done ? `Copied ${what}` : `Could not copy ${what}: select and copy it manually`);
    setTimeout(() => (label.textContent = name), 2000);
  });
  return button;
}

/**
 * A text in monospace with a button to copy it.
 *
 * @param {string} text
 * @param {string} what
 * @param {(text: string) => void} announce
 */
export function copyable(text, what, announce) {
  return h("span", { class: "copyable" }, h("code", {}, text), copyButton(text, what, announce));
}

/** @param {string} text */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedBySelection(text); // without HTTPS the clipboard is not available, except on localhost
  }
}

/** @param {string} text */
function copiedBySelection(text) {
  const field = h("textarea", { class: "visually-hidden", readonly: true, "aria-hidden": "true", tabindex: "-1" });
  const focused = document.activeElement;
  field.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    if (focused instanceof HTMLElement) focused.focus();
  }
}

/**
 * A section of a page with a heading.
 *
 * @param {string} heading
 * @param {...Child} children
 */
export function section(heading, ...children) {
  return h("section", { class: "panel", "aria-label": heading }, h("h3", {}, heading), ...children);
}

/**
 * A section with a heading and a table that fills its width.
 *
 * @param {string} heading
 * @param {...Child} children
 */
export function tableSection(heading, ...children) {
  return h("section", { class: "panel panel-table", "aria-label": heading }, h("h3", {}, heading), ...children);
}

/**
 * A table that scrolls horizontally in its own box; `rows` are lists of cells. `fill(rows)` replaces them.
 *
 * @param {string} caption
 * @param {(string | Column)[]} columns
 * @param {Child[][]} rows
 */
export function table(caption, columns, rows) {
  const body = h("tbody");
  /** @type {Column[]} */
  const heads = columns.map((column) => (typeof column === "string" ? { name: column } : column));
  const made = h(
    "div",
    { class: "table-box", role: "group", "aria-label": caption, tabindex: "0" },
    h(
      "table",
      { class: "cards" },
      h("caption", { class: "visually-hidden" }, caption),
      h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col", class: head.class }, head.name)))),
      body,
    ),
  );
  /** @param {Child[][]} all */
  const fill = (all) => {
    replace(
      body,
      all.map((cells) => row(heads, cells)),
    );
  };
  fill(rows);
  return { element: made, fill };
}

/**
 * @param {Column[]} heads
 * @param {Child[]} cells
 */
function row(heads, cells) {
  return h(
    "tr",
    {},
    ...cells.map((cell, at) => {
      const attributes = { class: heads[at].class, "data-label": heads.length > 2 ? heads[at].name : null };
      return at === 0 ? h("th", { scope: "row", ...attributes }, cell) : h("td", attributes, cell);
    }),
  );
}
