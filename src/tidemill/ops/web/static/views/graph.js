// @ts-check
// The dataflow graph, as a drawing or as a list, with the current metrics of each vertex.

import { h, replace, setAttribute, setText } from "../core/dom.js";
import { chainName, count, duration, percent, rate, watermark, watermarkTime, watermarkTitle } from "../core/format.js";
import { drawing } from "../graph/drawing.js";
import { vertexList } from "../graph/list.js";
import { vertexPanel } from "../graph/vertex_panel.js";
import { verticesOf } from "../graph/vertices.js";
import { isOver } from "../widgets/badge.js";
import { icon } from "../widgets/icons.js";

/** @import { JobEvent, VertexNow } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */
/** @import { PlanVertex } from "../graph/vertices.js" */

export const title = "Graph";

const FORM = "tidemill.graph-form";
/** Graphs with more vertices than this are redrawn only for every other event, to limit the cost. */
const MANY = 30;
const LEAST_PAUSE = 3500;

/**
 * Shows the graph below `root`.
 *
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  const vertices = verticesOf(context.job.plan);
  const drawn = drawing(vertices, open);
  const panel = vertexPanel(context, closed);
  const list = vertexList(vertices, open);
  const figures = figuresOf();
  const stage = h("div", { class: "graph-stage" });
  const last = h("span", { class: "help graph-last", hidden: true }, "Rates as of the last epochs of the job");
  const forms = /** @type {const} */ (["graph", "list"]).map((name) => {
    const button = h(
      "button",
      { type: "button", class: "button button-small" },
      icon(name),
      name === "graph" ? "Graph" : "List",
    );
    button.addEventListener("click", () => {
      localStorage.setItem(FORM, name);
      choose(name);
    });
    return { name, button };
  });
  /** @type {HTMLElement | null} */
  let opener = null;
  let drawnAt = 0;

  replace(
    root,
    h("h2", { class: "visually-hidden" }, "Dataflow graph"),
    h("section", { class: "panel graph-figures", "aria-label": "The job now" }, figures.element),
    h(
      "div",
      { class: "graph-and-panel" },
      h(
        "section",
        { class: "panel graph-panel", "aria-label": "Dataflow graph" },
        h(
          "div",
          { class: "graph-tools", role: "group", "aria-label": "Form" },
          forms.map((form) => form.button),
          last,
          drawn.tools,
        ),
        stage,
      ),
      panel.element,
    ),
  );

  /** @param {string} name */
  function choose(name) {
    for (const form of forms) setAttribute(form.button, "aria-pressed", String(form.name === name));
    drawn.tools.hidden = name !== "graph";
    replace(stage, name === "graph" ? drawn.element : list.element);
    drawn.fit();
  }

  /**
   * @param {PlanVertex} vertex
   * @param {HTMLElement} button
   */
  function open(vertex, button) {
    opener = button;
    drawn.select(vertex.id);
    list.select(vertex.id);
    panel.open(vertex);
  }

  function closed() {
    drawn.select(null);
    list.select(null);
    opener?.focus();
  }

  /** @param {JobEvent} message */
  function draw(message) {
    const now = new Map(message.vertices.map((vertex) => [vertex.id, vertex]));
    const time = context.now();
    last.hidden = !isOver(context.job);
    figures.update(vertices, now, message, time);
    if (vertices.length > MANY && Date.now() - drawnAt < LEAST_PAUSE && !isOver(context.job)) return;
    drawnAt = Date.now();
    drawn.update(now, time);
    list.update(now, time);
  }

  choose(localStorage.getItem(FORM) ?? (matchMedia("(max-width: 640px)").matches ? "list" : "graph"));
  figures.promise(context.job.plan.guarantee);
  if (context.live) draw(context.live);

  return {
    update(message) {
      draw(message);
      panel.update(message);
    },
    unmount() {
      drawn.unmount();
      panel.unmount();
    },
  };
}

/** The row of figures above the graph: {element, promise(guarantee), update(vertices, now, message, time)}. */
function figuresOf() {
  const names = ["Records in", "Busiest", "Back pressure", "Watermark", "Last epoch", "Guarantee"];
  const made = names.map((name) => {
    const [value, detail] = [h("span", { class: "figure-value" }, "–"), h("span", { class: "figure-detail" })];
    return { value, detail, element: h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value, detail)) };
  });
  /** @type {(at: number, value: string, detail?: string, hint?: string | null) => void} */
  const set = (at, value, detail = "", hint = null) => {
    setText(made[at].value, value);
    setText(made[at].detail, detail);
    setAttribute(made[at].element, "title", hint);
  };
  return {
    element: h(
      "dl",
      { class: "figures" },
      made.map((one) => one.element),
    ),
    /** @param {string | undefined} guarantee */
    promise: (guarantee) => set(5, guarantee ?? "–", guarantee ? "weakest of all sinks" : "no sinks"),
    /**
     * @param {PlanVertex[]} vertices
     * @param {Map<string, VertexNow>} all
     * @param {JobEvent} message
     * @param {number} time
     */
    update(vertices, all, message, time) {
      const found = vertices.flatMap((vertex) => {
        const now = all.get(vertex.id);
        return now ? [{ vertex, now }] : [];
      });
      const sources = found.filter(({ vertex }) => vertex.kind === "source");
      const records = sources.reduce((sum, { now }) => sum + now["records-in-per-second"], 0);
      set(0, rate(records), `${count(sources.length)} source${sources.length === 1 ? "" : "s"}`);
      const busiest = highest(found, ({ now }) => now.busy);
      const busy = busiest?.now.busy;
      set(1, percent(busy), busiest && busy ? chainName(busiest.vertex.operator) : "", busiest?.vertex.operator);
      const held = highest(found, ({ now }) => now.backpressure);
      const pressure = held?.now.backpressure;
      set(2, percent(pressure), held && pressure ? chainName(held.vertex.operator) : "none", held?.vertex.operator);
      const marks = found.flatMap(({ now }) => (now.watermark === null ? [] : [now.watermark]));
      const lowest = marks.length ? Math.min(...marks) : null;
      const isKnown = lowest !== null;
      const at = watermarkTime(lowest);
      const detail = at ? `the lowest, ${at}` : "the lowest";
      set(3, isKnown ? watermark(lowest, time) : "none yet", detail, isKnown ? watermarkTitle(lowest) : null);
      if (message.epoch) set(4, duration(message.epoch.duration), `${count(message.epoch.records)} records`);
    },
  };
}

/**
 * The first item with the highest value.
 *
 * @template T
 * @param {T[]} items
 * @param {(item: T) => number} of
 */
function highest(items, of) {
  /** @type {T | null} */
  let found = null;
  for (const item of items) if (found === null || of(item) > of(found)) found = item;
  return found;
}
