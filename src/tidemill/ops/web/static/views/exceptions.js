// @ts-check
// The exceptions of a job, newest first: the user's traceback, and where it was raised.

import { isAborted } from "../core/api.js";
import { childList, h, replace } from "../core/dom.js";
import { plural, time } from "../core/format.js";
import { loader } from "../core/loader.js";
import { copyButton, facts, notice, nothing, problem } from "../widgets/parts.js";

/** @import { JobException, JobExceptions } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */

export const title = "Exceptions";

/** How many are requested at first, and at most. */
const [FIRST, MOST] = [20, 200];
/** The minimum time between two requests, in milliseconds. */
const PAUSE = 3000;

/** @param {string} path */
export const answers = (path) => [`${path}/exceptions?maxExceptions=${FIRST}`];

/**
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  const list = h("ol", { class: "failures" });
  const status = h("div");
  const more = h("div");
  replace(root, h("h2", { class: "visually-hidden" }, title), status, list, more);
  let asked = FIRST;
  /** @type {string | null} */
  let seen = null;
  /** @type {JobException[]} */
  let entries = [];
  // Unchanged entries are kept, so that open ones remain open and selected text remains selected.
  const failures = childList(
    list,
    /** @param {{ entry: JobException, isFirst: boolean }} one */ ({ entry }) =>
      [entry.timestamp, entry.lastTimestamp, entry.times, entry.followedBy, entry.uid, entry.subtask].join(" "),
    ({ entry, isFirst }) => ({ element: h("li", {}, failure(entry, context, isFirst)) }),
  );

  const loading = loader(async (signal) => {
    try {
      /** @type {JobExceptions} */
      const answer = await context.api.get(`/jobs/${context.jobId}/exceptions?maxExceptions=${asked}`, { signal });
      const { truncated } = answer.exceptionHistory;
      entries = answer.exceptionHistory.entries;
      drawSummary();
      failures.show(entries.map((entry, at) => ({ entry, isFirst: at === 0 })));
      replace(more, truncated && asked < MOST ? moreButton() : null);
    } catch (error) {
      if (!isAborted(error))
        replace(
          status,
          problem(error, () => loading.now()),
        );
    }
  }, PAUSE);

  /** The state is that of the job's badge, which may have changed since the failures were requested. */
  function drawSummary() {
    replace(status, entries.length ? summary(entries, context.job.state) : none());
  }

  function moreButton() {
    const act = () => {
      asked = MOST;
      loading.now();
    };
    return h("button", { type: "button", class: "button", onclick: act }, "Show older failures");
  }

  loading.now();
  return {
    /** After a failure a job restarts or ends; otherwise there are no new exceptions. */
    update(message) {
      const now = `${message.state} ${message.restarts}`;
      if (seen !== now) {
        if (entries.length) drawSummary();
        loading.ask();
      }
      seen = now;
    },
    unmount: loading.stop,
  };
}

function none() {
  return nothing("There have been no failures since this driver started the job.");
}

/**
 * @param {JobException[]} entries
 * @param {string} state
 */
function summary(entries, state) {
  const times = entries.reduce((sum, entry) => sum + entry.times, 0);
  const text = `${plural(times, "failure")}, the last at ${time(entries[0].lastTimestamp)}.`;
  if (state === "FAILED" || state === "FAILING")
    return notice("error", `${text} The job has ended because of the first failure below.`);
  if (state === "RESTARTING")
    return notice("warning", `${text} The job is restarting because of the first failure below.`);
  return h("p", { class: "help" }, text);
}

/**
 * @param {JobException} entry
 * @param {JobContext} context
 * @param {boolean} isOpen
 */
function failure(entry, context, isOpen) {
  const [name, text] = split(entry.exceptionName);
  const where = entry.taskName ?? entry.uid;
  const trace = h(
    "pre",
    { class: "trace", tabindex: "0", role: "region", "aria-label": `Traceback of ${name}` },
    entry.stacktrace,
  );
  return h(
    "details",
    { class: "failure", open: isOpen },
    h(
      "summary",
      {},
      h("span", {}, h("span", { class: "failure-name" }, name), text && ` ${text}`),
      h(
        "span",
        { class: "failure-where" },
        [where && `in ${where}`, entry.times > 1 && `${entry.times} times`, time(entry.lastTimestamp)]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
    facts(
      where && ["Operator", entry.taskName ?? "", entry.uid && h("span", { class: "help" }, ` uid ${entry.uid}`)],
      entry.subtask !== null && ["Subtask", String(entry.subtask + 1)],
      entry.epoch !== null && ["Epoch", String(entry.epoch)],
      [
        "When",
        entry.times > 1 ? `first ${time(entry.timestamp)}, last ${time(entry.lastTimestamp)}` : time(entry.timestamp),
      ],
      entry.times > 1 && ["Times", `${entry.times} in a row, at the same record`],
      entry.followedBy && ["Then", entry.followedBy],
      entry.record !== null && ["Record", h("code", { class: "wrap" }, entry.record)],
      entry.record === null && where && !context.mayOperate && ["Record", "only shown with the token of rest.operate-token"],
    ),
    entry.times > 1 &&
      notice(
        "warning",
        "It was the same record each time. If the job cannot process it, fix the function or its input.",
      ),
    h(
      "div",
      { class: "trace-box" },
      h(
        "div",
        { class: "toolbar" },
        h("h3", {}, "Traceback"),
        copyButton(entry.stacktrace, "the traceback", context.announce),
      ),
      trace,
    ),
  );
}

/**
 * Splits "ValueError: no number" into its two parts.
 *
 * @param {string} exception
 */
function split(exception) {
  const at = exception.indexOf(":");
  return at < 0 ? [exception, ""] : [exception.slice(0, at), exception.slice(at + 1).trim()];
}
