// What a job failed with, newest first: the user's traceback, and where it was.

import { h, replace } from "../dom.js";
import { plural, time } from "../format.js";
import { copyButton, facts, isAborted, loader, notice, nothing, problem } from "../parts.js";

export const title = "Exceptions";

/** So many are asked for at first, and at most. */
const [FIRST, MOST] = [20, 200];
/** The least time between two looks, in milliseconds. */
const PAUSE = 3000;

export function mount(root, context) {
  const list = h("ol", { class: "failures" });
  const status = h("div");
  const more = h("div");
  replace(root, h("h2", { class: "visually-hidden" }, title), status, list, more);
  let asked = FIRST;
  let seen = null;

  const loading = loader(async (signal) => {
    try {
      const answer = await context.api.get(`/jobs/${context.jobId}/exceptions?maxExceptions=${asked}`, { signal });
      const { entries, truncated } = answer.exceptionHistory;
      replace(status, entries.length ? summary(entries, answer["root-exception"] !== null) : none());
      draw(list, entries, context);
      replace(more, truncated && asked < MOST ? moreButton() : null);
    } catch (error) {
      if (!isAborted(error))
        replace(
          status,
          problem(error, () => loading.now()),
        );
    }
  }, PAUSE);

  function moreButton() {
    const act = () => {
      asked = MOST;
      loading.now();
    };
    return h("button", { type: "button", class: "button", onclick: act }, "Show older ones");
  }

  loading.now();
  return {
    /** A job that fails is started again, or is over: otherwise there is nothing new. */
    update(message) {
      const now = `${message.state} ${message.restarts}`;
      if (seen !== null && seen !== now) loading.ask();
      seen = now;
    },
    unmount: loading.stop,
  };
}

function none() {
  return nothing("Nothing has failed since this driver started the job.");
}

function summary(entries, isDown) {
  const times = entries.reduce((sum, entry) => sum + entry.times, 0);
  const told = `${plural(times, "failure")}, the last at ${time(entries[0].lastTimestamp)}.`;
  if (isDown) return notice("error", `${told} The job is not running because of the first one below.`);
  return h("p", { class: "help" }, told);
}

/** Draw the list, and keep the entries that have not changed: what is open stays open, what is selected selected. */
function draw(list, entries, context) {
  const kept = new Map([...list.children].map((item) => [item.dataset.key, item]));
  list.replaceChildren(
    ...entries.map((entry, at) => {
      const key = [entry.timestamp, entry.lastTimestamp, entry.times, entry.followedBy, entry.uid].join(" ");
      const item = kept.get(key) ?? h("li", { "data-key": key }, failure(entry, context));
      if (!kept.has(key) && at === 0) item.querySelector("details").open = true;
      return item;
    }),
  );
}

function failure(entry, context) {
  const [name, text] = split(entry.exceptionName);
  const where = entry.taskName ?? entry.uid;
  const trace = h(
    "pre",
    { class: "trace", tabindex: "0", role: "region", "aria-label": `Traceback of ${name}` },
    entry.stacktrace,
  );
  return h(
    "details",
    { class: "failure" },
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
      entry.times > 1 && ["Times", `${entry.times}, one after the other at the same record`],
      entry.followedBy && ["Then", entry.followedBy],
      entry.record !== null && ["Record", h("code", { class: "wrap" }, entry.record)],
      entry.record === null && where && !context.mayOperate && ["Record", "only shown with the token that may operate"],
    ),
    entry.times > 1 &&
      notice(
        "warning",
        "It was the same record each time. If the job does not get past it, mend the function, or its input.",
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

/** "ValueError: no number" in its two parts. */
function split(exception) {
  const at = exception.indexOf(":");
  return at < 0 ? [exception, ""] : [exception.slice(0, at), exception.slice(at + 1).trim()];
}
