// @ts-check
// The sections of the panel of a vertex: its operators, subtasks, hottest keys and metrics.

import { messageOf } from "../core/api.js";
import { childList, h, replace, setAttribute, setStyle, setText } from "../core/dom.js";
import { bytes, count, percent, watermark, watermarkTime, watermarkTitle } from "../core/format.js";

/** @import { AggregatedMetric, HotKeyInfo, HotKeysInfo, MetricInfo, Subtask, SubtaskPressure } from "../core/answers.js" */
/** @import { PlanOperator } from "../core/answers.js" */
/** @import { JobContext } from "../core/context.js" */
/** @import { Child } from "../core/dom.js" */
/** @import { PlanVertex } from "./vertices.js" */

/** @typedef {{ subtask: Subtask, pressure?: SubtaskPressure, mark?: number, now: number }} SubtaskRow */
/** @typedef {{ key: HotKeyInfo, most: number }} KeyRow */

/** Maximum numbers of subtasks and metrics that are shown; REST returns all. */
const MOST_SUBTASKS = 256;
const MOST_METRICS = 200;
/** Maximum total length of the comma-separated ids in one request. */
const LONGEST_IDS = 3500;

/**
 * The operators of a chain, with the lines of the program that create them.
 *
 * @param {PlanVertex} vertex
 */
export function operatorsSection({ operators }) {
  /** @param {PlanOperator} operator */
  const item = (operator) => {
    const tags = [operator.keyed ? "keyed" : "", operator.guarantee ?? ""].filter(Boolean);
    return h(
      "li",
      {},
      h("span", { class: "operator-name" }, operator.name),
      tags.map((tag) => h("span", { class: "tag" }, tag)),
      h("span", { class: "operator-uid" }, "uid ", h("code", {}, operator.uid)),
      operator.line && h("span", { class: "operator-uid" }, h("code", {}, operator.line)),
    );
  };
  return h(
    "section",
    {},
    h("h3", {}, operators.length === 1 ? "Operator" : "Operators of the chain"),
    h("ol", { class: "operators" }, operators.map(item)),
  );
}

/** {element, update(subtasks, pressures, marks, now)}, with the vertex, its backpressure and watermarks. */
export function subtasksSection() {
  const body = h("tbody");
  const title = h("h3", {}, "Subtasks");
  const rows = childList(
    body,
    /** @param {SubtaskRow} one */ ({ subtask }) => subtask.subtask,
    ({ subtask }) => row(String(subtask.subtask + 1), ["number", "number", "number", "number", null]),
    ({ cells }, { subtask, pressure, mark, now }) => {
      setText(cells[0], count(subtask.metrics["read-records"]));
      setText(cells[1], count(subtask.metrics["write-records"]));
      setText(cells[2], percent(pressure?.busyRatio));
      setText(cells[3], percent(pressure?.ratio));
      replace(cells[4], watermark(mark, now), h("div", { class: "help" }, watermarkTime(mark)));
      setAttribute(cells[4], "title", watermarkTitle(mark));
    },
  );
  return {
    element: h(
      "section",
      {},
      title,
      grid("Subtasks", ["#", "In", "Out", "Busy", "Back pressure", "Watermark"], [1, 2, 3, 4], body),
    ),
    /**
     * @param {Subtask[]} subtasks
     * @param {SubtaskPressure[]} pressures
     * @param {MetricInfo[]} marks
     * @param {number} now
     */
    update(subtasks, pressures, marks, now) {
      const markOf = new Map(marks.map((one) => [Number.parseInt(one.id, 10), Number(one.value)]));
      const shown = subtasks.slice(0, MOST_SUBTASKS);
      setText(title, subtasks.length > shown.length ? `Subtasks (${shown.length} of ${subtasks.length})` : "Subtasks");
      rows.show(
        shown.map((subtask) => ({
          subtask,
          pressure: pressures[subtask.subtask],
          mark: markOf.get(subtask.subtask),
          now,
        })),
      );
    },
  };
}

