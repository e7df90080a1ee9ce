// @ts-check
// Small charts of a sequence: stacked bars and lines on one axis. The legend shows the values of the point under the
// pointer or selected with the arrow keys, otherwise those of the last point.

import { h, replace, setAttribute, setStyle, setText, svg } from "../core/dom.js";
import { bytes, short } from "../core/format.js";

/**
 * A series of a chart; bars are stacked, `tone` (1 to 8) is its colour.
 *
 * @typedef {{ key: string, label: string, kind: "bar" | "line", tone: number }} Series
 */
/**
 * A point: `label` names it ("Epoch 17"), `tick` is shorter, for the axis; `values` are those of the series by key.
 *
 * @typedef {{ label: string, tick: string, values: Record<string, number | undefined> }} ChartPoint
 */
/** @typedef {(value: number) => string} Format */

const MARGIN = { left: 58, right: 6, top: 8, bottom: 20 };
/** The minimum width of a point in pixels. If there are too many points, neighbours are combined, with their mean. */
const LEAST_STEP = 3;
const WIDEST_BAR = 28;
/** How far the keys move the selected point. */
const MOVES = new Map([
  ["ArrowLeft", -1],
  ["ArrowRight", 1],
  ["Home", -Infinity],
  ["End", Infinity],
]);

/**
 * A chart: {element, update(points)}.
 *
 * `series` are drawn in their order. `format` formats a value. `nothing` is shown while there are no points. With `cut`,
 * a few points that are far higher than all others are truncated and marked, so that the others remain visible.
 *
 * @param {{
 *   title: string,
 *   series: Series[],
 *   format?: Format,
 *   height?: number,
 *   nothing?: string,
 *   cut?: boolean,
 * }} options
 */
