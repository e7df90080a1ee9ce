// @ts-check
// The list of jobs of this driver, running jobs first, then ended ones.

import { messageOf, statusOf } from "../core/api.js";
import { childList, h, replace, setAttribute, setText } from "../core/dom.js";
import { count, rate, time, uptime } from "../core/format.js";
import { addressOf } from "../core/router.js";
import { badge } from "../widgets/badge.js";

/** @import { JobOverview, JobsOverview } from "../core/answers.js" */
/** @import { PageContext } from "../core/context.js" */

/** Milliseconds between two requests. */
const PAUSE = 3000;

/**
 * Shows the list below `root` and keeps it live until `unmount` is called.
 *
 * @param {HTMLElement} root
 * @param {PageContext} context
 */
export function mount(root, { api, announce, isHistory }) {
  const life = new AbortController();
  /** @type {Map<string, string>} */
  const states = new Map();
  /** @type {number | undefined} */
  let timer;
  let looking = false;
  let isLoaded = false;

  const summary = h("p", { class: "summary" }, "Loading");
  const body = h("tbody");
  const rows = childList(
    body,
    /** @param {JobOverview} job */ (job) => job.jid,
    rowOf,
    (row, job) => row.update(job),
  );
  const table = h(
    "table",
    { class: "jobs stacking" },
    h("caption", { class: "visually-hidden" }, "Jobs of this driver"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Job", "State", "Epoch", "Records in", "Duration", "Started", "Restarts"].map((head, at) =>
          h("th", { scope: "col", class: [2, 3, 4, 6].includes(at) ? "number" : null }, head),
        ),
      ),
    ),
    body,
  );
  const box = h("div", { class: "panel panel-table", hidden: true }, table);
  const none = h(
    "p",
    { class: "nothing", hidden: true },
    isHistory ? "No job has written a record here yet." : "This driver has not started a job yet.",
  );
  replace(root, h("div", { class: "list-head" }, h("h1", { tabindex: "-1" }, "Jobs"), summary), box, none);
  document.title = "Jobs · Tidemill";

  /** @param {JobOverview[]} jobs */
  function draw(jobs) {
    const ordered = [...jobs].sort(
      (a, b) => Number(a["end-time"] > 0) - Number(b["end-time"] > 0) || b["start-time"] - a["start-time"],
    );
    const running = jobs.filter((job) => job["end-time"] <= 0).length;
    setText(summary, `${count(running)} running, ${count(jobs.length - running)} ended`);
    box.hidden = jobs.length === 0;
    none.hidden = jobs.length !== 0;
    rows.show(ordered);
    for (const job of jobs) {
      const before = states.get(job.jid);
      if (before && before !== job.state) announce(`${job.name} is ${job.state.toLowerCase()}.`);
      states.set(job.jid, job.state);
    }
  }

  async function look() {
    if (looking || document.hidden || life.signal.aborted) return;
    clearTimeout(timer);
    looking = true;
    try {
      /** @type {JobsOverview} */
      const answer = await api.get("/jobs/overview", { signal: life.signal });
      draw(answer.jobs);
      isLoaded = true;
    } catch (error) {
      if (life.signal.aborted || statusOf(error) === 401) return;
      if (!isLoaded) setText(summary, messageOf(error));
    } finally {
      looking = false;
    }
    if (!life.signal.aborted) timer = setTimeout(look, PAUSE);
  }

  document.addEventListener("visibilitychange", look);
  look();

  return {
    unmount() {
      document.removeEventListener("visibilitychange", look);
      clearTimeout(timer);
      life.abort();
    },
  };
}

/**
 * The row of a job: {element, update(job)}.
 *
 * @param {JobOverview} job
 */
function rowOf(job) {
  const state = badge(job.state);
  const cells = {
    name: h("a"),
    epoch: h("td", { class: "number", "data-label": "Epoch" }),
    rate: h("td", { class: "number", "data-label": "Records in" }),
    running: h("td", { class: "number", "data-label": "Duration" }),
    started: h("td", { "data-label": "Started" }),
    restarts: h("td", { class: "number", "data-label": "Restarts" }),
  };
  const element = h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      cells.name,
      h("code", { class: "job-id" }, job.jid),
      "url" in job && h("span", { class: "tag" }, "another driver"),
    ),
    h("td", { "data-label": "State" }, state.element),
    cells.epoch,
    cells.rate,
    cells.running,
    cells.started,
    cells.restarts,
  );
  return {
    element,
    /** @param {JobOverview} next */
    update(next) {
      setText(cells.name, next.name);
      setAttribute(cells.name, "href", pageOf(next));
      state.update(next.state);
      setText(cells.epoch, count(next.epoch));
      setText(cells.rate, next["end-time"] > 0 ? "–" : rate(next["records-per-second"]));
      setText(cells.running, uptime(next.duration));
      setText(cells.started, time(next["start-time"]));
      setText(cells.restarts, count(next.restarts));
    },
  };
}

/**
 * The address of a job's page. The page of another driver's job is at that driver, and null once the driver has ended.
 *
 * @param {JobOverview} job
 */
function pageOf(job) {
  if ("url" in job) return /^https?:/.test(job.url ?? "") ? job.url : null;
  return addressOf(job.jid);
}
