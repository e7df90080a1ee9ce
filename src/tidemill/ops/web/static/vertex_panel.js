// The panel beside the graph: what there is to know of one vertex.

import { h, replace, setAttribute, setText } from "./dom.js";
import { percent, rate, watermark, watermarkTitle } from "./format.js";
import { chainName } from "./graph_drawing.js";
import { icon } from "./icons.js";
import { keysSection, metricsSection, operatorsSection, subtasksSection } from "./vertex_sections.js";

/** Milliseconds between two looks at a vertex: each asks for several things. */
const PAUSE = 4000;
/** Milliseconds between two looks at its keys: those are users' data, and each look is a line in the audit log. */
const KEYS_PAUSE = 30_000;
/** From this width on there is room for the panel beside the graph. */
const WIDE = "(min-width: 1001px)";

/** {element, open(vertex), update(message), unmount()}: hidden until a vertex is opened; `closed()` is told the rest. */
export function vertexPanel(context, closed) {
  const { api, jobId } = context;
  let opened = null; // {vertex, path, life, now, subtasks, keys, metrics, looked, keysLooked}

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
    look();
  }

  /** Ask for what events do not tell. */
  async function look() {
    const { vertex, path, life, subtasks, keys, metrics } = opened;
    const { signal } = life;
    opened.looked = Date.now();
    const asked = [path, `${path}/backpressure`, `${path}/watermarks`];
    const wantsKeys = vertex.operators[0].keyed && context.mayOperate && Date.now() - opened.keysLooked >= KEYS_PAUSE;
    if (wantsKeys) {
      opened.keysLooked = Date.now();
      asked.push(`${path}/hot-keys`);
    }
    const answers = await Promise.all(asked.map((one) => api.get(one, { signal }).catch(() => null)));
    if (signal.aborted) return;
    const [details, pressure, marks, hot] = answers;
    if (details && pressure && marks) subtasks.update(details.subtasks, pressure.subtasks, marks, context.now());
    if (hot) keys.update(hot);
    metrics.update();
  }

  return {
    element,
    open,
    update(message) {
      if (opened === null) return;
      opened.now.update(message, opened.vertex, context.now());
      if (Date.now() - opened.looked >= PAUSE) look();
    },
    unmount: () => opened?.life.abort(),
  };
}

/** What events tell of a vertex: {element, update(message, vertex, time)}. */
function nowOf() {
  const names = ["Records in", "Records out", "Busy", "Back pressure", "Watermark"];
  const values = names.map(() => h("dd", {}, "–"));
  return {
    element: h(
      "dl",
      { class: "vertex-now" },
      names.map((name, at) => h("div", {}, h("dt", {}, name), values[at])),
    ),
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
      setAttribute(values[4], "title", watermarkTitle(now.watermark));
    },
  };
}
