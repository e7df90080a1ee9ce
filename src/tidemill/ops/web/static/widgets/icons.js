// @ts-check
// Icons in the colour of the surrounding text. Their meaning is always available as text too.

import { svg } from "../core/dom.js";

/** @typedef {keyof typeof PATHS} IconName */

const PATHS = {
  source: "M2 8h8M7 5l3 3-3 3M12 2.5h2v11h-2",
  sink: "M6 8h8M11 5l3 3-3 3M4 2.5H2v11h2",
  keyed: "M5.5 10.5a3 3 0 1 1 2.6-1.5L14 9M12 9v2.5M7 7.5",
  operator: "M8 2v2M8 12v2M2 8h2M12 8h2M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6",
  close: "M4 4l8 8M12 4l-8 8",
  graph: "M2.5 4.5h4v3h-4zM9.5 8.5h4v3h-4zM6.5 6h1.5v4h1.5",
  list: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
  moon: "M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6",
  system: "M2 3h12v8H2zM6 13.5h4M8 11v2.5",
  back: "M10 3L5 8l5 5",
};

/**
 * An icon by its name.
 *
 * @param {IconName} name
 */
export function icon(name) {
  return svg(
    "svg",
    {
      class: `icon icon-${name}`,
      viewBox: "0 0 16 16",
      width: 16,
      height: 16,
      "aria-hidden": "true",
      focusable: "false",
    },
    svg("path", {
      d: PATHS[name],
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.5,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  );
}

/** The project's logo. */
export function mark() {
  return svg(
    "svg",
    { class: "mark", viewBox: "0 0 32 32", width: 26, height: 26, "aria-hidden": "true", focusable: "false" },
    svg("rect", { width: 32, height: 32, rx: 7, fill: "var(--accent)" }),
    svg(
      "g",
      { fill: "none", stroke: "var(--on-accent)", "stroke-width": 2, "stroke-linecap": "round" },
      svg("circle", { cx: 16, cy: 13.5, r: 7 }),
      svg("path", { d: "M16 6.5v14M9 13.5h14M11 8.5l10 10M21 8.5l-10 10", "stroke-width": 1.3 }),
      svg("path", { d: "M4 25c2-2 4-2 6 0s4 2 6 0 4-2 6 0 4 2 6 0" }),
    ),
  );
}
