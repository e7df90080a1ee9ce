// @ts-check
// The buttons of a job: savepoint, rescale, stop, cancel. Each asks for confirmation. The results are shown below the
// buttons, also after the dialog is closed.

import { h, setAttribute, setText } from "../core/dom.js";
import { isOver } from "../widgets/badge.js";
import { cancel, rescale, savepoint, stop } from "./dialogs.js";

/** @import { JobDetails } from "../core/answers.js" */
/** @import { JobContext } from "../core/context.js" */

/**
 * The context of the dialogs: the job as last received, and the list for results.
 *
 * @typedef {{ context: JobContext, job: JobDetails, results: HTMLElement }} ActionBar
 */

/**
 * {element, update(job)}: the buttons of a job and the results of its actions.
 *
 * @param {JobContext} context
 */
export function actionBar(context) {
  const reason = h("p", { class: "action-reason", id: "action-reason" });
  const results = h("ul", { class: "action-results", "aria-label": "Results of actions" });
  /** @type {ActionBar} */
  const bar = { context, job: context.job, results };
  const actions = [
    { name: "Savepoint", act: savepoint, style: "button", inBatch: false },
    { name: "Rescale", act: rescale, style: "button", inBatch: false },
    { name: "Stop", act: stop, style: "button", inBatch: false },
    { name: "Cancel", act: cancel, style: "button button-quiet-danger", inBatch: true },
  ].map((action) => {
    const button = h("button", { type: "button", class: action.style, "aria-haspopup": "dialog" }, action.name);
    button.addEventListener("click", () => action.act(bar));
    return { ...action, button };
  });
  const buttons = actions.map(({ button }) => button);
  const element = h(
    "div",
    { class: "actions" },
    h("div", { class: "action-buttons", role: "group", "aria-label": "Actions" }, ...buttons),
    reason,
    results,
  );
  /** @param {JobDetails} job */
  function update(job) {
    bar.job = job;
    const never = whyNot(context, job);
    const isBatch = job["job-type"] === "BATCH";
    const why = never ?? (isBatch ? "A job in BATCH mode is a single epoch: it can only be cancelled." : "");
    setText(reason, why);
    reason.hidden = !why;
    for (const { button, inBatch } of actions) {
      button.disabled = never !== null || (isBatch && !inBatch);
      setAttribute(button, "aria-describedby", button.disabled ? reason.id : null);
    }
  }

  update(context.job);
  return { element, update };
}

/**
 * @param {JobContext} context
 * @param {JobDetails} job
 */
function whyNot(context, job) {
  if (job.recorded !== null) return "The job is shown from the history: no actions are available.";
  if (isOver(job)) return `The job is ${job.state.toLowerCase()}: no actions are available.`;
  if (!context.mayOperate) return "Your token is read-only. Actions require the token of rest.operate-token.";
  return null;
}
