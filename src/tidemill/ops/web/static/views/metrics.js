// @ts-check
// Charts of the metrics that the user picks. They are part of the address, so that it can be kept and shared.

import { isAborted, messageOf } from "../core/api.js";
import { h, replace, setText } from "../core/dom.js";
import { bytes, chainName, short, time, timeOfDay } from "../core/format.js";
import { loader } from "../core/loader.js";
import { chartsOf, withCharts } from "../core/router.js";
import { isOver } from "../widgets/badge.js";
import { chart } from "../widgets/chart.js";
import { nothing } from "../widgets/parts.js";

/** @import { AggregatedMetric, MetricInfo } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */
/** @import { PickedChart } from "../core/router.js" */
/** @import { ChartPoint } from "../widgets/chart.js" */

/** @typedef {{ picked: PickedChart, element: HTMLElement, add: (value: number | undefined) => void }} ShownChart */

export const title = "Metrics";

/** The minimum time between two requests in milliseconds, and the number of values that a chart keeps. */
const PAUSE = 4000;
const KEPT = 450;
const MOST_CHARTS = 12;
/** The metrics of the job itself are picked like those of a vertex with this id. They have no subtasks. */
const JOB = "job";
/** @type {Record<PickedChart["of"], string>} */
const KINDS = { sum: "sum of all subtasks", max: "highest of all subtasks", min: "lowest of all subtasks", avg: "average" };

/**
 * The values of a chart, which remain while the job is shown, in any view.
 *
 * @type {WeakMap<JobContext, Map<string, ChartPoint[]>>}
 */
const valuesOf = new WeakMap();

/**
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  const kept = valuesOf.get(context) ?? new Map();
  valuesOf.set(context, kept);
  const names = new Map([[JOB, "The job"]]);
  for (const vertex of context.job.vertices) names.set(vertex.id, chainName(vertex.name));
  const life = new AbortController();
  const vertex = h("select", { id: "metric-vertex" }, [...names].map(([id, name]) => h("option", { value: id }, name)));
  const metric = h("select", { id: "metric-name" });
  const of = h(
    "select",
    { id: "metric-of" },
    Object.entries(KINDS).map(([kind, text]) => h("option", { value: kind }, text)),
  );
  const add = h("button", { type: "button", class: "button" }, "Add chart");
  const note = h("p", { class: "help" });
  const list = h("div", { class: "metric-charts" });
  /** @type {ShownChart[]} */
  let shown = [];

  replace(
    root,
    h("h2", { class: "visually-hidden" }, title),
    h(
      "div",
      { class: "toolbar" },
      h("label", { for: vertex.id }, "Of"),
      vertex,
      h("label", { for: metric.id }, "Metric"),
      metric,
      h("label", { for: of.id }, "Value"),
      of,
      add,
    ),
    note,
    list,
  );

  /** The metrics of the selected vertex. */
  async function offer() {
    const selected = vertex.value;
    of.disabled = selected === JOB;
    try {
      /** @type {MetricInfo[]} */
      const found = await context.api.get(pathOf(context, selected), { signal: life.signal });
      if (selected !== vertex.value) return;
      replace(metric, ...found.map(({ id }) => h("option", { value: id }, id)));
      add.disabled = found.length === 0;
    } catch (error) {
      if (!isAborted(error)) setText(note, messageOf(error));
    }
  }

  vertex.addEventListener("change", offer);
  add.addEventListener("click", () => {
    const picked = { vertex: vertex.value, of: /** @type {PickedChart["of"]} */ (of.value), metric: metric.value };
    if (metric.value && !shown.some((one) => keyOf(one.picked) === keyOf(picked))) pick([...pickedNow(), picked]);
  });

  const pickedNow = () => shown.map((one) => one.picked);

  /** @param {PickedChart[]} charts */
  function pick(charts) {
    history.replaceState(null, "", withCharts(context.jobId, charts));
    draw(charts);
    loading.now();
  }

  /** @param {PickedChart[]} charts */
  function draw(charts) {
    shown = charts.slice(0, MOST_CHARTS).map((picked) => {
      const name = names.get(picked.vertex) ?? "an unknown vertex";
      const remove = () => pick(pickedNow().filter((one) => keyOf(one) !== keyOf(picked)));
      return chartOf(picked, name, kept, remove);
    });
    replace(list, ...(shown.length ? shown.map((one) => one.element) : [nothing("Add charts of the metrics to watch.")]));
    const more = charts.length > MOST_CHARTS ? ` Only ${MOST_CHARTS} charts are shown.` : "";
    setText(
      note,
      isOver(context.job)
        ? `The job has ended: these are the last values.${more}`
        : `Values since the charts were added. The address of this page contains the charts.${more}`,
    );
  }

  const loading = loader(async (signal) => {
    const vertices = [...new Set(shown.map((one) => one.picked.vertex))];
    await Promise.all(
      vertices.map(async (id) => {
        const mine = shown.filter((one) => one.picked.vertex === id);
        const ids = [...new Set(mine.map((one) => one.picked.metric))].join(",");
        try {
          const answer = await context.api.get(`${pathOf(context, id)}?get=${encodeURIComponent(ids)}`, { signal });
          for (const one of mine) one.add(valueOf(answer, one.picked));
        } catch (error) {
          if (!isAborted(error)) setText(note, messageOf(error));
        }
      }),
    );
  }, PAUSE);

  offer();
  draw(chartsOf());
  loading.now();
  return {
    update: () => loading.ask(),
    unmount() {
      life.abort();
      loading.stop();
    },
  };
}

