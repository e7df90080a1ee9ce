// @ts-check
// The entries of one state: page by page, or those of a key. All pages are from the epoch of the first page.

import { isAborted, statusOf } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { count, plural, time } from "../core/format.js";
import { loader } from "../core/loader.js";
import { field } from "../widgets/dialogs.js";
import { nothing, problem, table } from "../widgets/parts.js";
import { brief, exact, json, tree, treeOfPairs } from "../widgets/tree.js";

/** @import { OperatorWithState, StateOfOperator, StatePage } from "../core/answers.js" */
/** @import { JobContext } from "../core/context.js" */

/**
 * The requested entries: those of a `key`, as JSON, or a page. `from` is the server's position of a page (null: the first
 * page), `start` the number of entries before it.
 *
 * @typedef {{ from: string | null, start: number, key: string | null }} Wanted
 */
/** @typedef {Record<string, unknown>} Entry */

const PAGE = 50;
/** Maximum number of entries to request for one key: a map may have many. */
const MOST = 1000;
/** @type {Record<string, string>} */
const HEADS = {
  key: "Key",
  namespace: "Namespace",
  map_key: "Map key",
  value: "Value",
  subtask: "Subtask",
  last_access: "Last access",
};

/**
 * The entries of a state: {element, lookUp(key), stop()}. `lookUp` accepts a key as JSON. `keyed` is whether entries can
 * be looked up by key.
 *
 * @param {JobContext} context
 * @param {OperatorWithState} operator
 * @param {StateOfOperator} state
 * @param {boolean} keyed
 */
export function entriesOf(context, operator, state, keyed) {
  const path = `/jobs/${context.jobId}/state/${operator.id}/${state.id}`;
  const status = h("p", { class: "help", role: "status" });
  const list = h("div", { class: "entries" });
  const pager = h("div", { class: "toolbar" });
  const form = keyed ? lookUpForm(state, (key) => look({ key })) : null;
  const element = h("div", { class: "browser" }, form?.element, status, list, pager);
  /** @type {Wanted} */
  let wanted = { from: null, start: 0, key: null };
  let isShown = false;

  const loading = loader(async (signal) => {
    const asked = wanted;
    element.setAttribute("aria-busy", "true");
    try {
      /** @type {StatePage} */
      const page = await context.api.get(`${path}?${query(asked)}`, { signal, revive: exact });
      if (asked === wanted) draw(asked, page);
    } catch (error) {
      if (!isAborted(error) && asked === wanted) fail(asked, error);
    } finally {
      element.removeAttribute("aria-busy");
    }
  }, 0);

  /** @param {Partial<Wanted>} next */
  function look(next) {
    wanted = { from: null, start: 0, key: null, ...next };
    if (!isShown) status.textContent = "Reading …";
    loading.ask();
  }

  /**
   * @param {Wanted} asked
   * @param {StatePage} page
   */
  function draw({ start, key }, page) {
    const found = page.entries.length;
    isShown = found > 0 || key !== null;
    replace(list, found ? tableOf(state, page.entries) : null);
    if (key) {
      const entries = found === MOST ? `The first ${count(found)} entries` : plural(found, "entry", "entries");
      const result = found ? `${entries} for key ${brief(key)}` : `There is no entry for key ${brief(key)}`;
      status.textContent = `${result}, as of epoch ${page.epoch}.`;
      if (!found) list.append(nothing('Keys of different types are different: 17 is a number, "17" is a string.'));
      offer(button("Show all entries", () => look({})));
      return;
    }
    form?.suggest(page.entries);
    const last = start + found;
    status.textContent = found
      ? `Entries ${count(start + 1)} to ${count(last)}${page.next ? "" : ", the last ones,"} as of epoch ${page.epoch}.`
      : `${page.next ? "No entries found yet" : start ? "There are no more entries" : "The state is empty"}, as of epoch ${page.epoch}.`;
    offer(
      button(start ? "Back to the beginning" : "Refresh", () => look({})),
      page.next ? button("Next page", () => look({ from: page.next, start: last })) : null,
    );
  }

  /**
   * Sets the buttons below the entries. If one of the old buttons had the focus, the last new one gets it.
   *
   * @param {...(HTMLButtonElement | null)} buttons
   */
  function offer(...buttons) {
    const hadFocus = pager.contains(document.activeElement);
    const shown = buttons.flatMap((one) => (one ? [one] : []));
    replace(pager, shown);
    if (hadFocus) shown.at(-1)?.focus();
  }

  /**
   * @param {Wanted} asked
   * @param {unknown} error
   */
  function fail({ from }, error) {
    if (from !== null && statusOf(error) === 404) {
      status.textContent =
        "The job no longer retains this epoch. Start again with a newer one, or retain more: execution.checkpointing.num-retained.";
      offer(button("Start again", () => look({})));
      return;
    }
    status.textContent = "";
    isShown = true;
    replace(list, problem(error, statusOf(error) === 400 ? null : () => loading.now()));
    offer(button("Show all entries", () => look({})));
  }

  look({});
  return {
    element,
    /** @param {string} key */
    lookUp(key) {
      form?.set(key);
      look({ key });
    },
    stop: loading.stop,
  };
}