export function chart({
  title,
  series,
  format = short,
  height = 190,
  nothing = "No data yet.",
  cut = false,
}) {
  /** @type {ChartPoint[]} */
  let points = [];
  /** @type {ChartPoint[]} */
  let drawn = []; // the points as they are drawn, neighbours combined
  let width = 0;
  /** @type {number | null} */
  let chosen = null; // the position of the selected point, null for the last
  let asked = false;

  const grid = svg("g", { class: "chart-grid" });
  const marks = svg("path", { class: "chart-mark" });
  const paths = series.map((one) => svg("path", { class: `tone-${one.tone} chart-${one.kind}` }));
  const cursor = svg("rect", {
    class: "chart-cursor",
    y: MARGIN.top,
    height: height - MARGIN.top - MARGIN.bottom,
    visibility: "hidden",
  });
  const drawing = svg(
    "svg",
    { class: "chart-drawing", height, "aria-hidden": "true", focusable: "false" },
    grid,
    cursor,
    paths,
    marks,
  );
  const pane = h(
    "div",
    {
      class: "chart-pane",
      tabindex: "0",
      role: "group",
      "aria-label": `${title}: chart. Left and right arrow keys read out its points.`,
    },
    drawing,
  );
  const head = h("span", { class: "chart-point" });
  const values = series.map(() => h("span", { class: "chart-value" }));
  const legend = h(
    "p",
    { class: "chart-legend" },
    head,
    series.map((one, at) =>
      h(
        "span",
        { class: "chart-key" },
        h("i", { class: `swatch swatch-${one.kind} tone-${one.tone}`, "aria-hidden": "true" }),
        `${one.label} `,
        values[at],
      ),
    ),
  );
  const cutNote = h("span", { class: "chart-key" });
  legend.append(cutNote);
  const said = h("p", { class: "visually-hidden", "aria-live": "polite" });
  const summary = h("p", { class: "visually-hidden" });
  const none = h("p", { class: "nothing" }, nothing);
  const element = h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, title),
    legend,
    pane,
    none,
    summary,
    said,
  );

  /** @param {ChartPoint} point */
  const stack = (point) => series.reduce((sum, one) => sum + (one.kind === "bar" ? valueOf(point, one) : 0), 0);
  /** @param {ChartPoint} point */
  const highest = (point) =>
    series.reduce((most, one) => (one.kind === "line" ? Math.max(most, valueOf(point, one)) : most), stack(point));

  function draw() {
    asked = false;
    const isEmpty = points.length === 0;
    none.hidden = !isEmpty;
    pane.hidden = legend.hidden = isEmpty;
    if (isEmpty || width < 80) return;
    const room = width - MARGIN.left - MARGIN.right;
    drawn = together(points, series, Math.max(1, Math.floor(room / LEAST_STEP)));
    if (chosen !== null && chosen >= drawn.length) chosen = null;
    const step = room / drawn.length;
    const heights = drawn.map(highest);
    const steps = ticks(cut ? mostly(heights) : Math.max(...heights), format === bytes ? 1024 : 1000);
    const top = steps[steps.length - 1];
    /** @param {number} value */
    const y = (value) => MARGIN.top + (height - MARGIN.top - MARGIN.bottom) * (1 - Math.min(top, value) / top);
    /** @param {number} at */
    const x = (at) => MARGIN.left + at * step;
    setAttribute(drawing, "width", width);
    setAttribute(drawing, "viewBox", `0 0 ${width} ${height}`);
    drawGrid(steps, y, x, step);
    const bar = Math.min(WIDEST_BAR, Math.max(1, step - Math.min(3, step * 0.25)));
    const floors = drawn.map(() => 0);
    series.forEach((one, at) => {
      let path = "";
      drawn.forEach((point, place) => {
        const value = valueOf(point, one);
        if (one.kind === "line") {
          path += `${path ? "L" : "M"}${fixed(x(place) + step / 2)} ${fixed(y(value))}`;
        } else if (value > 0) {
          const [low, high] = [y(floors[place]), y(floors[place] + value)];
          path += `M${fixed(x(place) + (step - bar) / 2)} ${fixed(low)}h${fixed(bar)}V${fixed(high)}h${fixed(-bar)}z`;
          floors[place] += value;
        }
      });
      if (one.kind === "line" && drawn.length === 1) path += "h0.01";
      setAttribute(paths[at], "d", path);
    });
    const over = drawn.flatMap((_, place) => (heights[place] > top ? [fixed(x(place) + step / 2)] : []));
    setAttribute(marks, "d", over.map((middle) => `M${middle - 4} ${MARGIN.top + 1}h8l-4 -7z`).join(""));
    setText(
      cutNote,
      over.length ? `▲ ${over.length === 1 ? "One is" : `${over.length} are`} beyond the axis.` : "",
    );
    read(step);
    setText(summary, summaryOf(points, series, stack, format));
  }

  /**
   * @param {number[]} steps
   * @param {(value: number) => number} y
   * @param {(at: number) => number} x
   * @param {number} step
   */
  function drawGrid(steps, y, x, step) {
    const lines = steps.map((value) => [
      svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: fixed(y(value)), y2: fixed(y(value)) }),
      svg("text", { x: MARGIN.left - 8, y: fixed(y(value) + 4), "text-anchor": "end" }, format(value)),
    ]);
    const places =
      drawn.length > 2 && width > 420
        ? [0, Math.floor((drawn.length - 1) / 2), drawn.length - 1]
        : drawn.length > 1
          ? [0, drawn.length - 1]
          : [0];
    const labels = places.map((place, at) => {
      const anchor = places.length === 1 ? "middle" : at === 0 ? "start" : at === places.length - 1 ? "end" : "middle";
      const shift = anchor === "start" ? 0 : anchor === "end" ? step : step / 2;
      return svg(
        "text",
        { x: fixed(x(place) + shift), y: height - 5, "text-anchor": anchor },
        drawn[place].tick,
      );
    });
    replace(grid, lines, labels);
  }

  function read(step = (width - MARGIN.left - MARGIN.right) / drawn.length) {
    const place = chosen ?? drawn.length - 1;
    const point = drawn[place];
    if (!point) return;
    setText(head, chosen === null ? `${point.label} (last)` : point.label);
    series.forEach((one, at) => setText(values[at], format(valueOf(point, one))));
    setAttribute(cursor, "visibility", chosen === null ? "hidden" : "visible");
    setAttribute(cursor, "x", fixed(MARGIN.left + place * step));
    setAttribute(cursor, "width", fixed(step));
  }

  /** @param {number | null} place */
  function choose(place) {
    chosen = place;
    read();
  }

  pane.addEventListener("pointermove", (event) => {
    const at = Math.floor(
      ((event.clientX - pane.getBoundingClientRect().left - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) *
        drawn.length,
    );
    choose(Math.min(drawn.length - 1, Math.max(0, at)));
  });
  pane.addEventListener("pointerleave", () => choose(null));
  pane.addEventListener("blur", () => choose(null));
  pane.addEventListener("keydown", (event) => {
    const move = MOVES.get(event.key);
    if (move === undefined || drawn.length === 0) return;
    event.preventDefault();
    const place = Math.min(drawn.length - 1, Math.max(0, (chosen ?? drawn.length) + move));
    choose(place);
    setText(said, `${drawn[place].label}: ${textOf(drawn[place], series, format)}`);
  });

  function later() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(draw);
  }

  new ResizeObserver(([entry]) => {
    width = Math.floor(entry.contentRect.width);
    later();
  }).observe(element);
  setStyle(pane, "min-height", `${height}px`);
  draw();

  return {
    element,
    /** @param {ChartPoint[]} next */
    update(next) {
      points = next;
      later();
    },
  };
}

