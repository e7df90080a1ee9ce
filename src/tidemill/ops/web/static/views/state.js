// The state of a job as of its last committed epoch: which there is, how much, its hottest keys, and what is in it.

import { h, reconcile, replace, setAttribute, setStyle, setText } from "../dom.js";
import { entriesOf } from "../entries.js";
import { NOTHING, bytes, count, percent, plural } from "../format.js";
import { isAborted, loader, notice, nothing, problem } from "../parts.js";
import { brief, exact, json } from "../tree.js";

export const title = "State";

/** So many of the hottest keys are shown. */
const HOT = 8;
const COLUMNS = { user_key: "map key" };

export function mount(root, context) {
  const status = h("p", { class: "help" });
  const trouble = h("div");
  const list = h("div", { class: "state-operators" });
  const again = h("button", { type: "button", class: "button", onclick: () => loading.now() }, "Refresh");
  const top = h("div", { class: "toolbar" }, status, again);
  replace(root, h("h2", { class: "visually-hidden" }, title), top, trouble, list);
  /** What is open: {element, of} of one state at a time. */
  const open = { element: null, of: null };
  let seen = null; // the epoch that is shown
  let latest = null; // the last one that the job has told of

  const loading = loader(async (signal) => {
    try {
      const answer = await context.api.get(`/jobs/${context.jobId}/state`, { signal });
      replace(
        trouble,
        answer.operators.length ? null : nothing("No operator of this job has state, or none is committed yet."),
      );
      seen = answer.epoch;
      tellEpoch();
      draw(answer.operators);
      await Promise.all(answer.operators.filter((one) => one.keyed).map((one) => drawHotKeys(one, signal)));
    } catch (error) {
      if (isAborted(error)) return;
      top.hidden = error.status === 403;
      replace(
        trouble,
        error.status === 403
          ? forOperators()
          : error.status === 404
            ? noneYet(error)
            : problem(error, () => loading.now()),
      );
    }
  }, 0);

  function tellEpoch() {
    const newer = latest !== null && latest > seen ? ` The job is at epoch ${latest} now.` : "";
    setText(status, seen === null ? "" : `State as of epoch ${seen}.${newer} Sizes are those in storage.`);
  }

  function draw(operators) {
    const largest = Math.max(1, ...operators.flatMap(statesOf).map((state) => state.bytes));
    reconcile(
      list,
      operators,
      (operator) => operator.uid,
      (operator) => operatorPanel(operator),
      (panel, operator) => panel.show(operator, largest),
    );
  }

  function operatorPanel(operator) {
    const body = h("tbody");
    const timers = h("p", { class: "help" });
    const hot = h("div", { class: "hot-keys", hidden: true });
    const place = h("div");
    const panel = h(
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
          h("thead", {}, h("tr", {}, ...["State", "Kind", "Types", "Entries", "Size", ""].map(head))),
          body,
        ),
      ),
      timers,
      hot,
      place,
    );
    panel.hot = hot;
    panel.place = place;
    panel.show = (now, largest) => {
      setText(timers, now.timers ? plural(now.timers, "timer") : "");
      timers.hidden = !now.timers;
      const keyed = new Set(now.states.map((state) => state.id));
      reconcile(
        body,
        statesOf(now),
        (state) => `${keyed.has(state.id)} ${state.id}`,
        (state) => stateRow(now, state, () => toggle(panel, now, state, keyed.has(state.id))),
        (row, state) => row.show(state, largest),
      );
    };
    return panel;
  }

  /** Opens a state below its operator, or closes it; `open.element` is then what shows its entries. */
  function toggle(panel, operator, state, keyed) {
    const of = placeOf(operator, state);
    const wasOpen = open.of === of;
    close();
    if (wasOpen) return null;
    open.of = of;
    open.element = entriesOf(context, operator, state, keyed);
    replace(
      panel.place,
      h(
        "section",
        { class: "entries-panel", "aria-label": `Entries of ${state.name}` },
        h("h4", {}, `Entries of ${state.name}`),
        open.element,
      ),
    );
    markOpen();
    panel.place.scrollIntoView({ block: "nearest" });
    return open.element;
  }

  function close() {
    open.element?.stop();
    open.element?.parentElement.remove();
    open.element = open.of = null;
    markOpen();
  }

  function markOpen() {
    for (const button of list.querySelectorAll("button[data-of]"))
      setAttribute(button, "aria-expanded", String(button.dataset.of === open.of));
  }

  /** The keys with the most records, where the driver samples them. */
  async function drawHotKeys(operator, signal) {
    const panel = list.knownChildren.get(operator.uid);
    const vertex = context.job?.vertices.find((one) => one.operators.includes(operator.uid));
    if (!vertex || !operator.states.length) return;
    try {
      const { keys } = await context.api.get(`/jobs/${context.jobId}/vertices/${vertex.id}/hot-keys`, {
        signal,
        revive: exact,
      });
      panel.hot.hidden = !keys.length;
      if (keys.length) showHotKeys(panel, operator, keys.slice(0, HOT));
    } catch (error) {
      panel.hot.hidden = true; // an operator that is not sampled, or a driver that does not do it
    }
  }

  function showHotKeys(panel, operator, keys) {
    if (!panel.hot.firstChild) replace(panel.hot, h("h4", {}, "Hottest keys"), h("ul", { class: "chips" }));
    reconcile(
      panel.hot.lastChild,
      keys,
      (one) => json(one.key),
      (one) => hotKey(one, () => lookUp(panel, operator, one)),
      (item, one) => {
        setText(item.share, percent(one.share));
        setStyle(item.bar, "width", `${Math.round(Math.min(1, one.share) * 100)}%`);
        setAttribute(
          item.firstChild,
          "aria-label",
          `Look up key ${brief(one.text ?? one.key)}, about ${percent(one.share)} of the records`,
        );
      },
    );
  }

  function lookUp(panel, operator, { key }) {
    const isOpen = operator.states.some((state) => placeOf(operator, state) === open.of);
    const entries = isOpen ? open.element : toggle(panel, operator, operator.states[0], true);
    entries.lookUp(json(key));
  }

  loading.now();
  return {
    /** Each look reads from storage and is noted in the audit, so that only a person asks for one. */
    update(message) {
      latest = message.epoch?.epoch ?? latest;
      tellEpoch();
    },
    unmount() {
      loading.stop();
      close();
    },
  };
}

