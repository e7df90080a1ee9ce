// @ts-check
// The dataflow graph as a table.

import { childList, h, setAttribute, setText } from "../core/dom.js";
import { chainName, count, percent, rate, watermark, watermarkTitle } from "../core/format.js";
import { shipOf } from "./vertices.js";

/** @import { VertexNow } from "../core/answers.js" */
/** @import { OpenVertex, PlanVertex } from "./vertices.js" */

const HEADS = ["Vertex", "Parallelism", "In", "Out", "Busy", "Back pressure", "Watermark", "Reads from"];

/**
 * {element, update(now, time), select(id)}, like those of the drawing.
 *
 * @param {PlanVertex[]} vertices
 * @param {OpenVertex} open
 */
export function vertexList(vertices, open) {
  const names = new Map(vertices.map((vertex) => [vertex.id, vertex.operator]));
  const body = h("tbody");
  const rows = childList(
    body,
    /** @param {PlanVertex} vertex */ (vertex) => vertex.id,
    (vertex) => rowOf(vertex, names, open),
  );
  rows.show(vertices);
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
            HEADS.map((head, at) => h("th", { scope: "col", class: at > 0 && at < 6 ? "number" : null }, head)),
          ),
        ),
        body,
      ),
    ),
    /**
     * @param {Map<string, VertexNow>} now
     * @param {number} time
     */
    update(now, time) {
      for (const vertex of now.values()) rows.get(vertex.id)?.update(vertex, time);
    },
    /** @param {string | null} id */
    select(id) {
      for (const vertex of vertices) rows.get(vertex.id)?.select(vertex.id === id);
    },
  };
}

/**
 * @param {PlanVertex} vertex
 * @param {Map<string, string>} names
 * @param {OpenVertex} open
 */
function rowOf(vertex, names, open) {
  const cell = (/** @type {string} */ label, isNumber = true) =>
    h("td", { class: isNumber ? "number" : null, "data-label": label });
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
  const from = vertex.inputs.map((input) => h("li", {}, `${chainName(names.get(input.id) ?? "?")} · ${shipOf(input)}`));
  setText(cells.width, count(vertex.parallelism));
  const element = h(
    "tr",
    {},
    h("th", { scope: "row" }, button),
    Object.values(cells),
    h("td", { "data-label": "Reads from" }, from.length ? h("ul", { class: "plain" }, from) : "outside"),
  );
  return {
    element,
    /**
     * @param {VertexNow} now
     * @param {number} time
     */
    update(now, time) {
      setText(cells.width, count(now.parallelism));
      setText(cells.in, rate(now["records-in-per-second"]));
      setText(cells.out, rate(now["records-out-per-second"]));
      setText(cells.busy, percent(now.busy));
      setText(cells.held, percent(now.backpressure));
      setText(cells.mark, watermark(now.watermark, time));
      setAttribute(cells.mark, "title", watermarkTitle(now.watermark));
    },
    /** @param {boolean} isSelected */
    select: (isSelected) => setAttribute(element, "class", isSelected ? "selected" : null),
  };
}
