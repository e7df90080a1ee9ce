// The buttons of a job: savepoint, rescale, stop, cancel. Each asks first; what was begun is followed below the buttons
// until it is over, also when its dialog is long closed.

import { cancel, rescale, savepoint, stop } from "./action_dialogs.js";
import { isOver } from "./badge.js";
import { h, setAttribute, setText } from "./dom.js";

/** The buttons of a job, with what became of those pressed. The frame calls `update(job)` for each answer about it. */
export function actionBar(context) {
  const reason = h("p", { class: "action-reason", id: "action-reason" });
  const results = h("ul", { class: "action-results", "aria-label": "What was done" });
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
  element.update = (job) => {
    bar.job = job;
    const never = whyNot(context, job);
    const isBatch = job?.["job-type"] === "BATCH";
    setText(
      reason,
      never ?? (isBatch ? "A job in BATCH mode is one epoch: it can only be waited for, or cancelled." : ""),
    );
    reason.hidden = !reason.textContent;
    for (const { button, inBatch } of actions) {
      button.disabled = never !== null || (isBatch && !inBatch);
      setAttribute(button, "aria-describedby", button.disabled ? reason.id : null);
    }
  };
  element.update(context.job);
  return element;
}

function whyNot(context, job) {
  if (!job) return "The job is not known yet.";
  if (isOver(job)) return `The job is ${job.state.toLowerCase()}: there is nothing left to do with it.`;
  if (!context.mayOperate) return "Your token may only look. To act, use the one of rest.operate-token.";
  return null;
}
