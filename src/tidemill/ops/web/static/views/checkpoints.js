// @ts-check
// The checkpoints and savepoints of a job: their number, sizes, durations and locations.

import { isAborted } from "../core/api.js";
import { childList, h, replace, setAttribute, setText } from "../core/dom.js";
import { NOTHING, bytes, count, duration, plural, time, timeOfDay } from "../core/format.js";
import { loader } from "../core/loader.js";
import { chart } from "../widgets/chart.js";
import { copyable, facts, figure, nothing, problem, section, tableSection } from "../widgets/parts.js";
import { checkpointDetails } from "./checkpoint_details.js";

/** @import { Checkpoint, CheckpointConfigInfo, Checkpoints, LatestCheckpoints } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */
/** @import { Child } from "../core/dom.js" */
/** @import { ChartPoint } from "../widgets/chart.js" */

/** @typedef {(text: string) => void} Announce */

export const title = "Checkpoints";

/** The minimum time between two requests, in milliseconds. */
const PAUSE = 4000;
/** Maximum number of checkpoints in the charts; the driver remembers fewer. */
const KEPT = 300;
/** Maximum number of rows in the table, unless the user requests all. */
const IN_TABLE = 10;
const COLUMNS = ["Epoch", "Kind", "Status", "Begun", "Duration", "Written", "All state", "Where"];
const NUMBERS = ["Epoch", "Duration", "Written", "All state"];

/** @type {{ name: string, of: (answer: Checkpoints) => string }[]} */
const FIGURES = [
  { name: "Completed", of: ({ counts }) => count(counts.completed) },
  { name: "Failed", of: ({ counts }) => count(counts.failed) },
  { name: "Last", of: ({ latest }) => (latest.completed ? timeOfDay(ended(latest.completed)) : NOTHING) },
  { name: "All state", of: ({ latest }) => (latest.completed ? bytes(latest.completed.state_size) : NOTHING) },
  { name: "Median written", of: ({ summary }) => bytes(summary.checkpointed_size.p50) },
  { name: "Median duration", of: ({ summary }) => duration(summary.end_to_end_duration.p50) },
  { name: "95 % within", of: ({ summary }) => duration(summary.end_to_end_duration.p95) },
];

/**
 * The checkpoints of a job that were received while the job is shown, in any view.
 *
 * @type {WeakMap<JobContext, Map<string, Checkpoint>>}
 */
const seenOf = new WeakMap();

/** @param {string} path */
export const answers = (path) => [`${path}/checkpoints`, `${path}/checkpoints/config`];

