// Parts that several views are made of. Whatever comes from a job is only ever text here.

import { h, replace } from "./dom.js";
import { NOTHING } from "./format.js";

/** A box that tells something. `kind`: info, good, warning or error; the last two are also said to screen readers. */
export function notice(kind, ...children) {
  const role = kind === "error" ? "alert" : kind === "warning" ? "status" : null;
  return h("div", { class: `notice notice-${kind}`, role }, ...children);
}

/** An error in words, with what to do where that is known. `retry` makes a button of it. */
export function problem(error, retry) {
  return notice(
    "error",
    h("p", {}, messageOf(error)),
    retry ? h("button", { type: "button", class: "button", onclick: retry }, "Try again") : null,
  );
}

/** What an error says. */
export function messageOf(error) {
  if (error?.messages?.length) return error.messages.join(" ");
  if (error instanceof TypeError) return "The driver does not answer: it has ended, or cannot be reached.";
  return error?.message || String(error);
}

/** Nothing to see, and why. */
export function nothing(...children) {
  return h("p", { class: "nothing" }, ...children);
}

/** Facts as a list of terms: each fact is [term, ...children]; false ones are left out. */
export function facts(...all) {
  return h(
    "dl",
    { class: "facts" },
    ...all.filter(Boolean).map(([term, ...what]) => h("div", {}, h("dt", {}, term), h("dd", {}, ...what))),
  );
}

/** A figure for the row at the top of a view: {element, value}, the latter for what it comes to. */
export function figure(name) {
  const value = h("span", { class: "figure-value" }, NOTHING);
  return { value, element: h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value)) };
}

/** A button that copies a text, which may be a function; it says that it did. */
export function copyButton(text, what, announce = () => {}, name = "Copy") {
  const label = h("span", {}, name);
  const button = h("button", { type: "button", class: "button button-small", "aria-label": `Copy ${what}` }, label);
  button.addEventListener("click", async () => {
    const done = await copied(typeof text === "function" ? text() : text);
    label.textContent = done ? "Copied" : "Not copied";
    announce(done ? `Copied ${what}` : `Could not copy ${what}: select it and copy it yourself`);
    setTimeout(() => (label.textContent = name), 2000);
  });
  return button;
}

/** A text in monospace, to be copied. */
export function copyable(text, what, announce) {
  return h("span", { class: "copyable" }, h("code", {}, text), copyButton(text, what, announce));
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedBySelection(text); // without HTTPS browsers have no clipboard, other than for this machine
  }
}

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
    focused?.focus?.();
  }
}

/**
 * Loads when asked to: never twice at a time, at most once in `pause` milliseconds, and once more for all that asked
 * meanwhile. `load(signal)` shows what it got, and its errors; it is aborted by `stop`.
 */
export function loader(load, pause) {
  const controller = new AbortController();
  let running = false;
  let wanted = false;
  let timer = null;
  let last = -Infinity;

  async function run() {
    timer = null;
    running = true;
    wanted = false;
    try {
      await load(controller.signal);
    } finally {
      running = false;
      last = performance.now();
      if (wanted) ask();
    }
  }

  function ask() {
    if (controller.signal.aborted) return;
    wanted = true;
    if (running || timer !== null) return;
    timer = setTimeout(run, Math.max(0, last + pause - performance.now()));
  }

  return {
    ask,
    /** Loads now, unless it is under way. */
    now() {
      if (running || controller.signal.aborted) return;
      clearTimeout(timer);
      run();
    },
    stop() {
      controller.abort();
      clearTimeout(timer);
    },
  };
}

/** Whether an error is that of a request which is not wanted any more. */
export function isAborted(error) {
  return error?.name === "AbortError";
}

/** A part of a page with a heading. */
export function section(heading, ...children) {
  return h("section", { class: "panel", "aria-label": heading }, h("h3", {}, heading), ...children);
}

/** A part of a page with a heading and a table, which reaches to its sides. */
export function tableSection(heading, ...children) {
  return h("section", { class: "panel panel-table", "aria-label": heading }, h("h3", {}, heading), ...children);
}

/** A table. `columns` are names, or { name, class }; `rows` are lists of children. It scrolls sideways in its own box. */
export function table(caption, columns, rows) {
  const body = h("tbody");
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
  const fill = (all) => replace(body, ...all.map((cells) => row(heads, cells)));
  fill(rows);
  return { element: made, body, fill };
}

function row(heads, cells) {
  return h(
    "tr",
    {},
    ...cells.map((cell, at) => {
      const parts = Array.isArray(cell) ? cell : [cell];
      const attributes = { class: heads[at].class, "data-label": heads.length > 2 ? heads[at].name : null };
      return at === 0 ? h("th", { scope: "row", ...attributes }, ...parts) : h("td", attributes, ...parts);
    }),
  );
}
