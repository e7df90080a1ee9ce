// @ts-check
// The drawing of the dataflow graph: nodes are buttons, edges are curves behind them.

import { h, setAttribute, setStyle, setText, svg } from "../core/dom.js";
import { chainName, percent, rate, watermark, watermarkTitle } from "../core/format.js";
import { icon } from "../widgets/icons.js";
import { layout } from "./layout.js";

/** @import { PlanInput, VertexNow } from "../core/answers.js" */
/** @import { IconName } from "../widgets/icons.js" */
/** @import { Direction, DrawnEdge, Sizes } from "./layout.js" */
/** @import { OpenVertex, PlanVertex } from "./vertices.js" */

/** @type {Record<Direction, Sizes>} */
const SIZES = {
  across: { width: 254, height: 142, gaps: { layers: 100, nodes: 26 } },
  down: { width: 254, height: 142, gaps: { layers: 58, nodes: 22 } },
};
const NARROW = "(max-width: 720px)";
const EDGE = 14; // pixels around the drawing
const [SMALLEST, READABLE, LARGEST] = [0.3, 0.62, 1.5];

/**
 * {element, tools, update(now, time), select(id), fit(), unmount()}: `update` accepts the current metrics of each vertex,
 * by id, and the driver's time.
 *
 * @param {PlanVertex[]} vertices
 * @param {OpenVertex} open
 */
export function drawing(vertices, open) {
  const nodes = new Map(vertices.map((vertex) => [vertex.id, nodeOf(vertex, open)]));
  const wires = svg("svg", { class: "graph-wires", "aria-hidden": "true", focusable: "false" });
  const canvas = h("div", { class: "graph-canvas" }, wires);
  const sizer = h("div", { class: "graph-sizer" }, canvas);
  const element = h("div", { class: "graph-scroll" }, sizer);
  const zoomed = h("span", { class: "graph-zoom" });
  /** @type {Direction | null} */
  let direction = null;
  let whole = { width: 0, height: 0 };
  /** @type {{ from: string, wire: SVGPathElement }[]} */
  let edges = [];
  let [scale, fitted] = [1, true];

  /** @type {(name: IconName, label: string, act: () => void) => HTMLElement} */
  const tool = (name, label, act) =>
    h(
      "button",
      { type: "button", class: "button button-small", "aria-label": label, title: label, onclick: act },
      icon(name),
    );
  const tools = h(
    "div",
    { class: "graph-zooms", role: "group", "aria-label": "Size" },
    tool("minus", "Smaller", () => zoom(scale / 1.2)),
    zoomed,
    tool("plus", "Larger", () => zoom(scale * 1.2)),
    tool("fit", "Fit to the width", () => {
      fitted = true;
      fit();
    }),
  );

  /** @param {Direction} next */
  function arrange(next) {
    direction = next;
    const size = SIZES[direction];
    const graph = vertices.map((vertex) => ({
      id: vertex.id,
      inputs: vertex.inputs.map((input) => ({ id: input.id, label: input })),
    }));
    const made = layout(graph, size, direction);
    whole = made;
    const focused = document.activeElement;
    const ordered = [...made.places].sort(([, a], [, b]) => a.layer - b.layer || a.y - b.y || a.x - b.x);
    for (const [id, { x, y }] of ordered) {
      const button = nodes.get(id)?.button;
      if (!button) continue;
      for (const [property, value] of Object.entries({ left: x, top: y, width: size.width, height: size.height }))
        setStyle(button, property, `${value}px`);
      canvas.append(button);
    }
    setStyle(canvas, "width", `${whole.width}px`);
    setStyle(canvas, "height", `${whole.height}px`);
    setAttribute(wires, "viewBox", `0 0 ${whole.width} ${whole.height}`);
    setAttribute(wires, "width", whole.width);
    setAttribute(wires, "height", whole.height);
    edges = made.edges.map(({ from, path }) => ({ from, wire: svg("path", { class: "wire", d: path }) }));
    wires.replaceChildren(arrow(), ...edges.map((edge) => edge.wire), ...made.edges.map(labelOf));
    if (focused instanceof HTMLElement && canvas.contains(focused)) focused.focus({ preventScroll: true });
  }

  /**
   * @param {number} next
   * @param {boolean} [byHand]
   */
  function zoom(next, byHand = true) {
    if (byHand) fitted = false;
    scale = Math.min(LARGEST, Math.max(SMALLEST, next));
    setStyle(canvas, "transform", `scale(${scale.toFixed(3)})`);
    setStyle(sizer, "width", `${Math.ceil(whole.width * scale)}px`);
    setStyle(sizer, "height", `${Math.ceil(whole.height * scale)}px`);
    setText(zoomed, percent(scale));
  }

  function fit() {
    const room = element.clientWidth - 2 * EDGE;
    if (room <= 0) return;
    const wanted = matchMedia(NARROW).matches ? "down" : "across";
    if (wanted !== direction) arrange(wanted);
    if (fitted) zoom(Math.max(READABLE, Math.min(1, room / whole.width)), false);
  }

  const watch = new ResizeObserver(fit);
  watch.observe(element);
  panned(element);

  return {
    element,
    tools,
    fit,
    /**
     * @param {Map<string, VertexNow>} now
     * @param {number} time
     */
    update(now, time) {
      for (const vertex of now.values()) nodes.get(vertex.id)?.update(vertex, time);
      for (const { from, wire } of edges) {
        const flow = now.get(from)?.["records-out-per-second"] ?? 0;
        setAttribute(wire, "stroke-width", (1.5 + Math.min(3, Math.log10(1 + flow) * 0.6)).toFixed(1));
        setAttribute(wire, "data-flows", flow > 0 ? "yes" : "no");
      }
    },
    /** @param {string | null} id */
    select(id) {
      for (const [one, { button }] of nodes) setAttribute(button, "aria-expanded", String(one === id));
    },
    unmount: () => watch.disconnect(),
  };
}

