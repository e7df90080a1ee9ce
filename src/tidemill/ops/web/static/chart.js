// Small charts over things that come one after the other: stacked bars and lines on one axis. The legend shows the values
// of the point under the pointer, or chosen with the arrow keys, or else of the last one.

import { h, replace, setAttribute, setStyle, setText, svg } from "./dom.js";
import { bytes, short } from "./format.js";

const MARGIN = { left: 58, right: 6, top: 8, bottom: 20 };
/** Pixels that a point takes at least; if there are more points, neighbours are drawn as one, with their mean. */
const LEAST_STEP = 3;
const WIDEST_BAR = 28;

/**
 * A chart: {element, update(points)}.
 *
 * `title` names it. `series` are drawn in their order: {key, label, kind: "bar" or "line", tone}; bars stand on each
 * other, `tone` (1 to 8) picks the colour, by default the place in the list. `format` makes text of a value. A point is
 * {label, tick, [key]: value}: `label` names it ("Epoch 17"), `tick` is shorter, for the axis. `nothing` is said as long
 * as there are no points; `note` is a line below the title. With `cut`, a few points that are far higher than all others
 * are cut off, and marked, so that the others can be seen.
 */
export function chart({
  title,
  series,
  format = short,
  height = 190,
  nothing = "Nothing yet.",
  note = null,
  cut = false,
}) {
  const all = series.map((one, at) => ({ kind: "bar", tone: at + 1, ...one }));
  let points = [];
  let drawn = []; // the points as they are drawn, neighbours put together
  let width = 0;
  let chosen = null; // the place of the point that is read out, null for the last
  let asked = false;

  const grid = svg("g", { class: "chart-grid" });
  const marks = svg("path", { class: "chart-mark" });
  const paths = all.map((one) => svg("path", { class: `tone-${one.tone} chart-${one.kind}` }));
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
  const values = all.map(() => h("span", { class: "chart-value" }));
  const legend = h(
    "p",
    { class: "chart-legend" },
    head,
    all.map((one, at) =>
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
    note && h("p", { class: "chart-note" }, note),
    legend,
    pane,
    none,
    summary,
    said,
  );

  const stack = (point) => all.reduce((sum, one) => sum + (one.kind === "bar" ? (point[one.key] ?? 0) : 0), 0);
  const highest = (point) =>
    all.reduce((most, one) => (one.kind === "line" ? Math.max(most, point[one.key] ?? 0) : most), stack(point));

  function draw() {
    asked = false;
    const none_ = points.length === 0;
    none.hidden = !none_;
    pane.hidden = legend.hidden = none_;
    if (none_ || width < 80) return;
    const room = width - MARGIN.left - MARGIN.right;
    drawn = together(points, all, Math.max(1, Math.floor(room / LEAST_STEP)));
    if (chosen !== null && chosen >= drawn.length) chosen = null;
    const step = room / drawn.length;
    const heights = drawn.map(highest);
    const steps = ticks(cut ? mostly(heights) : Math.max(...heights), format === bytes ? 1024 : 1000);
    const top = steps.at(-1);
    const y = (value) => MARGIN.top + (height - MARGIN.top - MARGIN.bottom) * (1 - Math.min(top, value) / top);
    const x = (at) => MARGIN.left + at * step;
    setAttribute(drawing, "width", width);
    setAttribute(drawing, "viewBox", `0 0 ${width} ${height}`);
    drawGrid(steps, y, x, step);
    const bar = Math.min(WIDEST_BAR, Math.max(1, step - Math.min(3, step * 0.25)));
    const floors = drawn.map(() => 0);
    all.forEach((one, at) => {
      let path = "";
      drawn.forEach((point, place) => {
        const value = point[one.key] ?? 0;
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
      over.length ? `▲ ${over.length === 1 ? "One is" : `${over.length} are`} higher than the axis.` : "",
    );
    read(step);
    setText(summary, summaryOf(points, all, stack, format));
  }

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
        drawn[place].tick ?? drawn[place].label,
      );
    });
    replace(grid, lines, labels);
  }

  function read(step = (width - MARGIN.left - MARGIN.right) / drawn.length) {
    const place = chosen ?? drawn.length - 1;
    const point = drawn[place];
    if (!point) return;
    setText(head, chosen === null ? `${point.label} (last)` : point.label);
    all.forEach((one, at) => setText(values[at], format(point[one.key] ?? 0)));
    setAttribute(cursor, "visibility", chosen === null ? "hidden" : "visible");
    setAttribute(cursor, "x", fixed(MARGIN.left + place * step));
    setAttribute(cursor, "width", fixed(step));
  }

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
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || drawn.length === 0) return;
    event.preventDefault();
    choose(Math.min(drawn.length - 1, Math.max(0, (chosen ?? drawn.length) + moves[event.key])));
    const point = drawn[chosen];
    setText(said, `${point.label}: ${all.map((one) => `${one.label} ${format(point[one.key] ?? 0)}`).join(", ")}`);
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
    update(next) {
      points = next;
      later();
    },
  };
}

/** Neighbours as one point, so that there are at most so many. */
function together(points, series, most) {
  const size = Math.ceil(points.length / most);
  if (size <= 1) return points;
  const found = [];
  for (let at = 0; at < points.length; at += size) {
    const group = points.slice(at, at + size);
    const [first, last] = [group[0], group.at(-1)];
    const one = {
      label: group.length > 1 ? `${first.label} to ${last.tick ?? last.label}, mean` : first.label,
      tick: at === 0 ? first.tick : last.tick,
    };
    for (const { key } of series) one[key] = group.reduce((sum, point) => sum + (point[key] ?? 0), 0) / group.length;
    found.push(one);
  }
  return found;
}

/** Values from 0 to at least `highest`, about five of them, that are round in units of `base`. */
export function ticks(highest, base = 1000) {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / 4;
  const size = 10 ** Math.floor(Math.log10(rough));
  const decimal = size * [1, 2, 2.5, 5, 10].find((factor) => factor * size >= rough * 0.999);
  const step = base === 1024 ? Math.max(1, 2 ** Math.ceil(Math.log2(rough * 0.999))) : decimal;
  const found = [];
  for (let at = 0; at === 0 || found.at(-1) < highest; at += 1) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** The highest value, or if only a few are far higher than the others, somewhat more than those. */
function mostly(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const usual = sorted[Math.floor((sorted.length - 1) * 0.95)] * 1.6;
  return usual > 0 && sorted.length >= 20 && sorted.at(-1) > usual * 2 ? usual : sorted.at(-1);
}

function summaryOf(points, series, stack, format) {
  const told = series.map((one) => `${one.label} ${format(points.at(-1)[one.key] ?? 0)}`).join(", ");
  const sums = points.map((point) =>
    series.some((one) => one.kind === "bar") ? stack(point) : (point[series[0].key] ?? 0),
  );
  return `${points.length} points from ${points[0].label} to ${points.at(-1).label}, between ${format(Math.min(...sums))} and ${format(Math.max(...sums))}. The last: ${told}.`;
}

function fixed(value) {
  return Number(value.toFixed(1));
}
