// The frame of a job: what it is, what it does, its views and actions, and the stream of events that keeps all of it live.

import { actionBar } from "./actions.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { count, time, uptime } from "./format.js";
import { VIEWS, addressOf } from "./router.js";
import { badge, isOver } from "./badge.js";
import * as checkpoints from "./views/checkpoints.js";
import * as config from "./views/config.js";
import * as epochs from "./views/epochs.js";
import * as exceptions from "./views/exceptions.js";
import * as graph from "./views/graph.js";
import * as logs from "./views/logs.js";
import * as state from "./views/state.js";

const MODULES = { graph, epochs, checkpoints, state, exceptions, config, logs };
/** Milliseconds after which the time is drawn even if nothing happens; each event draws it too. */
const TICK = 10_000;
const STREAM_WORDS = {
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  ended: "Over",
  gone: "Not known any more",
  refused: "Refused",
  paused: "Paused",
};

/** Scroll the strip of tabs, which a phone shows a part of, and nothing else, so that one is seen in the middle. */
function inSight(tab) {
  const strip = tab.parentElement;
  strip.scrollLeft = tab.offsetLeft - strip.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
}

/** What a view has been made for: a driver that was started again may have another program under the same id. */
function shapeOf(job) {
  return JSON.stringify([
    job["start-time"],
    job.plan.nodes.map((node) => [node.id, node.inputs.map((input) => input.id)]),
  ]);
}

/** Shows a job below `root` until `unmount` is called; `show(view)` changes the view. */
export function jobFrame(root, { jobId, view }, page) {
  const path = `/jobs/${encodeURIComponent(jobId)}`;
  const life = new AbortController();
  let streaming = null; // the controller of the open stream
  let mounted = null; // the view that is shown
  let ticking = null;
  let fetching = false;
  let again = false;
  let bar = null;
  let current = view;
  let skew = 0; // how far the clock here is ahead of the driver's

  const context = {
    jobId,
    job: null,
    live: null,
    api: page.api,
    announce: page.announce,
    get mayOperate() {
      return page.mayOperate;
    },
    /** The time of the driver, or when the job ended. */
    now: () => (context.job?.["end-time"] > 0 ? context.job["end-time"] : Date.now() - skew),
    /** Ask for the job anew: something was done to it. */
    refresh: () => refresh(),
  };

  const name = h("h1", { tabindex: "-1" }, jobId);
  const state_ = badge("");
  const stream = h("span", { class: "stream", "data-state": "connecting" }, STREAM_WORDS.connecting);
  const epoch = h("dd");
  const runningTitle = h("dt", {}, "Running for");
  const running = h("dd");
  const started = h("dd");
  const restarts = h("dd");
  const bars = h("div", { class: "job-actions" });
  const tabs = VIEWS.map((one) => h("a", { href: addressOf(jobId, one), "data-view": one }, MODULES[one].title));
  const body = h("div", { class: "view" });
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
      h("div", { class: "job-line" }, name, state_.element, stream, bars),
      h(
        "dl",
        { class: "job-facts" },
        h("div", {}, h("dt", {}, "Epoch"), epoch),
        h("div", {}, runningTitle, running),
        h("div", {}, h("dt", {}, "Started"), started),
        h("div", {}, h("dt", {}, "Restarts"), restarts),
      ),
      problem,
      h("nav", { "aria-label": "Views of the job", class: "tabs" }, tabs),
    ),
    body,
  );

  function drawJob() {
    const { job } = context;
    if (!job) return;
    setText(name, job.name);
    state_.update(job.state);
    setText(epoch, count(job.epoch));
    setText(started, time(job["start-time"]));
    setText(restarts, count(job.restarts));
    setAttribute(restarts, "class", job.restarts ? "some" : null);
    setText(runningTitle, isOver(job) ? "Ran for" : "Running for");
    tick();
    document.title = `${job.name} · ${MODULES[current].title} · Tidemill`;
    bar?.update?.(job);
  }

  function tick() {
    const { job } = context;
    if (!job) return;
    setText(running, uptime(context.now() - job["start-time"]));
  }

  async function refresh() {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    again = false;
    try {
      const job = await page.api.get(path, { signal: life.signal });
      skew = Date.now() - job.now;
      const before = context.job;
      context.job = job;
      problem.hidden = true;
      if (before === null) {
        bar = actionBar(context);
        replace(bars, bar);
      }
      if (before === null || shapeOf(before) !== shapeOf(job)) show(current);
      start();
      drawJob();
    } catch (error) {
      if (life.signal.aborted || error.status === 401) return;
      if (context.job === null || error.status === 404) {
        problem.hidden = false;
        setText(
          problem,
          error.status === 404
            ? `This driver does not know the job ${jobId}: it was not started here, or is forgotten.`
            : error.message,
        );
      }
      if (error.status === 0 && context.job === null) setTimeout(refresh, 3000);
    } finally {
      fetching = false;
      if (again && !life.signal.aborted) refresh();
    }
  }

  function take(message) {
    const before = context.job;
    const said = before.state !== message.state;
    const width = (vertex) => before.vertices.find((one) => one.id === vertex.id)?.parallelism;
    const rescaled = message.vertices.some((vertex) => width(vertex) !== vertex.parallelism);
    context.live = message;
    context.job = {
      ...before,
      state: message.state,
      restarts: message.restarts,
      epoch: message.epoch?.epoch ?? before.epoch,
    };
    drawJob();
    if (said) page.announce(`The job is ${message.state.toLowerCase()}.`);
    if (said || rescaled) refresh();
    mounted?.update?.(message);
  }

  function showStream(what, why = null) {
    const before = stream.dataset.state;
    setAttribute(stream, "title", why);
    if (before === what) return;
    stream.dataset.state = what;
    setText(stream, STREAM_WORDS[what]);
    if (what === "ended") stop();
    if (what === "gone" || (what === "live" && before !== "connecting")) refresh(); // it may be another driver's job now
  }

  function start() {
    if (streaming || document.hidden || life.signal.aborted || context.job === null) return;
    if (stream.dataset.state === "ended" && isOver(context.job)) return;
    streaming = new AbortController();
    const { signal } = streaming;
    page.api.events(
      jobId,
      (message) => signal.aborted || take(message),
      signal,
      (what, why) => signal.aborted || showStream(what, why),
    );
    if (!isOver(context.job)) ticking = setInterval(tick, TICK);
  }

  function stop() {
    clearInterval(ticking);
    streaming?.abort();
    streaming = null;
  }

  function look() {
    if (document.hidden) {
      stop();
      if (stream.dataset.state !== "ended") showStream("paused");
    } else if (stream.dataset.state !== "ended") {
      refresh();
      start();
    }
  }

  function show(next) {
    current = next;
    for (const tab of tabs) setAttribute(tab, "aria-current", tab.dataset.view === next ? "page" : null);
    inSight(tabs[VIEWS.indexOf(next)]);
    if (context.job === null) return;
    mounted?.unmount?.();
    replace(body);
    mounted = MODULES[next].mount(body, context) ?? {};
    drawJob();
  }

  document.addEventListener("visibilitychange", look);
  show(view);
  refresh();

  return {
    show,
    /** What we may do has become known: views were made as if we might only look. */
    granted: () => show(current),
    unmount() {
      document.removeEventListener("visibilitychange", look);
      stop();
      life.abort();
      mounted?.unmount?.();
    },
  };
}
