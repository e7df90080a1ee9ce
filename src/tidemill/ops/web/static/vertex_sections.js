// The parts of the panel of a vertex: its operators, subtasks, hottest keys and metrics.

import { h, reconcile, setAttribute, setStyle, setText } from "./dom.js";
import { bytes, count, percent, watermark, watermarkTitle } from "./format.js";

/** So many subtasks, and metrics, are shown; the command line shows all. */
const MOST_SUBTASKS = 256;
const MOST_METRICS = 200;
/** How long the ids in one request may be together, with commas between. */
const LONGEST_IDS = 3500;

/** The operators of a chain, with where the program makes them. */
export function operatorsSection({ operators }) {
  const item = (operator) => {
    const tags = [operator.keyed && "keyed", operator.guarantee].filter(Boolean);
    return h(
      "li",
      {},
      h("span", { class: "operator-name" }, operator.name),
      tags.map((tag) => h("span", { class: "tag" }, tag)),
      h("span", { class: "operator-uid" }, "uid ", h("code", {}, operator.uid)),
      operator.line && h("span", { class: "operator-uid" }, h("code", {}, operator.line)),
    );
  };
  return h(
    "section",
    {},
    h("h3", {}, operators.length === 1 ? "Operator" : "Operators of the chain"),
    h("ol", { class: "operators" }, operators.map(item)),
  );
}

/** {element, update(subtasks, pressures, marks, now)}, of the answers of the vertex, its back pressure and watermarks. */
export function subtasksSection() {
  const body = h("tbody");
  const title = h("h3", {}, "Subtasks");
  const row = (one) =>
    h("tr", {}, h("th", { scope: "row" }, one.subtask), ["number", "number", "number", "number", null].map(cell));
  return {
    element: h(
      "section",
      {},
      title,
      grid("Subtasks", ["#", "In", "Out", "Busy", "Back pressure", "Watermark"], [1, 2, 3, 4], body),
    ),
    update(subtasks, pressures, marks, now) {
      const markOf = new Map(marks.map((one) => [Number.parseInt(one.id, 10), Number(one.value)]));
      const shown = subtasks.slice(0, MOST_SUBTASKS);
      setText(title, subtasks.length > shown.length ? `Subtasks (${shown.length} of ${subtasks.length})` : "Subtasks");
      reconcile(
        body,
        shown,
        (one) => one.subtask,
        row,
        ({ cells }, one) => {
          const pressure = pressures[one.subtask];
          const mark = markOf.get(one.subtask);
          setText(cells[1], count(one.metrics["read-records"]));
          setText(cells[2], count(one.metrics["write-records"]));
          setText(cells[3], percent(pressure?.busyRatio));
          setText(cells[4], percent(pressure?.ratio));
          setText(cells[5], watermark(mark, now));
          setAttribute(cells[5], "title", watermarkTitle(mark));
        },
      );
    },
  };
}

/** {element, update(answer)}: hidden as long as no key is known. */
export function keysSection() {
  const body = h("tbody");
  const note = h("p", { class: "help" });
  const element = h(
    "section",
    { hidden: true },
    h("h3", {}, "Hottest keys"),
    grid("Hottest keys", ["Key", "Share", "Records"], [1, 2], body),
    note,
  );
  const row = (one) => {
    const bar = h("span", { class: "meter-bar", "aria-hidden": "true" }, h("i"));
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "key-cell" }, h("code", {}, one.text), bar),
      ["number", "number"].map(cell),
    );
  };
  return {
    element,
    update({ keys, sampled }) {
      element.hidden = keys.length === 0;
      const most = Math.max(...keys.map((one) => one.share), 0.0001);
      reconcile(
        body,
        keys,
        (one) => one.text,
        row,
        (made, one) => {
          setText(made.cells[1], percent(one.share));
          setText(made.cells[2], count(one.records));
          setStyle(made.querySelector("i"), "transform", `scaleX(${(one.share / most).toFixed(2)})`);
        },
      );
      setText(note, `Of a sample of ${count(sampled)} records.`);
    },
  };
}

/** {element, update()}: asks for metrics only while it is open. `path` is that of the vertex. */
export function metricsSection(api, path, signal) {
  const body = h("tbody");
  const note = h("p", { class: "help", role: "status" });
  const filter = h("input", {
    type: "search",
    "aria-label": "Part of a metric's name",
    placeholder: "Part of a name",
    autocomplete: "off",
  });
  const element = h(
    "details",
    {},
    h("summary", {}, h("h3", {}, "Metrics")),
    filter,
    note,
    grid("Metrics over all subtasks", ["Metric", "Sum", "Highest"], [1, 2], body),
  );
  const row = (one) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, one.id)), ["number", "number"].map(cell));

  async function update() {
    if (!element.open) return;
    try {
      const wanted = filter.value.trim().toLowerCase();
      const all = (await api.get(`${path}/subtasks/metrics`, { signal })).map((one) => one.id);
      const found = all.filter((id) => id.toLowerCase().includes(wanted));
      const asked = joined(found.slice(0, MOST_METRICS)).map((ids) =>
        api.get(`${path}/subtasks/metrics?get=${encodeURIComponent(ids)}&agg=sum,max`, { signal }),
      );
      const answers = (await Promise.all(asked)).flat();
      setText(
        note,
        found.length > MOST_METRICS
          ? `${MOST_METRICS} of ${found.length} are shown: type a part of a name.`
          : `${found.length} of ${all.length} metrics.`,
      );
      reconcile(
        body,
        answers,
        (one) => one.id,
        row,
        (made, one) => {
          setText(made.cells[1], one.id.endsWith("Watermark") ? "–" : metricText(one.id, one.sum));
          setText(made.cells[2], metricText(one.id, one.max));
        },
      );
    } catch (error) {
      if (!signal.aborted) setText(note, error.message);
    }
  }

  let typed = null;
  filter.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(update, 300);
  });
  element.addEventListener("toggle", update);
  return { element, update };
}

function grid(caption, heads, numbers, body) {
  const head = (text, at) => h("th", { scope: "col", class: numbers.includes(at) ? "number" : null }, text);
  return h(
    "div",
    { class: "table-box", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", { class: "dense" }, h("thead", {}, h("tr", {}, heads.map(head))), body),
  );
}

function cell(kind) {
  return h("td", { class: kind });
}

function metricText(id, value) {
  if (value === undefined) return "–";
  if (id.endsWith("Watermark")) return watermark(value);
  if (/Bytes/.test(id) && !id.endsWith("PerSecond")) return bytes(value);
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
}

/** Ids with commas between, as many in each as a request may have. */
function joined(ids) {
  const found = [];
  for (const id of ids) {
    if (found.length && found.at(-1).length + id.length < LONGEST_IDS) found[found.length - 1] += `,${id}`;
    else found.push(id);
  }
  return found;
}