/** @param {Wanted} wanted */
function query({ from, key }) {
  const parameters = new URLSearchParams({ limit: String(key ? MOST : PAGE) });
  if (key) parameters.set("key", key);
  else if (from) parameters.set("from", from);
  return parameters;
}

/**
 * @param {StateOfOperator} state
 * @param {Entry[]} entries
 */
function tableOf(state, entries) {
  const names = Object.keys(HEADS).filter((name) => entries.some((entry) => name in entry));
  const others = Object.keys(entries[0]).filter((name) => !(name in HEADS));
  const columns = [...names, ...others];
  const heads = columns.map((name) => ({ name: HEADS[name] ?? name, class: "wrap" }));
  const rows = entries.map((entry) => columns.map((name) => (name in entry ? cell(state, name, entry[name]) : "")));
  return table(`Entries of ${state.name}`, heads, rows).element;
}

/**
 * A value. A map, which is sent as pairs, is shown by its keys; the namespace of a window also with its times.
 *
 * @param {StateOfOperator} state
 * @param {string} name
 * @param {unknown} value
 */
function cell(state, name, value) {
  if (name === "value" && state.types.value?.startsWith("MapTypeInfo") && Array.isArray(value))
    return treeOfPairs(value);
  if (name !== "namespace" || !isWindow(value)) return tree(value);
  return h("div", {}, tree(value), h("div", { class: "help" }, `${time(value.start)} to ${time(value.end)}`));
}

/**
 * @param {unknown} value
 * @returns {value is { start: number, end: number }}
 */
function isWindow(value) {
  return typeof value === "object" && value !== null && Object.keys(value).join() === "start,end";
}

/**
 * A form for a key; `take` receives it as JSON.
 *
 * @param {StateOfOperator} state
 * @param {(key: string) => void} take
 */
function lookUpForm(state, take) {
  const isText = /^(String|Char)/.test(state.types.key ?? "");
  const input = h("input", {
    type: "text",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    maxlength: "2000",
  });
  const form = h(
    "select",
    {},
    h("option", { value: "json" }, "as JSON"),
    h("option", { value: "text", selected: isText }, "as text"),
  );
  form.setAttribute("aria-label", "How the key is written");
  const labelled = field("Look up a key", input, hintOf(null));
  const element = h(
    "form",
    { class: "look-up", role: "search", "aria-label": `Look up a key of ${state.name}` },
    labelled.element,
    form,
    h("button", { type: "submit", class: "button" }, "Look up"),
  );

  /** @param {string | null} example */
  function hintOf(example) {
    const type = state.types.key ? `Keys have the type ${state.types.key}. ` : "";
    const rule = 'As JSON, 17 is a number, "17" is a string, and ["a", 1] is a tuple; anything else is a string.';
    return type + (example === null ? rule : `For example, as JSON: ${example}. ${rule}`);
  }

  element.addEventListener("submit", (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key) take(form.value === "text" ? JSON.stringify(input.value) : key);
  });
  return {
    element,
    /** @param {Entry[]} entries */
    suggest(entries) {
      if (!entries.length) return;
      const example = entries[0].key;
      if (typeof example === "string") form.value = "text";
      labelled.hint.textContent = hintOf(brief(json(example), 60));
    },
    /** @param {string} key */
    set(key) {
      form.value = "json";
      input.value = key;
    },
  };
}

/**
 * @param {string} text
 * @param {() => void} act
 */
function button(text, act) {
  return h("button", { type: "button", class: "button", onclick: act }, text);
}
