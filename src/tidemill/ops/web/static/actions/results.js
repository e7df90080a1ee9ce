// @ts-check
// The results of actions: each is an item in the list below the buttons.

import { messageOf } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { isOver } from "../widgets/badge.js";
import { copyable } from "../widgets/parts.js";
import { DriverGone, outcome } from "./operations.js";

/** @import { JobDetails, OperationAnswer } from "../core/answers.js" */
/** @import { Child } from "../core/dom.js" */
/** @import { NoticeKind } from "../widgets/parts.js" */
/** @import { ActionBar } from "./bar.js" */

/** How many results are kept on the page. */
const RESULTS = 4;

/**
 * Shows that an operation is in progress until it has completed. Returns its result with the item that shows it, or null
 * if it failed. `doing` describes the operation, `where` is the path of its result.
 *
 * @param {ActionBar} bar
 * @param {string} doing
 * @param {string} where
 * @returns {Promise<{ item: HTMLElement, location?: string } | null>}
 */
export async function follow(bar, doing, where) {
  const item = begun(bar, doing);
  try {
    /** @returns {Promise<OperationAnswer>} */
    const ask = () => bar.context.api.get(where);
    const { location } = await outcome(ask);
    return { item, location };
  } catch (error) {
    if (error instanceof DriverGone) {
      finished(
        bar,
        item,
        "warning",
        `${doing}: the driver ended before it reported the result. See its log, or “tidemill list”.`,
      );
    } else {
      finished(bar, item, "error", `${doing} failed: ${messageOf(error)}`);
    }
    return null;
  }
}

/**
 * Waits for the end of a job that is being cancelled.
 *
 * @param {ActionBar} bar
 */
export async function cancelled(bar) {
  const item = begun(bar, "Cancelling the job");
  let state = "";
  const ask = async () => {
    /** @type {JobDetails} */
    const job = await bar.context.api.get(pathOf(bar));
    state = job.state;
    return { status: { id: isOver(job) ? "COMPLETED" : "IN_PROGRESS" } };
  };
  try {
    await outcome(ask);
    if (state === "CANCELED") finished(bar, item, "good", "The job is cancelled.");
    else finished(bar, item, "warning", `The job is ${state.toLowerCase()}: it ended before it was cancelled.`);
  } catch (error) {
    if (error instanceof DriverGone) finished(bar, item, "good", "The driver and its job have ended.");
    else finished(bar, item, "error", messageOf(error));
  }
}

/**
 * Shows that a savepoint was taken, and its location.
 *
 * @param {ActionBar} bar
 * @param {{ item: HTMLElement, location?: string }} result
 * @param {string} message
 */
export function savedAt(bar, { item, location = "" }, message) {
  finished(
    bar,
    item,
    "good",
    `${message}.`,
    h("div", {}, copyable(location, "the savepoint's path", bar.context.announce)),
    h("p", { class: "help" }, "Start a job from it with ", h("code", {}, "tidemill run -s PATH PROGRAM"), "."),
  );
}

/**
 * @param {ActionBar} bar
 * @param {string} doing
 */
function begun(bar, doing) {
  const item = h(
    "li",
    {},
    h("div", { class: "notice notice-info" }, `${doing} … `, h("progress", { "aria-label": doing })),
  );
  bar.results.prepend(item);
  while (bar.results.children.length > RESULTS) bar.results.lastElementChild?.remove();
  bar.context.announce(`${doing} …`);
  return item;
}

/**
 * Shows the result of an operation in its item until the user dismisses it.
 *
 * @param {ActionBar} bar
 * @param {HTMLElement} item
 * @param {NoticeKind} kind
 * @param {string} message
 * @param {...Child} more
 */
export function finished(bar, item, kind, message, ...more) {
  const away = h(
    "button",
    { type: "button", class: "button button-small", "aria-label": `Dismiss: ${message}` },
    "Dismiss",
  );
  away.addEventListener("click", () => item.remove());
  replace(item, h("div", { class: `notice notice-${kind}` }, h("p", {}, message), ...more, away));
  bar.context.announce(message);
  bar.context.refresh();
}

/**
 * The path of the job, or of one of its resources.
 *
 * @param {ActionBar} bar
 * @param {string} [below]
 */
export function pathOf({ job }, below) {
  return `/jobs/${encodeURIComponent(job.jid)}${below ? `/${below}` : ""}`;
}