/**
 * @param {PickedChart} picked
 * @param {string} name
 * @param {Map<string, ChartPoint[]>} kept
 * @param {() => void} remove
 * @returns {ShownChart}
 */
function chartOf(picked, name, kept, remove) {
  const points = kept.get(keyOf(picked)) ?? [];
  kept.set(keyOf(picked), points);
  const label = picked.vertex === JOB ? picked.metric : `${picked.metric}, ${KINDS[picked.of]}`;
  const drawing = chart({
    title: name,
    series: [{ key: "value", label, kind: "line", tone: 8 }],
    format: formatOf(picked.metric),
    height: 150,
    nothing: "There is no value yet.",
  });
  drawing.update(points);
  const away = h(
    "button",
    { type: "button", class: "button button-small", "aria-label": `Remove the chart of ${picked.metric} of ${name}` },
    "Remove",
  );
  away.addEventListener("click", remove);
  return {
    picked,
    element: h("section", { class: "panel", "aria-label": `${name}: ${label}` }, drawing.element, away),
    add(value) {
      if (value === undefined || !Number.isFinite(value)) return;
      const now = timeOfDay(Date.now());
      points.push({ label: now, tick: now, values: { value } });
      points.splice(0, Math.max(0, points.length - KEPT));
      drawing.update(points);
    },
  };
}

/**
 * @param {(AggregatedMetric | MetricInfo)[]} answer
 * @param {PickedChart} picked
 */
function valueOf(answer, { metric, of }) {
  const found = answer.find((one) => one.id === metric);
  if (!found) return undefined;
  return "value" in found ? Number(found.value) : /** @type {AggregatedMetric} */ (found)[of];
}

/** @param {string} metric */
function formatOf(metric) {
  if (metric.endsWith("Watermark") || metric.endsWith("Timestamp")) return time;
  return /Bytes|Size/.test(metric) && !metric.endsWith("PerSecond") ? bytes : short;
}

/**
 * @param {JobContext} context
 * @param {string} vertex
 */
function pathOf({ jobId }, vertex) {
  const job = `/jobs/${encodeURIComponent(jobId)}`;
  return vertex === JOB ? `${job}/metrics` : `${job}/vertices/${encodeURIComponent(vertex)}/subtasks/metrics`;
}

/** @param {PickedChart} picked */
function keyOf({ vertex, of, metric }) {
  return `${vertex} ${of} ${metric}`;
}
