// What became of what was done to a job: each action has an item in the list below the buttons. `bar` is that of the
// buttons: {context, job, results}.

import { isOver } from "./badge.js";
import { h, replace } from "./dom.js";
import { DriverGone, outcome } from "./operations.js";
import { copyable, messageOf } from "./parts.js";

/** So many results are kept on the page. */
const RESULTS = 4;

/** Shows that something is being done, until it is over; its result with the item that shows it, or null if it failed. */
export async function follow(bar, doing, where) {
  const item = begun(bar, doing);
  try {
    return { item, ...(await outcome(() => bar.context.api.get(where))) };
  } catch (error) {
    if (error instanceof DriverGone) {
      finished(
        bar,
        item,
        "warning",
        `${doing}: the driver ended before it could be asked what became of it. Its log, and “tidemill list”, tell.`,
      );
    } else {
      finished(bar, item, "error", `${doing} failed: ${messageOf(error)}`);
    }
    return null;
  }
}

/** Waits for the end of a job that was told to cancel. */
export async function cancelled(bar) {
  const item = begun(bar, "Cancelling the job");
  const ask = async () => {
    const job = await bar.context.api.get(pathOf(bar));
    return { status: { id: isOver(job) ? "COMPLETED" : "IN_PROGRESS" }, operation: { state: job.state } };
  };
  try {
    const { state } = await outcome(ask);
    if (state === "CANCELED") finished(bar, item, "good", "The job is cancelled.");
    else finished(bar, item, "warning", `The job is ${state.toLowerCase()}: it ended before it was cancelled.`);
  } catch (error) {
    if (error instanceof DriverGone) finished(bar, item, "good", "The driver has ended, and its job with it.");
    else finished(bar, item, "error", messageOf(error));
  }
}

/** Tells that a savepoint was taken, and where it is. */
export function savedAt(bar, { item, location }, told) {
  finished(
    bar,
    item,
    "good",
    `${told}.`,
    h("div", {}, copyable(location, "the savepoint's path", bar.context.announce)),
    h("p", { class: "help" }, "Start a job from it with ", h("code", {}, "tidemill run -s PATH PROGRAM"), "."),
  );
}

function begun(bar, doing) {
  const item = h(
    "li",
    {},
    h("div", { class: "notice notice-info" }, `${doing} … `, h("progress", { "aria-label": doing })),
  );
  bar.results.prepend(item);
  while (bar.results.children.length > RESULTS) bar.results.lastElementChild.remove();
  bar.context.announce(`${doing} …`);
  return item;
}

/** Tells in an item what became of what it stands for, until a person dismisses it. */
export function finished(bar, item, kind, told, ...more) {
  const away = h(
    "button",
    { type: "button", class: "button button-small", "aria-label": `Dismiss: ${told}` },
    "Dismiss",
  );
  away.addEventListener("click", () => item.remove());
  replace(item, h("div", { class: `notice notice-${kind}` }, h("p", {}, told), ...more, away));
  bar.context.announce(told);
  bar.context.refresh?.();
}

/** The path of the job, or of something below it. */
export function pathOf({ context, job }, below = null) {
  return `/jobs/${encodeURIComponent(job?.jid ?? context.jobId)}${below ? `/${below}` : ""}`;
}
