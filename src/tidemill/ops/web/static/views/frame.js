// @ts-check
// The frame of a job: its name and figures, its views and actions, and the stream of events that keeps it up to date.

import { actionBar } from "../actions/bar.js";
import { messageOf, statusOf } from "../core/api.js";
import { h, replace, setAttribute, setText } from "../core/dom.js";
import { count, time, uptime } from "../core/format.js";
import { VIEWS, addressOf } from "../core/router.js";
import { vertexAnswers } from "../graph/vertex_panel.js";
import { badge, isOver } from "../widgets/badge.js";
import * as checkpoints from "./checkpoints.js";
import * as config from "./config.js";
import * as epochs from "./epochs.js";
import * as exceptions from "./exceptions.js";
import * as graph from "./graph.js";
import * as logs from "./logs.js";
import * as metrics from "./metrics.js";
import * as state from "./state.js";

/** @import { JobDetails, JobEvent } from "../core/answers.js" */
/** @import { StreamState } from "../core/api.js" */
/** @import { JobContext, MountedView, PageContext, View } from "../core/context.js" */
/** @import { JobRoute, ViewName } from "../core/router.js" */

/** @type {Record<ViewName, View>} */
const MODULES = { graph, epochs, checkpoints, state, metrics, exceptions, config, logs };
/** Milliseconds between updates of the running time; each event updates it too. */
const TICK = 10_000;
/** @type {Record<StreamState | "connecting" | "paused", string>} */
const STREAM_WORDS = {
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  ended: "Ended",
  gone: "Unknown job",
  refused: "Refused",
  paused: "Paused",
};

/**
 * Scroll only the strip of tabs, of which a phone shows only a part, so that a tab is in the middle.
 *
 * @param {HTMLElement} strip
 * @param {HTMLElement} tab
 */
function scrollToTab(strip, tab) {
  strip.scrollLeft = tab.offsetLeft - strip.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
}

/**
 * Identifies the job that a view was created for: a restarted driver may run another program with the same id.
 *
 * @param {JobDetails} job
 */
function shapeOf(job) {
  return JSON.stringify([
    job["start-time"],
    job.plan.nodes.map((node) => [node.id, node.inputs.map((input) => input.id)]),
  ]);
}

/**
 * Where the data of a job of a history comes from.
 *
 * @param {JobDetails} job
 */
function originOf({ recorded, state }) {
  if (recorded === null) return "";
  const at = time(recorded);
  if (state === "SUSPENDED") {
    return (
      `From the history. The driver ended without a final record, for example because it was killed: this is what it ` +
      `recorded at ${at}. Started again with the same execution.job-id, the job resumes from its last committed epoch.`
    );
  }
  return isOver({ state })
    ? `From the history, as recorded at the end of the job, ${at}.`
    : `From the history, as recorded at ${at}. The job may have continued since.`;
}

/**
 * The context of the views of a job. `skew()` is how far the local clock is ahead of the driver's.
 *
 * @param {PageContext} page
 * @param {JobDetails} job
 * @param {string} jobId
 * @param {() => number} skew
 * @param {() => void} refresh
 * @returns {JobContext}
 */
function contextOf(page, job, jobId, skew, refresh) {
  /** @type {JobContext} */
  const context = {
    jobId,
    job,
    live: null,
    api: page.api,
    announce: page.announce,
    get mayOperate() {
      return page.mayOperate;
    },
    get isHistory() {
      return page.isHistory;
    },
    now: () => (context.job["end-time"] > 0 ? context.job["end-time"] : Date.now() - skew()),
    refresh,
  };
  return context;
}

/**
 * Shows a job below `root` until `unmount` is called; `show(view)` changes the view.
 *
 * @param {HTMLElement} root
 * @param {JobRoute} route
 * @param {PageContext} page
 */