function statesOf(operator) {
  return [...operator.states, ...operator["operator-states"]];
}

function stateRow(operator, state, act) {
  const entries = h("td", { class: "number", "data-label": "Entries" });
  const size = h("span");
  const bar = h("span", { class: "bar-fill" });
  const button = h(
    "button",
    {
      type: "button",
      class: "button button-small",
      "aria-expanded": "false",
      "data-of": placeOf(operator, state),
      "aria-label": `Entries of ${state.name}`,
      onclick: act,
    },
    "Entries",
  );
  const row = h(
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
  row.show = (now, largest) => {
    setText(entries, now.entries === null ? `${count(now.rows)} rows` : count(now.entries));
    setAttribute(
      entries,
      "title",
      `${count(now.rows)} rows in storage; an entry that changed counts several times until files are merged`,
    );
    setText(size, bytes(now.bytes));
    setStyle(bar, "width", `${Math.max(1, Math.round((now.bytes / largest) * 100))}%`);
  };
  return row;
}

function placeOf(operator, state) {
  return `${operator.id}/${state.id}`;
}

function typesOf(state) {
  const types = Object.entries(state.types);
  if (!types.length) return NOTHING;
  return h(
    "div",
    {},
    ...types.map(([column, type]) =>
      h("span", { class: "type" }, h("span", { class: "help" }, `${COLUMNS[column] ?? column} `), h("code", {}, type)),
    ),
  );
}

function hotKey(one, act) {
  const share = h("span", { class: "chip-share" });
  const bar = h("span", { class: "bar-fill" });
  const item = h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "chip", onclick: act },
      h("code", {}, brief(one.text ?? one.key, 32)),
      share,
      h("span", { class: "bar", "aria-hidden": "true" }, bar),
    ),
  );
  item.share = share;
  item.bar = bar;
  return item;
}

function head(name) {
  const style = name === "Entries" || name === "Size" ? "number" : null;
  return h("th", { scope: "col", class: style }, name || h("span", { class: "visually-hidden" }, "Look inside"));
}

function forOperators() {
  return notice(
    "info",
    "State is users' data: it is only shown with the token of rest.operate-token, and yours may only look at the rest.",
  );
}

function noneYet(error) {
  return notice(
    "info",
    h("p", {}, "There is no committed state to show yet."),
    h("p", { class: "help" }, error.messages.join(" ")),
  );
}
