// @ts-check
// The state of a job as of its last committed epoch: list of states, their sizes, hottest keys and entries.

import { isAborted, messageOf, statusOf } from "../core/api.js";
import { childList, h, replace, setText } from "../core/dom.js";
import { loader } from "../core/loader.js";
import { notice, nothing, problem } from "../widgets/parts.js";
import { exact, json } from "../widgets/tree.js";
import { entriesOf } from "./entries.js";
import { operatorPanel, placeOf, statesOf } from "./state_panel.js";

/** @import { HotKeyInfo, HotKeysInfo, OperatorWithState, StateList, StateOfOperator } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */
/** @import { OperatorPanel, PanelActions } from "./state_panel.js" */

export const title = "State";

/** How many of the hottest keys are shown. */
const HOT = 8;

/** @param {string} path */
export const secrets = (path) => [`${path}/state`];

/**
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  const status = h("p", { class: "help" });
  const trouble = h("div");
  const list = h("div", { class: "state-operators" });
  const again = h("button", { type: "button", class: "button", onclick: () => loading.now() }, "Refresh");
  const top = h("div", { class: "toolbar" }, status, again);
  replace(root, h("h2", { class: "visually-hidden" }, title), top, trouble, list);
  /**
   * The open state; only one at a time.
   *
   * @type {{ panel: OperatorPanel, place: string, entries: ReturnType<typeof entriesOf> } | null}
   */
  let open = null;
  /** @type {number | null} */
  let seen = null; // the epoch that is shown
  /** @type {number | null} */
  let latest = null; // the last epoch that the job has reported

  /** @type {PanelActions} */
  const actions = { toggle, lookUp };
  const panels = childList(
    list,
    /** @param {{ operator: OperatorWithState, largest: number }} one */ ({ operator }) => operator.uid,
    ({ operator }) => operatorPanel(operator, actions),
    (panel, { operator, largest }) => panel.show(operator, largest),
  );

  const loading = loader(async (signal) => {
    try {
      /** @type {StateList} */
      const answer = await context.api.get(`/jobs/${context.jobId}/state`, { signal });
      replace(
        trouble,
        answer.operators.length ? null : nothing("No operator of this job has state, or no state has been committed yet."),
      );
      seen = answer.epoch;
      showEpoch();
      const largest = Math.max(1, ...answer.operators.flatMap(statesOf).map((state) => state.bytes));
      panels.show(answer.operators.map((operator) => ({ operator, largest })));
      await Promise.all(answer.operators.filter((one) => one.keyed).map((one) => showHotKeys(one, signal)));
    } catch (error) {
      if (isAborted(error)) return;
      const code = statusOf(error);
      top.hidden = code === 403;
      replace(
        trouble,
        code === 403 ? forOperators() : code === 404 ? noneYet(error) : problem(error, () => loading.now()),
      );
    }
  }, 0);

  function showEpoch() {
    const newer = latest !== null && seen !== null && latest > seen ? ` The job is at epoch ${latest} now.` : "";
    setText(status, seen === null ? "" : `State as of epoch ${seen}.${newer} Sizes are those in storage.`);
  }

  /**
   * Opens a state below its operator, or closes it.
   *
   * @param {OperatorPanel} panel
   * @param {OperatorWithState} operator
   * @param {StateOfOperator} state
   * @param {boolean} keyed
   */
  function toggle(panel, operator, state, keyed) {
    const place = placeOf(state, keyed);
    const wasOpen = open?.panel === panel && open.place === place;
    close();
    if (wasOpen) return null;
    const entries = entriesOf(context, operator, state, keyed);
    open = { panel, place, entries };
    panel.open(state, keyed, entries.element);
    return entries;
  }

  function close() {
    open?.entries.stop();
    open?.panel.close();
    open = null;
  }

  /**
   * Shows the keys with the most records, if the driver samples keys.
   *
   * @param {OperatorWithState} operator
   * @param {AbortSignal} signal
   */
  async function showHotKeys(operator, signal) {
    const panel = panels.get(operator.uid);
    const vertex = context.job.vertices.find((one) => one.operators.includes(operator.uid));
    if (!panel || !vertex || !operator.states.length) return;
    try {
      /** @type {HotKeysInfo} */
      const { keys } = await context.api.get(`/jobs/${context.jobId}/vertices/${vertex.id}/hot-keys`, {
        signal,
        revive: exact,
      });
      panel.showHotKeys(keys.slice(0, HOT));
    } catch {
      panel.showHotKeys([]); // the keys of the operator are not sampled
    }
  }

  /**
   * @param {OperatorPanel} panel
   * @param {OperatorWithState} operator
   * @param {HotKeyInfo} hot
   */
  function lookUp(panel, operator, { key }) {
    const places = operator.states.map((state) => placeOf(state, true));
    const isOpen = open !== null && open.panel === panel && places.includes(open.place);
    const entries = isOpen ? open?.entries : toggle(panel, operator, operator.states[0], true);
    entries?.lookUp(json(key));
  }

  loading.now();
  return {
    /** Each request reads from storage and is logged in the audit log, so it is only made for the user. */
    update(message) {
      latest = message.epoch?.epoch ?? latest;
      showEpoch();
    },
    unmount() {
      loading.stop();
      close();
    },
  };
}

function forOperators() {
  return notice(
    "info",
    "State is user data: it is only shown with the token of rest.operate-token. Your token is read-only.",
  );
}

/** @param {unknown} error */
function noneYet(error) {
  return notice(
    "info",
    h("p", {}, "There is no committed state to show yet."),
    h("p", { class: "help" }, messageOf(error)),
  );
}