/**
 * @param {ChartPoint} point
 * @param {Series} series
 */
function valueOf(point, { key }) {
  return point.values[key] ?? 0;
}

/**
 * @param {ChartPoint} point
 * @param {Series[]} series
 * @param {Format} format
 */
function textOf(point, series, format) {
  return series.map((one) => `${one.label} ${format(valueOf(point, one))}`).join(", ");
}

/**
 * Combines neighbours, so that there are at most `most` points.
 *
 * @param {ChartPoint[]} points
 * @param {Series[]} series
 * @param {number} most
 */
function together(points, series, most) {
  const size = Math.ceil(points.length / most);
  if (size <= 1) return points;
  const found = [];
  for (let at = 0; at < points.length; at += size) {
    const group = points.slice(at, at + size);
    const [first, last] = [group[0], group[group.length - 1]];
    found.push({
      label: group.length > 1 ? `${first.label} to ${last.tick}, mean` : first.label,
      tick: at === 0 ? first.tick : last.tick,
      values: Object.fromEntries(
        series.map((one) => [one.key, group.reduce((sum, point) => sum + valueOf(point, one), 0) / group.length]),
      ),
    });
  }
  return found;
}

/**
 * About five values from 0 to at least `highest` that are round in units of `base`.
 *
 * @param {number} highest
 * @param {number} [base]
 */
export function ticks(highest, base = 1000) {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / 4;
  const size = 10 ** Math.floor(Math.log10(rough));
  const decimal = size * ([1, 2, 2.5, 5].find((factor) => factor * size >= rough * 0.999) ?? 10);
  const step = base === 1024 ? Math.max(1, 2 ** Math.ceil(Math.log2(rough * 0.999))) : decimal;
  const found = [0];
  while (found[found.length - 1] < highest) found.push(Number((found.length * step).toPrecision(12)));
  return found;
}

/**
 * The highest value or, if only a few are far higher than the others, somewhat more than the others.
 *
 * @param {number[]} values
 */
function mostly(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const usual = sorted[Math.floor((sorted.length - 1) * 0.95)] * 1.6;
  const highest = sorted[sorted.length - 1];
  return usual > 0 && sorted.length >= 20 && highest > usual * 2 ? usual : highest;
}

/**
 * @param {ChartPoint[]} points
 * @param {Series[]} series
 * @param {(point: ChartPoint) => number} stack
 * @param {Format} format
 */
function summaryOf(points, series, stack, format) {
  const last = points[points.length - 1];
  const hasBars = series.some((one) => one.kind === "bar");
  const sums = points.map((point) => (hasBars ? stack(point) : valueOf(point, series[0])));
  return `${points.length} points from ${points[0].label} to ${last.label}, between ${format(Math.min(...sums))} and ${format(Math.max(...sums))}. Last: ${textOf(last, series, format)}.`;
}

/** @param {number} value */
function fixed(value) {
  return Number(value.toFixed(1));
}
