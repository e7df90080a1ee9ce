// @ts-check
// The panel next to the graph, with the details of one vertex.

import { h, replace, setAttribute, setText } from "../core/dom.js";
import { chainName, percent, rate, watermark, watermarkTime, watermarkTitle } from "../core/format.js";
import { icon } from "../widgets/icons.js";
import { keysSection, metricsSection, operatorsSection, subtasksSection } from "./vertex_sections.js";

/** @import { Backpressure, HotKeysInfo, JobEvent, MetricInfo, VertexDetails } from "../core/answers.js" */
/** @import { JobContext } from "../core/context.js" */
/** @import { PlanVertex } from "./vertices.js" */

/**
 * The open vertex; `looked` and `keysLooked` are the times when it, and its keys, were last requested.
 *
 * @typedef {{
 *   vertex: PlanVertex,
 *   path: string,
 *   life: AbortController,
 *   now: ReturnType<typeof nowOf>,
 *   subtasks: ReturnType<typeof subtasksSection>,
 *   keys: ReturnType<typeof keysSection>,
 *   metrics: ReturnType<typeof metricsSection>,
 *   looked: number,
 *   keysLooked: number,
 * }} Opened
 */

/** Milliseconds between two updates of a vertex, each of which makes several requests. */
const PAUSE = 4000;
/** Milliseconds between two requests for its keys: they are user data, and each request is logged in the audit log. */
const KEYS_PAUSE = 30_000;
/** From this width on, the panel fits next to the graph. */
const WIDE = "(min-width: 1001px)";

/**
 * The paths that the panel requests for the vertex with a path.
 *
 * @param {string} path
 */
export function vertexAnswers(path) {
  return [path, `${path}/backpressure`, `${path}/watermarks`, `${path}/subtasks/metrics`];
}

/**
 * {element, open(vertex), update(message), unmount()}: hidden until a vertex is opened; `closed()` is called when it is
 * closed.
 *
 * @param {JobContext} context
 * @param {() => void} closed
 */
export function vertexPanel(context, closed) {
  const { api, jobId } = context;
  /** @type {Opened | null} */
  let opened = null;

  const element = h("aside", { class: "panel vertex-panel", hidden: true, "aria-labelledby": "vertex-name" });
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });

  function close() {
    opened?.life.abort();
    opened = null;
    element.hidden = true;
    closed();
  }

  /** @param {PlanVertex} vertex */
  function open(vertex) {
    opened?.life.abort();
    const life = new AbortController();
    const path = `/jobs/${encodeURIComponent(jobId)}/vertices/${vertex.id}`;
    const now = nowOf();
    const [subtasks, keys, metrics] = [subtasksSection(), keysSection(), metricsSection(api, path, life.signal)];
    opened = { vertex, path, life, now, subtasks, keys, metrics, looked: 0, keysLooked: 0 };
    const name = h("h2", { id: "vertex-name", tabindex: "-1" }, chainName(vertex.operator));
    replace(
      element,
      h(
        "div",
        { class: "vertex-head" },
        name,
        h(
          "button",
          { type: "button", class: "button button-quiet button-small", "aria-label": "Close", onclick: close },
          icon("close"),
        ),
      ),
      now.element,
      operatorsSection(vertex),
      subtasks.element,
      keys.element,
      metrics.element,
    );
    element.hidden = false;
    name.focus({ preventScroll: matchMedia(WIDE).matches });
    if (context.live) now.update(context.live, vertex, context.now());
    look(opened);
  }

  /**
   * Request the data that events do not contain.
   *
   * @param {Opened} shown
   */
  async function look(shown) {
    const { vertex, path, life, subtasks, keys, metrics } = shown;
    const { signal } = life;
    shown.looked = Date.now();
    const wantsKeys = vertex.operators[0].keyed && context.mayOperate && Date.now() - shown.keysLooked >= KEYS_PAUSE;
    if (wantsKeys) shown.keysLooked = Date.now();
    /** @type {[VertexDetails | null, Backpressure | null, MetricInfo[] | null, HotKeysInfo | null]} */
    const [details, pressure, marks, hot] = await Promise.all([
      api.get(path, { signal }).catch(() => null),
      api.get(`${path}/backpressure`, { signal }).catch(() => null),
      api.get(`${path}/watermarks`, { signal }).catch(() => null),
      wantsKeys ? api.get(`${path}/hot-keys`, { signal }).catch(() => null) : null,
    ]);
    if (signal.aborted) return;
    if (details && pressure && marks) subtasks.update(details.subtasks, pressure.subtasks, marks, context.now());
    if (hot) keys.update(hot);
    metrics.update();
  }

  return {
    element,
    open,
    /** @param {JobEvent} message */
    update(message) {
      if (opened === null) return;
      opened.now.update(message, opened.vertex, context.now());
      if (Date.now() - opened.looked >= PAUSE) look(opened);
    },
    unmount: () => opened?.life.abort(),
  };
}

/** The data of a vertex in events: {element, update(message, vertex, time)}. */
function nowOf() {
  const names = ["Records in", "Records out", "Busy", "Back pressure", "Watermark"];
  const values = names.map(() => h("dd", {}, "–"));
  const mark = h("dd", { class: "help" });
  return {
    element: h(
      "dl",
      { class: "vertex-now" },
      names.map((name, at) => h("div", {}, h("dt", {}, name), values[at], name === "Watermark" && mark)),
    ),
    /**
     * @param {JobEvent} message
     * @param {PlanVertex} vertex
     * @param {number} time
     */
    update(message, vertex, time) {
      const now = message.vertices.find((one) => one.id === vertex.id);
      if (!now) return;
      const texts = [
        rate(now["records-in-per-second"]),
        rate(now["records-out-per-second"]),
        percent(now.busy),
        percent(now.backpressure),
        watermark(now.watermark, time),
      ];
      texts.forEach((text, at) => setText(values[at], text));
      setText(mark, watermarkTime(now.watermark));
      setAttribute(values[4], "title", watermarkTitle(now.watermark));
    },
  };
}