/** {element, update(answer)}: hidden while there are no keys. */
export function keysSection() {
  const body = h("tbody");
  const note = h("p", { class: "help" });
  const element = h(
    "section",
    { hidden: true },
    h("h3", {}, "Hottest keys"),
    grid("Hottest keys", ["Key", "Share", "Records"], [1, 2], body),
    note,
  );
  const rows = childList(
    body,
    /** @param {KeyRow} one */ ({ key }) => key.text,
    ({ key }) => {
      const fill = h("i");
      const cells = [cell("number"), cell("number")];
      const bar = h("span", { class: "meter-bar", "aria-hidden": "true" }, fill);
      const head = h("th", { scope: "row", class: "key-cell" }, h("code", {}, key.text), bar);
      return { fill, cells, element: h("tr", {}, head, cells) };
    },
    ({ fill, cells }, { key, most }) => {
      setText(cells[0], percent(key.share));
      setText(cells[1], count(key.records));
      setStyle(fill, "transform", `scaleX(${(key.share / most).toFixed(2)})`);
    },
  );
  return {
    element,
    /** @param {HotKeysInfo} answer */
    update({ keys, sampled }) {
      element.hidden = keys.length === 0;
      const most = Math.max(...keys.map((one) => one.share), 0.0001);
      rows.show(keys.map((key) => ({ key, most })));
      setText(note, `Estimated from a sample of ${count(sampled)} records.`);
    },
  };
}

/**
 * {element, update()}: requests metrics only while it is open. `path` is that of the vertex.
 *
 * @param {JobContext["api"]} api
 * @param {string} path
 * @param {AbortSignal} signal
 */
export function metricsSection(api, path, signal) {
  const body = h("tbody");
  const note = h("p", { class: "help", role: "status" });
  const filter = h("input", {
    type: "search",
    "aria-label": "Part of a metric's name",
    placeholder: "Part of a name",
    autocomplete: "off",
  });
  const element = h(
    "details",
    {},
    h("summary", {}, h("h3", {}, "Metrics")),
    filter,
    note,
    grid("Metrics over all subtasks", ["Metric", "Sum", "Highest"], [1, 2], body),
  );
  const rows = childList(
    body,
    /** @param {AggregatedMetric} one */ (one) => one.id,
    (one) => row(h("code", {}, one.id), ["number", "number"]),
    ({ cells }, one) => {
      setText(cells[0], one.id.endsWith("Watermark") ? "–" : metricText(one.id, one.sum));
      setText(cells[1], metricText(one.id, one.max));
    },
  );

  async function update() {
    if (!element.open) return;
    try {
      const wanted = filter.value.trim().toLowerCase();
      /** @type {MetricInfo[]} */
      const answer = await api.get(`${path}/subtasks/metrics`, { signal });
      const all = answer.map((one) => one.id);
      const found = all.filter((id) => id.toLowerCase().includes(wanted));
      /** @type {AggregatedMetric[][]} */
      const answers = await Promise.all(
        joined(found.slice(0, MOST_METRICS)).map((ids) =>
          api.get(`${path}/subtasks/metrics?get=${encodeURIComponent(ids)}&agg=sum,max`, { signal }),
        ),
      );
      setText(
        note,
        found.length > MOST_METRICS
          ? `${MOST_METRICS} of ${found.length} are shown: enter part of a name.`
          : `${found.length} of ${all.length} metrics.`,
      );
      rows.show(answers.flat());
    } catch (error) {
      if (!signal.aborted) setText(note, messageOf(error));
    }
  }

  /** @type {number | undefined} */
  let typed;
  filter.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(update, 300);
  });
  element.addEventListener("toggle", update);
  return { element, update };
}

/**
 * @param {string} caption
 * @param {string[]} heads
 * @param {number[]} numbers - the columns that contain numbers
 * @param {HTMLElement} body
 */
function grid(caption, heads, numbers, body) {
  const head = (/** @type {string} */ text, /** @type {number} */ at) => h("th", { scope: "col", class: numbers.includes(at) ? "number" : null }, text);
  return h(
    "div",
    { class: "table-box", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", { class: "dense" }, h("thead", {}, h("tr", {}, heads.map(head))), body),
  );
}

/**
 * A row with a header cell, and cells of these classes: {element, cells}.
 *
 * @param {Child} head
 * @param {(string | null)[]} classes
 */
function row(head, classes) {
  const cells = classes.map(cell);
  return { cells, element: h("tr", {}, h("th", { scope: "row" }, head), cells) };
}

/** @param {string | null} kind */
function cell(kind) {
  return h("td", { class: kind });
}

/**
 * @param {string} id
 * @param {number | undefined} value
 */
function metricText(id, value) {
  if (value === undefined) return "–";
  if (id.endsWith("Watermark")) return watermark(value);
  if (/Bytes/.test(id) && !id.endsWith("PerSecond")) return bytes(value);
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
}

/**
 * Joins ids with commas, as many as fit in one request.
 *
 * @param {string[]} ids
 */
function joined(ids) {
  /** @type {string[]} */
  const found = [];
  for (const id of ids) {
    const last = found.at(-1);
    if (last !== undefined && last.length + id.length < LONGEST_IDS) found[found.length - 1] = `${last},${id}`;
    else found.push(id);
  }
  return found;
}