/**
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  /** @type {Map<string, Checkpoint>} */
  const seen = seenOf.get(context) ?? new Map();
  seenOf.set(context, seen);
  const trouble = h("div");
  const figures = FIGURES.map(({ name, of }) => ({ of, ...figure(name) }));
  const latest = h("div");
  const settings = h("div");
  const note = h("p", { class: "help" });
  const sizes = chart({
    title: "Size",
    series: [
      { key: "written", label: "Written by each", kind: "bar", tone: 5 },
      { key: "whole", label: "Total state size", kind: "line", tone: 8 },
    ],
    format: bytes,
    height: 160,
    nothing: "There is no checkpoint yet.",
  });
  const durations = chart({
    title: "Duration",
    series: [{ key: "duration", label: "End to end", kind: "bar", tone: 3 }],
    format: duration,
    height: 160,
    cut: true,
    nothing: "There is no checkpoint yet.",
  });
  const body = h("tbody");
  const rows = childList(
    body,
    /** @param {Checkpoint} one */ (one) => `${keyOf(one)} ${one.discarded}`,
    (one) => rowOf(one, context.announce, (button) => open(one, button)),
  );
  /** @type {HTMLElement | null} */
  let opener = null;
  const details = checkpointDetails(context, () => opener?.focus());
  const none = nothing("There is no checkpoint yet.");
  const more = h("button", { type: "button", class: "button", "aria-expanded": "false" });
  more.hidden = true;
  /** @type {Checkpoint[]} */
  let known = [];
  let isWhole = false;
  const history = h(
    "div",
    { class: "table-box", role: "group", "aria-label": "Last checkpoints", tabindex: "0" },
    h(
      "table",
      { class: "cards cards-pairs" },
      h("caption", { class: "visually-hidden" }, "The last checkpoints and savepoints, newest first"),
      h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col", class: styleOf(name) }, name)))),
      body,
    ),
  );
  replace(
    root,
    h("h2", { class: "visually-hidden" }, title),
    trouble,
    h(
      "section",
      { class: "panel", "aria-label": "Overview of checkpoints" },
      h("dl", { class: "figures" }, ...figures.map((one) => one.element)),
    ),
    h(
      "section",
      { class: "panel", "aria-label": "Sizes and durations" },
      h("div", { class: "chart-pair" }, sizes.element, durations.element),
      note,
    ),
    section("Latest", latest),
    tableSection("Last checkpoints", history, none, h("div", { class: "toolbar" }, more)),
    details.element,
    section("Settings", settings),
  );

  const loading = loader(async (signal) => {
    try {
      /** @type {Checkpoints} */
      const answer = await context.api.get(`/jobs/${context.jobId}/checkpoints`, { signal });
      replace(trouble);
      draw(answer);
    } catch (error) {
      if (!isAborted(error))
        replace(
          trouble,
          problem(error, () => loading.now()),
        );
    }
  }, PAUSE);

  const loadingSettings = loader(async (signal) => {
    try {
      /** @type {CheckpointConfigInfo} */
      const answer = await context.api.get(`/jobs/${context.jobId}/checkpoints/config`, { signal });
      replace(settings, settingsOf(answer));
    } catch (error) {
      if (!isAborted(error))
        replace(
          settings,
          problem(error, () => loadingSettings.now()),
        );
    }
  }, 0);

  /** @param {Checkpoints} answer */
  function draw(answer) {
    for (const { value, of } of figures) setText(value, of(answer));
    drawLatest(answer.latest);
    for (const one of answer.history.toReversed()) seen.set(keyOf(one), one);
    for (const key of [...seen.keys()].slice(0, -KEPT)) seen.delete(key);
    const points = [...seen.values()]
      .filter((one) => one.status === "COMPLETED")
      .sort((a, b) => a.trigger_timestamp - b.trigger_timestamp)
      .map(pointOf);
    sizes.update(points);
    durations.update(points);
    note.textContent = points.length
      ? `${plural(points.length, "checkpoint")}: those that the driver remembers (web.checkpoints.history), and those received since this page was opened.`
      : "";
    known = answer.history;
    drawTable();
  }

  /**
   * @param {Checkpoint} one
   * @param {HTMLElement} button
   */
  function open(one, button) {
    opener = button;
    details.open(one.id);
  }

  function drawTable() {
    none.hidden = known.length > 0;
    history.hidden = known.length === 0;
    more.hidden = known.length <= IN_TABLE;
    setText(more, isWhole ? `Show the last ${IN_TABLE} only` : `Show all ${known.length}`);
    setAttribute(more, "aria-expanded", String(isWhole));
    rows.show(isWhole ? known : known.slice(0, IN_TABLE));
  }

  more.addEventListener("click", () => {
    isWhole = !isWhole;
    drawTable();
  });

  let drawnLatest = "";
  /** @param {LatestCheckpoints} last */
  function drawLatest(last) {
    const now = JSON.stringify(last);
    if (now === drawnLatest) return; // so that selection and focus are kept
    drawnLatest = now;
    replace(latest, latestOf(last, context.announce));
  }

  loading.now();
  loadingSettings.now();
  return {
    update: () => loading.ask(),
    unmount() {
      loading.stop();
      loadingSettings.stop();
      details.close();
    },
  };
}

/**
 * @param {LatestCheckpoints} latest
 * @param {Announce} announce
 */
