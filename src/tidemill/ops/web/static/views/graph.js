// The dataflow graph, as a drawing or as a list, with what each vertex does now.

import { isOver } from "../badge.js";
import { h, reconcile, replace, setAttribute, setText } from "../dom.js";
import { count, duration, percent, rate, watermark, watermarkTitle } from "../format.js";
import { chainName, drawing } from "../graph_drawing.js";
import { icon } from "../icons.js";
import { vertexPanel } from "../vertex_panel.js";

export const title = "Graph";

const FORM = "tidemill.graph-form";
/** A graph of so many vertices is drawn every other event only: it has to stay cheap to look at. */
const MANY = 30;
const LEAST_PAUSE = 3500;

/** The vertices of a job as they are shown: the plan's nodes, with what is derived from their edges. */
export function verticesOf(plan) {
  const read = new Set(plan.nodes.flatMap((node) => node.inputs.map((input) => input.id)));
  return plan.nodes.map((node) => {
    const guarantees = node.operators.flatMap((one) => (one.guarantee ? [one.guarantee] : []));
    const kind =
      node.inputs.length === 0 ? "source" : guarantees.length ? "sink" : node.operators[0].keyed ? "keyed" : "operator";
    return { ...node, kind, guarantees, isEnd: !read.has(node.id) };
  });
}

/** Shows the graph below `root`. */
export function mount(root, context) {
  const vertices = verticesOf(context.job.plan);
  const drawn = drawing(vertices, open);
  const panel = vertexPanel(context, closed);
  const list = listOf(vertices, open);
  const figures = figuresOf();
  const stage = h("div", { class: "graph-stage" });
  const forms = ["graph", "list"].map((name) => {
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
          drawn.tools,
        ),
        stage,
      ),
      panel.element,
    ),
  );

  function choose(name) {
    for (const form of forms) setAttribute(form.button, "aria-pressed", String(form.name === name));
    drawn.tools.hidden = name !== "graph";
    replace(stage, name === "graph" ? drawn.element : list.element);
    drawn.fit();
  }

  function open(vertex, button) {
    opener = button;
    drawn.select(vertex.id);
    list.select(vertex.id);
    panel.open(vertices.find((one) => one.id === vertex.id));
  }

  function closed() {
    drawn.select(null);
    list.select(null);
    opener?.focus();
  }

  function draw(message) {
    const now = new Map(message.vertices.map((vertex) => [vertex.id, vertex]));
    const time = context.now();
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

/** The row of figures above the graph. */
function figuresOf() {
  const names = ["Records in", "Busiest", "Back pressure", "Watermark", "Last epoch", "Sinks promise"];
  const made = names.map((name) => {
    const [value, detail] = [h("span", { class: "figure-value" }, "–"), h("span", { class: "figure-detail" })];
    return { value, detail, element: h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value, detail)) };
  });
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
    promise: (guarantee) => set(5, guarantee ?? "–", guarantee ? "the weakest of them" : "there is none"),
    update(vertices, now, message, time) {
      const found = vertices.flatMap((vertex) => (now.has(vertex.id) ? [{ vertex, ...now.get(vertex.id) }] : []));
      const highest = (key) => found.reduce((most, one) => (one[key] > (most?.[key] ?? -1) ? one : most), null);
      const [busiest, held] = [highest("busy"), highest("backpressure")];
      const marks = found.flatMap((one) => (one.watermark === null ? [] : [one.watermark]));
      const sources = found.filter((one) => one.vertex.kind === "source");
      set(
        0,
        rate(sources.reduce((sum, one) => sum + one["records-in-per-second"], 0)),
        `${count(sources.length)} source${sources.length === 1 ? "" : "s"}`,
      );
      set(
        1,
        percent(busiest?.busy),
        busiest?.busy > 0 ? chainName(busiest.vertex.operator) : "",
        busiest?.vertex.operator,
      );
      set(
        2,
        percent(held?.backpressure),
        held?.backpressure > 0 ? chainName(held.vertex.operator) : "none",
        held?.vertex.operator,
      );
      set(
        3,
        marks.length ? watermark(Math.min(...marks), time) : "none yet",
        "the lowest",
        marks.length ? watermarkTitle(Math.min(...marks)) : null,
      );
      if (message.epoch) set(4, duration(message.epoch.duration), `${count(message.epoch.records)} records`);
    },
  };
}

/** The graph as a table: {element, update(now, time), select(id)}. */
function listOf(vertices, open) {
  const names = new Map(vertices.map((vertex) => [vertex.id, vertex.operator]));
  const body = h("tbody");
  const rows = new Map();
  const cell = (label, number = true) => h("td", { class: number ? "number" : null, "data-label": label });
  reconcile(
    body,
    vertices,
    (vertex) => vertex.id,
    (vertex) => {
      const button = h("button", { type: "button", class: "link" }, chainName(vertex.operator));
      button.addEventListener("click", () => open(vertex, button));
      const cells = {
        width: cell("Parallelism"),
        in: cell("In"),
        out: cell("Out"),
        busy: cell("Busy"),
        held: cell("Back pressure"),
        mark: cell("Watermark", false),
      };
      const from = vertex.inputs.map((input) =>
        h("li", {}, `${chainName(names.get(input.id) ?? "?")} · ${shipOf(input)}`),
      );
      setText(cells.width, count(vertex.parallelism));
      const row = h(
        "tr",
        {},
        h("th", { scope: "row" }, button),
        Object.values(cells),
        h("td", { "data-label": "Reads from" }, from.length ? h("ul", { class: "plain" }, from) : "outside"),
      );
      rows.set(vertex.id, { row, cells });
      return row;
    },
  );
  const heads = ["Vertex", "Parallelism", "In", "Out", "Busy", "Back pressure", "Watermark", "Reads from"];
  return {
    element: h(
      "div",
      { class: "table-box", role: "region", "aria-label": "Vertices", tabindex: "0" },
      h(
        "table",
        { class: "vertices stacking" },
        h("caption", { class: "visually-hidden" }, "Vertices of the graph"),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map((head, at) => h("th", { scope: "col", class: at > 0 && at < 6 ? "number" : null }, head)),
          ),
        ),
        body,
      ),
    ),
    update(now, time) {
      for (const [id, { cells }] of rows) {
        const vertex = now.get(id);
        if (!vertex) continue;
        setText(cells.width, count(vertex.parallelism));
        setText(cells.in, rate(vertex["records-in-per-second"]));
        setText(cells.out, rate(vertex["records-out-per-second"]));
        setText(cells.busy, percent(vertex.busy));
        setText(cells.held, percent(vertex.backpressure));
        setText(cells.mark, watermark(vertex.watermark, time));
        setAttribute(cells.mark, "title", watermarkTitle(vertex.watermark));
      }
    },
    select(id) {
      for (const [one, { row }] of rows) setAttribute(row, "class", one === id ? "selected" : null);
    },
  };
}

/** How records go along an edge, in words. */
export function shipOf(input) {
  return input.side_output ? `${input.ship_strategy}, side output ${input.side_output}` : input.ship_strategy;
}
