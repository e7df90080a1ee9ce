// The entries of one state: page by page, or what it has for a key. All pages are of the epoch of the first one.

import { field } from "./dialogs.js";
import { h, replace } from "./dom.js";
import { count, plural, time } from "./format.js";
import { isAborted, loader, nothing, problem, table } from "./parts.js";
import { brief, exact, json, tree, treeOfPairs } from "./tree.js";

const PAGE = 50;
/** So many entries are asked for at most of one key, of which a map may have many. */
const MOST = 1000;
const HEADS = {
  key: "Key",
  namespace: "Namespace",
  map_key: "Map key",
  value: "Value",
  subtask: "Subtask",
  last_access: "Last access",
};

/**
 * What a state holds. `keyed`: it can be looked up by key. The element has `lookUp(key)`, for a key as it is in JSON,
 * and `stop()`.
 */
export function entriesOf(context, operator, state, keyed) {
  const path = `/jobs/${context.jobId}/state/${operator.id}/${state.id}`;
  const status = h("p", { class: "help", role: "status" });
  const list = h("div", { class: "entries" });
  const pager = h("div", { class: "toolbar" });
  const form = keyed ? lookUpForm(state, (key) => look({ key })) : null;
  const element = h("div", { class: "browser" }, form?.element, status, list, pager);
  let wanted = { from: null, start: 0 };

  const loading = loader(async (signal) => {
    const asked = wanted;
    element.setAttribute("aria-busy", "true");
    try {
      const page = await context.api.get(`${path}?${query(asked)}`, { signal, revive: exact });
      if (asked === wanted) draw(asked, page);
    } catch (error) {
      if (!isAborted(error) && asked === wanted) fail(asked, error);
    } finally {
      element.removeAttribute("aria-busy");
    }
  }, 0);

  function look(next) {
    wanted = { from: null, start: 0, key: null, ...next };
    if (!list.firstChild) status.textContent = "Reading …";
    loading.ask();
  }

  function draw({ start, key }, page) {
    const found = page.entries.length;
    replace(list, found ? tableOf(state, page.entries) : null);
    if (key) {
      const entries = found === MOST ? `The first ${count(found)} entries` : plural(found, "entry", "entries");
      const told = found ? `${entries} for key ${brief(key)}` : `There is nothing for key ${brief(key)}`;
      status.textContent = `${told}, as of epoch ${page.epoch}.`;
      if (!found) list.append(nothing('Keys are told apart by their type too: 17 is a number, "17" is text.'));
      offer(button("Show all entries", () => look({})));
      return;
    }
    form?.suggest(page.entries);
    const last = start + found;
    status.textContent = found
      ? `Entries ${count(start + 1)} to ${count(last)}${page.next ? "" : ", the last ones,"} as of epoch ${page.epoch}.`
      : `${page.next ? "Nothing found yet" : start ? "There are no more entries" : "It is empty"}, as of epoch ${page.epoch}.`;
    offer(
      button(start ? "Back to the beginning" : "Refresh", () => look({})),
      page.next ? button("Next page", () => look({ from: page.next, start: last })) : null,
    );
  }

  /** Sets the buttons below; who pressed one of the old ones is on the last of the new. */
  function offer(...buttons) {
    const hadFocus = pager.contains(document.activeElement);
    replace(pager, ...buttons);
    if (hadFocus) pager.lastElementChild.focus();
  }

  function fail({ from }, error) {
    if (from !== null && error.status === 404) {
      status.textContent =
        "The job has let this epoch go. Begin again with a newer one, or have more kept: execution.checkpointing.num-retained.";
      offer(button("Begin again", () => look({})));
      return;
    }
    status.textContent = "";
    replace(list, problem(error, error.status === 400 ? null : () => loading.now()));
    offer(button("Show all entries", () => look({})));
  }

  look({});
  element.lookUp = (key) => {
    form?.set(key);
    look({ key });
  };
  element.stop = loading.stop;
  return element;
}

function query({ from, key }) {
  const parameters = new URLSearchParams({ limit: String(key ? MOST : PAGE) });
  if (key) parameters.set("key", key);
  else if (from) parameters.set("from", from);
  return parameters;
}

function tableOf(state, entries) {
  const names = Object.keys(HEADS).filter((name) => entries.some((entry) => name in entry));
  const others = Object.keys(entries[0]).filter((name) => !(name in HEADS));
  const columns = [...names, ...others];
  const heads = columns.map((name) => ({ name: HEADS[name] ?? name, class: "wrap" }));
  const rows = entries.map((entry) => columns.map((name) => (name in entry ? cell(state, name, entry[name]) : "")));
  return table(`Entries of ${state.name}`, heads, rows).element;
}

/** A value; a map, which comes as pairs, by its keys; the namespace of a window also with its times. */
function cell(state, name, value) {
  if (name === "value" && state.types.value?.startsWith("MapTypeInfo") && Array.isArray(value))
    return treeOfPairs(value);
  const isWindow = name === "namespace" && value !== null && Object.keys(value).join() === "start,end";
  if (!isWindow) return tree(value);
  return h("div", {}, tree(value), h("div", { class: "help" }, `${time(value.start)} to ${time(value.end)}`));
}

/** A form that asks for a key; `take` gets it as JSON. */
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
  const hint = labelled.querySelector(".help");
  const element = h(
    "form",
    { class: "look-up", role: "search", "aria-label": `Look up a key of ${state.name}` },
    labelled,
    form,
    h("button", { type: "submit", class: "button" }, "Look up"),
  );

  function hintOf(example) {
    const type = state.types.key ? `Keys are of the type ${state.types.key}. ` : "";
    const rule = 'As JSON, 17 is a number, "17" is text, and ["a", 1] is a tuple; what is no JSON is text.';
    return type + (example === null ? rule : `One of them, as JSON: ${example}. ${rule}`);
  }

  element.addEventListener("submit", (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key) take(form.value === "text" ? JSON.stringify(input.value) : key);
  });
  return {
    element,
    suggest(entries) {
      if (!entries.length) return;
      const example = entries[0].key;
      if (typeof example === "string") form.value = "text";
      hint.textContent = hintOf(brief(json(example), 60));
    },
    set(key) {
      form.value = "json";
      input.value = key;
    },
  };
}

function button(text, act) {
  return h("button", { type: "button", class: "button", onclick: act }, text);
}
