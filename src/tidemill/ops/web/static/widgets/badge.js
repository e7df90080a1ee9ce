// @ts-check
// The state of a job: a word with a symbol, so that states differ by more than their colour.

import { h, setAttribute, setText } from "../core/dom.js";

/** @type {Record<string, keyof typeof SIGNS>} */
const KINDS = {
  RUNNING: "good",
  FINISHED: "done",
  FAILED: "bad",
  FAILING: "bad",
  SUSPENDED: "bad",
  RESTARTING: "warning",
  CANCELLING: "warning",
  CANCELED: "over",
};
const SIGNS = { good: "●", done: "✓", bad: "✕", warning: "↻", over: "■", begin: "○" };

const OVER = ["FINISHED", "FAILED", "CANCELED", "SUSPENDED"];

/**
 * Whether a job has ended.
 *
 * @param {{ state: string }} job
 */
export function isOver(job) {
  return OVER.includes(job.state);
}

/**
 * A badge: {element, update(state, isOld)}; a state is old if the driver does not respond, and may have changed since.
 *
 * @param {string} state
 */
export function badge(state) {
  const sign = h("span", { "aria-hidden": "true" });
  const word = h("span");
  const element = h("span", { class: "badge" }, sign, word);
  /**
   * @param {string} next
   * @param {boolean} [isOld]
   */
  const update = (next, isOld = false) => {
    const kind = isOld ? "begin" : (KINDS[next] ?? "begin");
    setAttribute(element, "data-kind", kind);
    setText(sign, SIGNS[kind]);
    const text = next ? next.charAt(0) + next.slice(1).toLowerCase() : "…";
    setText(word, isOld ? `Last seen ${text.toLowerCase()}` : text);
  };
  update(state);
  return { element, update };
}