export function jobFrame(root, { jobId, view }, page) {
  const path = `/jobs/${encodeURIComponent(jobId)}`;
  const life = new AbortController();
  /** @type {AbortController | null} */
  let streaming = null; // the controller of the open stream
  /** @type {StreamState | "connecting" | "paused"} */
  let streamState = "connecting";
  /** @type {MountedView | null} */
  let mounted = null; // the view that is shown
  /** @type {number | undefined} */
  let ticking;
  let fetching = false;
  let again = false;
  /** @type {JobContext | null} */
  let context = null; // until the job is known
  /** @type {ReturnType<typeof actionBar> | null} */
  let bar = null;
  let current = view;
  let skew = 0;
  let hasContact = true;

  const name = h("h1", { tabindex: "-1" }, jobId);
  const jobState = badge("");
  const stream = h("span", { class: "stream", "data-state": streamState }, STREAM_WORDS[streamState]);
  const epoch = h("dd");
  const runningTitle = h("dt", {}, "Running for");
  const running = h("dd");
  const started = h("dd");
  const restarts = h("dd");
  const bars = h("div", { class: "job-actions" });
  const tabs = VIEWS.map((one) => ({ view: one, link: h("a", { href: addressOf(jobId, one) }, MODULES[one].title) }));
  const strip = h(
    "nav",
    { "aria-label": "Views of the job", class: "tabs" },
    tabs.map(({ link }) => link),
  );
  const body = h("div", { class: "view" });
  const origin = h("p", { class: "notice notice-info", hidden: true });
  const problem = h("div", { class: "notice notice-error", role: "alert", hidden: true });

  replace(
    root,
    h(
      "div",
      { class: "job-head" },
      h(
        "nav",
        { "aria-label": "Path", class: "crumbs" },
        h("a", { href: "#/" }, "Jobs"),
        h("span", { "aria-hidden": "true" }, "/"),
        h("code", {}, jobId),
      ),
      h("div", { class: "job-line" }, name, jobState.element, stream, bars),
      h(
        "dl",
        { class: "job-facts" },
        h("div", {}, h("dt", {}, "Epoch"), epoch),
        h("div", {}, runningTitle, running),
        h("div", {}, h("dt", {}, "Started"), started),
        h("div", {}, h("dt", {}, "Restarts"), restarts),
      ),
      problem,
      origin,
      strip,
    ),
    body,
  );

  function drawJob() {
    if (!context) return;
    const { job } = context;
    setText(name, job.name);
    jobState.update(job.state, !hasContact && !isOver(job));
    setText(origin, originOf(job));
    origin.hidden = job.recorded === null;
    setText(epoch, count(job.epoch));
    setText(started, time(job["start-time"]));
    setText(restarts, count(job.restarts));
    setAttribute(restarts, "class", job.restarts ? "some" : null);
    setText(runningTitle, isOver(job) ? "Ran for" : "Running for");
    tick();
    document.title = `${job.name} · ${MODULES[current].title} · Tidemill`;
    bar?.update(job);
  }

  function tick() {
    if (context) setText(running, uptime(context.now() - context.job["start-time"]));
  }

  async function refresh() {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    again = false;
    try {
      /** @type {JobDetails} */
      const job = await page.api.get(path, { signal: life.signal });
      skew = Date.now() - job.now;
      problem.hidden = true;
      const before = context?.job;
      if (context) context.job = job;
      else {
        context = contextOf(page, job, jobId, () => skew, refresh);
        bar = actionBar(context);
        replace(bars, bar.element);
      }
      if (!before || shapeOf(before) !== shapeOf(job)) show(current);
      start();
      drawJob();
    } catch (error) {
      const status = statusOf(error);
      if (life.signal.aborted || status === 401) return;
      if (context === null || status === 404) {
        problem.hidden = false;
        setText(
          problem,
          status === 404
            ? `This driver does not know the job ${jobId}: it was not started here, or is no longer remembered.`
            : messageOf(error),
        );
      }
      if (status === 0 && context === null) setTimeout(refresh, 3000);
    } finally {
      fetching = false;
      if (again && !life.signal.aborted) refresh();
    }
  }

  /** @param {JobEvent} message */
  function take(message) {
    if (!context) return;
    const before = context.job;
    const isNewState = before.state !== message.state;
    const widths = new Map(before.vertices.map((vertex) => [vertex.id, vertex.parallelism]));
    const isRescaled = message.vertices.some((vertex) => widths.get(vertex.id) !== vertex.parallelism);
    context.live = message;
    context.job = {
      ...before,
      state: message.state,
      // The time of the end is requested below, but the driver may end before it responds.
      "end-time": isOver(message) && before["end-time"] <= 0 ? Date.now() - skew : before["end-time"],
      restarts: message.restarts,
      epoch: message.epoch?.epoch ?? before.epoch,
    };
    drawJob();
    if (isNewState) page.announce(`The job is ${message.state.toLowerCase()}.`);
    if (isNewState || isRescaled) refresh();
    mounted?.update?.(message);
  }

  /**
   * @param {StreamState | "paused"} next
   * @param {string} [why]
   */
  function showStream(next, why) {
    const before = streamState;
    setAttribute(stream, "title", why);
    if (before === next) return;
    streamState = next;
    setAttribute(stream, "data-state", next);
    setText(stream, STREAM_WORDS[next]);
    if (next === "ended") {
      stop();
      keep();
    }
    if (next === "gone" || (next === "live" && before !== "connecting")) refresh(); // the job may run in another driver now
  }

  function start() {
    if (streaming || document.hidden || life.signal.aborted || context === null) return;
    if (streamState === "ended" && isOver(context.job)) return;
    streaming = new AbortController();
    const { signal } = streaming;
    page.api.events(
      jobId,
      (message) => {
        if (!signal.aborted) take(message);
      },
      signal,
      (next, why) => {
        if (!signal.aborted) showStream(next, why);
      },
    );
    if (!isOver(context.job)) ticking = setInterval(tick, TICK);
  }

  function stop() {
    clearInterval(ticking);
    streaming?.abort();
    streaming = null;
  }

  /** Request all that the views need, because the driver of a job that has ended may end too. */
  function keep() {
    if (!context || !isOver(context.job) || context.job.recorded !== null) return;
    const views = Object.values(MODULES);
    const mayOperate = page.mayOperate;
    page.api.keepAnswers([
      path,
      ...views.flatMap((one) => one.answers?.(path) ?? []),
      ...views.flatMap((one) => (mayOperate ? (one.secrets?.(path) ?? []) : [])),
      ...context.job.vertices.flatMap((vertex) => vertexAnswers(`${path}/vertices/${vertex.id}`)),
    ]);
  }

  function look() {
    if (document.hidden) {
      stop();
      if (streamState !== "ended") showStream("paused");
    } else if (streamState !== "ended") {
      refresh();
      start();
    }
  }

  /** @param {ViewName} next */
  function show(next) {
    current = next;
    for (const tab of tabs) {
      setAttribute(tab.link, "aria-current", tab.view === next ? "page" : null);
      if (tab.view === next) scrollToTab(strip, tab.link);
    }
    if (context === null) return;
    mounted?.unmount?.();
    replace(body);
    mounted = MODULES[next].mount(body, context);
    drawJob();
  }

  document.addEventListener("visibilitychange", look);
  show(view);
  refresh();

  return {
    show,
    /** The permissions of the token are known now: views were created as if it were read-only. */
    granted: () => show(current),
    /** Whether the job is known to have ended. */
    isOver: () => context !== null && isOver(context.job),
    /** @param {boolean} answered - whether the driver responded to the last request */
    contact(answered) {
      if (answered === hasContact) return;
      hasContact = answered;
      drawJob();
    },
    unmount() {
      page.api.keepAnswers();
      document.removeEventListener("visibilitychange", look);
      stop();
      life.abort();
      mounted?.unmount?.();
    },
  };
}