/**
 * @param {PlanVertex} vertex
 * @param {OpenVertex} open
 */
function nodeOf(vertex, open) {
  /** @param {string} name */
  const meter = (name) => {
    const [bar, text] = [h("i"), h("span", { class: "meter-text" }, "–")];
    return {
      bar,
      text,
      element: h(
        "span",
        { class: `meter meter-${name.toLowerCase().replace(" ", "-")}` },
        h("span", { class: "meter-name" }, name),
        h("span", { class: "meter-bar", "aria-hidden": "true" }, bar),
        text,
      ),
    };
  };
  const [busy, held] = [meter("Busy"), meter("Back pressure")];
  const width = h("span", { class: "node-width", title: "Parallelism" });
  const flow = h("span");
  const mark = h("span");
  const guarantee =
    vertex.kind === "sink"
      ? h("span", { class: "node-promise", title: "The guarantee of this sink" }, vertex.guarantees.join(", "))
      : null;
  const button = h(
    "button",
    { type: "button", class: `node node-${vertex.kind}`, "aria-expanded": "false" },
    h(
      "span",
      { class: "node-head" },
      icon(vertex.kind),
      h("span", { class: "node-name", title: vertex.operator }, chainName(vertex.operator)),
      width,
    ),
    h("span", { class: "node-flow" }, flow, guarantee),
    busy.element,
    held.element,
    h("span", { class: "node-foot" }, "Watermark ", mark),
  );
  button.addEventListener("click", () => open(vertex, button));
  setText(width, `×${vertex.parallelism}`);

  /**
   * @param {{ text: HTMLElement, bar: HTMLElement }} at
   * @param {number} share
   */
  function show(at, share) {
    setText(at.text, percent(share));
    setStyle(at.bar, "transform", `scaleX(${Math.min(1, Math.max(0, share)).toFixed(2)})`);
  }

  return {
    button,
    /**
     * @param {VertexNow} now
     * @param {number} time
     */
    update(now, time) {
      // Two digits, so that a steady rate looks steady and is not redrawn.
      const [read, sent] = [rate(now["records-in-per-second"], 2), rate(now["records-out-per-second"], 2)];
      setText(width, `×${now.parallelism}`);
      setText(flow, vertex.isEnd ? `${read} in` : `${read} in · ${sent} out`);
      show(busy, now.busy);
      show(held, now.backpressure);
      setText(mark, watermark(now.watermark, time));
      setAttribute(mark, "title", watermarkTitle(now.watermark));
      setAttribute(button, "data-load", now.backpressure > 0.5 ? "held" : now.busy > 0.8 ? "busy" : "calm");
    },
  };
}

/** @param {DrawnEdge<PlanInput>} edge */
function labelOf({ label, x, y }) {
  const ship = label.ship_strategy.split("(")[0]; // the function is named in the list
  const text = label.side_output ? `${ship} · ${label.side_output}` : ship;
  return svg(
    "text",
    { class: "wire-label", x, y: y - 5, "text-anchor": "middle" },
    text.length > 18 ? `${text.slice(0, 17)}…` : text,
  );
}

function arrow() {
  return svg(
    "defs",
    {},
    svg(
      "marker",
      {
        id: "arrow",
        viewBox: "0 0 8 8",
        refX: 7,
        refY: 4,
        markerWidth: 8,
        markerHeight: 8,
        markerUnits: "userSpaceOnUse",
        orient: "auto",
      },
      svg("path", { class: "wire-head", d: "M0 0.5L8 4L0 7.5z" }),
    ),
  );
}

/**
 * Lets the user move the drawing with the mouse, except on nodes.
 *
 * @param {HTMLElement} element
 */
function panned(element) {
  /** @type {{ x: number, y: number } | null} */
  let from = null;
  element.addEventListener("pointerdown", (event) => {
    const isOnNode = event.target instanceof Element && event.target.closest("button");
    if (event.pointerType !== "mouse" || event.button !== 0 || isOnNode) return;
    from = { x: event.clientX + element.scrollLeft, y: event.clientY + element.scrollTop };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (from) element.scrollTo(from.x - event.clientX, from.y - event.clientY);
  });
  for (const end of ["pointerup", "pointercancel"])
    element.addEventListener(end, () => {
      from = null;
    });
}
