// @ts-check
// The panel of an operator's state: a row for each state, the hottest keys, and the entries of the open state.

import { childList, h, replace, setAttribute, setStyle, setText } from "../core/dom.js";
import { NOTHING, bytes, count, percent, plural } from "../core/format.js";
import { brief, json } from "../widgets/tree.js";

/** @import { HotKeyInfo, OperatorWithState, StateOfOperator } from "../core/answers.js" */

/** @typedef {ReturnType<typeof operatorPanel>} OperatorPanel */
/**
 * The actions of a panel: open or close a state, and look up a key.
 *
 * @typedef {{
 *   toggle: (panel: OperatorPanel, operator: OperatorWithState, state: StateOfOperator, keyed: boolean) => void,
 *   lookUp: (panel: OperatorPanel, operator: OperatorWithState, hot: HotKeyInfo) => void,
 * }} PanelActions
 */
/** @typedef {{ state: StateOfOperator, keyed: boolean, largest: number }} ShownState */

/** @type {Record<string, string>} */
const COLUMNS = { user_key: "map key" };

/**
 * All states of an operator, keyed state first.
 *
 * @param {OperatorWithState} operator
 */
export function statesOf(operator) {
  return [...operator.states, ...operator["operator-states"]];
}

/**
 * Identifies a state of an operator: a keyed state and an operator state may have the same id.
 *
 * @param {StateOfOperator} state
 * @param {boolean} keyed
 */
export function placeOf(state, keyed) {
  return `${keyed} ${state.id}`;
}

/**
 * @param {OperatorWithState} operator
 * @param {PanelActions} actions
 */
export function operatorPanel(operator, actions) {
  const body = h("tbody");
  const timers = h("p", { class: "help" });
  const chips = h("ul", { class: "chips" });
  const hot = h("div", { class: "hot-keys", hidden: true }, h("h4", {}, "Hottest keys"), chips);
  const place = h("div");
  const element = h(
    "section",
    { class: "panel panel-table", "aria-label": `State of ${operator.name}` },
    h("h3", {}, operator.name, h("span", { class: "help" }, ` uid ${operator.uid}`)),
    h(
      "div",
      { class: "table-box" },
      h(
        "table",
        { class: "states cards" },
        h("caption", { class: "visually-hidden" }, `States of ${operator.name}`),
        h("thead", {}, h("tr", {}, ["State", "Kind", "Types", "Entries", "Size", ""].map(head))),
        body,
      ),
    ),
    timers,
    hot,
    place,
  );
  let shown = operator;
  /** @type {ReturnType<typeof stateRow> | null} */
  let opened = null;

  const rows = childList(
    body,
    /** @param {ShownState} one */ ({ state, keyed }) => placeOf(state, keyed),
    ({ state, keyed }) => stateRow(state, () => actions.toggle(panel, shown, state, keyed)),
    (row, { state, largest }) => row.show(state, largest),
  );
  const keys = childList(
    chips,
    /** @param {HotKeyInfo} one */ (one) => json(one.key),
    (one) => hotKey(one, () => actions.lookUp(panel, shown, one)),
    (item, one) => item.show(one),
  );

  const panel = {
    element,
    /**
     * @param {OperatorWithState} now
     * @param {number} largest - the size of the largest state of the job
     */
    show(now, largest) {
      shown = now;
      setText(timers, now.timers ? plural(now.timers, "timer") : "");
      timers.hidden = !now.timers;
      rows.show([
        ...now.states.map((state) => ({ state, keyed: true, largest })),
        ...now["operator-states"].map((state) => ({ state, keyed: false, largest })),
      ]);
    },
    /** @param {HotKeyInfo[]} found */
    showHotKeys(found) {
      hot.hidden = found.length === 0;
      if (found.length) keys.show(found);
    },
    /**
     * Shows the entries of a state.
     *
     * @param {StateOfOperator} state
     * @param {boolean} keyed
     * @param {HTMLElement} entries
     */
    open(state, keyed, entries) {
      replace(
        place,
        h(
          "section",
          { class: "entries-panel", "aria-label": `Entries of ${state.name}` },
          h("h4", {}, `Entries of ${state.name}`),
          entries,
        ),
      );
      opened = rows.get(placeOf(state, keyed)) ?? null;
      opened?.setOpen(true);
      place.scrollIntoView({ block: "nearest" });
    },
    close() {
      replace(place);
      opened?.setOpen(false);
      opened = null;
    },
  };
  return panel;
}

/**
 * @param {StateOfOperator} state
 * @param {() => void} act
 */
function stateRow(state, act) {
  const entries = h("td", { class: "number", "data-label": "Entries" });
  const size = h("span");
  const bar = h("span", { class: "bar-fill" });
  const button = h(
    "button",
    {
      type: "button",
      class: "button button-small",
      "aria-expanded": "false",
      "aria-label": `Entries of ${state.name}`,
      onclick: act,
    },
    "Entries",
  );
  const element = h(
    "tr",
    {},
    h("th", { scope: "row", class: "wrap" }, h("code", {}, state.name)),
    h("td", { "data-label": "Kind" }, state.kind),
    h("td", { class: "wrap", "data-label": "Types" }, typesOf(state)),
    entries,
    h(
      "td",
      { class: "number", "data-label": "Size" },
      h("div", {}, size, h("span", { class: "bar", "aria-hidden": "true" }, bar)),
    ),
    h("td", { class: "row-actions" }, button),
  );
  return {
    element,
    /**
     * @param {StateOfOperator} now
     * @param {number} largest
     */
    show(now, largest) {
      setText(entries, now.entries === null ? `${count(now.rows)} rows` : count(now.entries));
      setAttribute(
        entries,
        "title",
        `${count(now.rows)} rows in storage; an entry that changed is counted several times until files are merged`,
      );
      setText(size, bytes(now.bytes));
      setStyle(bar, "width", `${Math.max(1, Math.round((now.bytes / largest) * 100))}%`);
    },
    /** @param {boolean} isOpen */
    setOpen: (isOpen) => setAttribute(button, "aria-expanded", String(isOpen)),
  };
}

/** @param {StateOfOperator} state */
function typesOf(state) {
  const types = Object.entries(state.types);
  if (!types.length) return NOTHING;
  return h(
    "div",
    {},
    types.map(([column, type]) =>
      h("span", { class: "type" }, h("span", { class: "help" }, `${COLUMNS[column] ?? column} `), h("code", {}, type)),
    ),
  );
}

/**
 * @param {HotKeyInfo} one
 * @param {() => void} act
 */
function hotKey(one, act) {
  const share = h("span", { class: "chip-share" });
  const bar = h("span", { class: "bar-fill" });
  const button = h(
    "button",
    { type: "button", class: "chip", onclick: act },
    h("code", {}, brief(one.text ?? one.key, 32)),
    share,
    h("span", { class: "bar", "aria-hidden": "true" }, bar),
  );
  return {
    element: h("li", {}, button),
    /** @param {HotKeyInfo} now */
    show(now) {
      setText(share, percent(now.share));
      setStyle(bar, "width", `${Math.round(Math.min(1, now.share) * 100)}%`);
      setAttribute(
        button,
        "aria-label",
        `Look up key ${brief(now.text ?? now.key)}, about ${percent(now.share)} of the records`,
      );
    },
  };
}

/** @param {string} name */
function head(name) {
  const style = name === "Entries" || name === "Size" ? "number" : null;
  return h("th", { scope: "col", class: name ? style : "row-actions" }, name || h("span", { class: "visually-hidden" }, "Actions"));
}