function latestOf({ completed, savepoint, restored, failed }, announce) {
  /** @param {Checkpoint} one */
  const when = (one) => `Epoch ${count(one.id)}, ${time(ended(one))}`;
  return facts(
    ["Checkpoint", ...(completed ? [when(completed), line(`${bytes(completed.state_size)} of state`)] : ["none yet"])],
    ["Savepoint", ...(savepoint ? [when(savepoint), line(whereOf(savepoint, announce))] : ["none"])],
    [
      "Restored from",
      ...(restored
        ? [
            `${restored.is_savepoint ? "Savepoint" : "Checkpoint"} of epoch ${count(restored.id)}`,
            restored.external_path && line(whereOf(restored, announce)),
          ]
        : ["nothing: the job started without state"]),
    ],
    failed && [
      "Failed",
      `Epoch ${count(failed.id)}, ${time(failed.trigger_timestamp)}`,
      line(failed.failure_message ?? "for an unknown reason"),
    ],
  );
}

/** @param {...Child} children */
function line(...children) {
  return h("div", {}, ...children);
}

/** @param {CheckpointConfigInfo} config */
function settingsOf(config) {
  const { enabled, delete_on_cancellation: deleted } = config.externalization;
  return facts(
    ["Guarantee", config.mode.replaceAll("_", " ")],
    ["Interval", config.interval ? duration(config.interval) : "every epoch is a checkpoint"],
    ["Timeout", config.timeout ? duration(config.timeout) : "none"],
    ["Pause between", config.min_pause ? duration(config.min_pause) : "none"],
    ["Kept", plural(config.num_retained, "checkpoint")],
    ["When cancelled", !enabled ? "lost when the driver ends" : deleted ? "deleted" : "kept"],
    ["Tolerable failures", count(config.tolerable_failed_checkpoints)],
    ["State backend", config.state_backend],
    ["Storage", config.checkpoint_storage],
  );
}

/**
 * @param {Checkpoint} one
 * @param {Announce} announce
 * @param {(button: HTMLElement) => void} open - shows what each subtask contributed
 */
function rowOf(one, announce, open) {
  const button = h(
    "button",
    { type: "button", class: "link", "aria-label": `Epoch ${count(one.id)}: what each subtask wrote` },
    count(one.id),
  );
  button.addEventListener("click", () => open(button));
  const cells = [
    one.status === "COMPLETED" && !one.is_savepoint ? button : count(one.id),
    one.is_savepoint ? "Savepoint" : "Checkpoint",
    h(
      "span",
      { class: `status status-${one.status.toLowerCase()}` },
      one.status === "COMPLETED" ? "✓ completed" : "✕ failed",
    ),
    time(one.trigger_timestamp),
    duration(one.end_to_end_duration),
    one.status === "COMPLETED" ? bytes(one.checkpointed_size) : NOTHING,
    one.status === "COMPLETED" ? bytes(one.state_size) : NOTHING,
    whereOf(one, announce),
  ];
  const element = h(
    "tr",
    {},
    cells.map((cell, at) => {
      const attributes = { class: styleOf(COLUMNS[at]), "data-label": COLUMNS[at] };
      return at === 0 ? h("th", { scope: "row", ...attributes }, cell) : h("td", attributes, cell);
    }),
  );
  return { element };
}

/**
 * The location of a checkpoint, or why it has none.
 *
 * @param {Checkpoint} one
 * @param {Announce} announce
 */
function whereOf(one, announce) {
  if (one.status === "FAILED") return h("span", { class: "wrap" }, one.failure_message ?? "for an unknown reason");
  if (one.external_path) return copyable(one.external_path, `the path of the savepoint of epoch ${one.id}`, announce);
  return one.is_savepoint ? NOTHING : one.discarded ? "discarded" : "kept";
}

/**
 * @param {Checkpoint} one
 * @returns {ChartPoint}
 */
function pointOf(one) {
  return {
    label: `${one.is_savepoint ? "Savepoint" : "Checkpoint"} of epoch ${count(one.id)}`,
    tick: count(one.id),
    values: { written: one.checkpointed_size, whole: one.state_size, duration: one.end_to_end_duration },
  };
}

/** @param {Checkpoint} one */
function keyOf(one) {
  return `${one.id} ${one.checkpoint_type} ${one.status} ${one.trigger_timestamp}`;
}

/** @param {Checkpoint} one */
function ended(one) {
  return one.trigger_timestamp + one.end_to_end_duration;
}

/** @param {string} column */
function styleOf(column) {
  return NUMBERS.includes(column) ? "number" : column === "Where" ? "wrap" : column === "Begun" ? "moment" : null;
}
