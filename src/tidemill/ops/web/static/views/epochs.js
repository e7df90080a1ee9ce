// @ts-check
// The epochs of a job: their time by phase, their numbers of records, and their durations.

import { childList, h, replace, setText } from "../core/dom.js";
import { bytes, count, duration, rate, short, timeOfDay } from "../core/format.js";
import { chart } from "../widgets/chart.js";
import { facts, figure } from "../widgets/parts.js";

/** @import { Epoch, Epochs } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */
/** @import { Attributes } from "../core/dom.js" */
/** @import { Series } from "../widgets/chart.js" */

/**
 * An epoch with the time since the previous one, null if that is unknown.
 *
 * @typedef {Epoch & { interval: number | null }} ShownEpoch
 */

export const title = "Epochs";

/** The numbers of epochs that the user can select; the driver keeps a thousand. */
const CHOICES = [100, 300, 1000];
const USUAL = 300;
const IN_TABLE = 50;
/** The minimum time between two redraws in milliseconds, because charts and tables are expensive. */
const PAUSE = 3500;
/** @type {Omit<Series, "kind">[]} */
const PHASES = [
  { key: "source", label: "Source", tone: 1 },
  { key: "load", label: "Load", tone: 2 },
  { key: "compute", label: "Compute", tone: 3 },
  { key: "exchange", label: "Exchange", tone: 4 },
  { key: "delta", label: "Delta", tone: 5 },
  { key: "commit", label: "Commit", tone: 6 },
  { key: "other", label: "Other", tone: 7 },
];
/** @type {Record<string, string>} */
const PHASE_TITLES = {
  source: "Reading input",
  load: "Preparing chains: long only if state is loaded",
  compute: "Processing records with your functions",
  exchange: "Sending parcels between chains and waiting for them",
  delta: "Writing changes of the state",
  commit: "Writing the manifest and committing the sinks",
  other:
    "The rest of the epoch, which no subtask measures: the engine plans and starts its tasks and returns their " +
    "results (on Spark: a job with a stage for each level). It hardly depends on the number of records; larger epochs " +
    "(execution.epoch.min-interval) make its share smaller",
};

/** @param {string} path */
export const answers = (path) => [`${path}/epochs?after=-1&limit=${USUAL}`];

/**
 * Shows the epochs below `root`.
 *
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  const { jobId, api } = context;
  const life = new AbortController();
  /** @type {ShownEpoch[]} */
  let epochs = [];
  let kept = USUAL;
  let drawnAt = 0;
  /** @type {number | undefined} */
  let waiting;
  let loading = false;
  let again = false;

  const figures = ["Median", "95 %", "99 %", "Longest", "Records", "Between epochs"].map(figure);
  const scope = h("span", { class: "summary" });
  const choice = h(
    "select",
    { id: "epochs-shown" },
    CHOICES.map((number) => h("option", { value: number, selected: number === kept }, `the last ${number} epochs`)),
  );
  choice.addEventListener("change", () => {
    const more = Number(choice.value) > kept;
    kept = Number(choice.value);
    drawnAt = 0; // redraw immediately
    if (more) {
      epochs = [];
      load();
    } else take([]);
  });
  const phases = chart({
    title: "Time by phase",
    series: PHASES.map((phase) => ({ ...phase, kind: "bar" })),
    format: duration,
    height: 220,
    cut: true,
    nothing: "No epoch has been committed yet.",
  });
  const rates = chart({
    title: "Records per second",
    series: [{ key: "rate", label: "Records in", kind: "line", tone: 8 }],
    format: rate,
    height: 140,
    nothing: "No epoch has been committed yet.",
  });
  const body = h("tbody");
  const rows = childList(body, (/** @type {ShownEpoch} */ { epoch }) => epoch, row);
  const heads = ["Epoch", "Committed", "Duration", "Records", "Written", "State entries", "Runs"];
  const table = h(
    "div",
    { class: "table-box", role: "region", "aria-label": `The last ${IN_TABLE} epochs`, tabindex: "0" },
    h(
      "table",
      {},
      h("caption", { class: "visually-hidden" }, `The last ${IN_TABLE} epochs, newest first`),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) => h("th", { scope: "col", class: head === "Committed" ? null : "number" }, head)),
          PHASES.map((phase) =>
            h("th", { scope: "col", class: "number phase", title: PHASE_TITLES[phase.key] }, phase.label),
          ),
        ),
      ),
      body,
    ),
  );
  replace(
    root,
    h("h2", { class: "visually-hidden" }, title),
    h(
      "section",
      { class: "panel", "aria-label": "Durations of epochs" },
      h(
        "dl",
        { class: "figures" },
        figures.map((one) => one.element),
      ),
      h("p", { class: "epochs-scope" }, h("label", { for: "epochs-shown" }, "Show "), choice, " ", scope),
    ),
    h(
      "section",
      { class: "panel", "aria-label": "Phases" },
      phases.element,
      h(
        "details",
        { class: "phase-titles" },
        h("summary", {}, "What the phases are"),
        h(
          "p",
          { class: "help" },
          "Of each phase, the time of the slowest subtask of each level counts. Other is what remains of the duration.",
        ),
        facts(...PHASES.map(({ key, label }) => /** @type {[string, string]} */ ([label, `${PHASE_TITLES[key]}.`]))),
      ),
    ),
    h("section", { class: "panel", "aria-label": "Records" }, rates.element),
    h(
      "section",
      { class: "panel panel-table epochs-table", "aria-label": "Last epochs" },
      h("h3", {}, "Last epochs"),
      table,
    ),
  );

  async function load() {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const before = epochs;
      const after = before.at(-1)?.epoch ?? -1;
      /** @type {Epochs} */
      const answer = await api.get(`/jobs/${encodeURIComponent(jobId)}/epochs?after=${after}&limit=${kept}`, {
        signal: life.signal,
      });
      if (answer.epochs.length > 0 && epochs === before) take(answer.epochs); // otherwise there is a newer request
    } catch {
      // The page reports that the driver does not respond; the next event triggers a retry.
    } finally {
      loading = false;
      if (again && !life.signal.aborted) {
        again = false;
        load();
      }
    }
  }

  /** @param {Epoch[]} more */
  function take(more) {
    /** @type {Epoch | undefined} */
    let before = epochs.at(-1);
    const found = [...epochs];
    for (const epoch of more) {
      found.push({ ...epoch, interval: before ? epoch.ended - before.ended : null });
      before = epoch;
    }
    epochs = found.slice(-kept);
    clearTimeout(waiting);
    waiting = setTimeout(draw, Math.max(0, drawnAt + PAUSE - Date.now()));
  }

  function draw() {
    drawnAt = Date.now();
    const points = epochs.map((epoch, at) => ({
      label: `Epoch ${count(epoch.epoch)}`,
      tick: count(epoch.epoch),
      values: {
        ...epoch.phases,
        rate: (epoch.records * 1000) / Math.max(epoch.duration, epoch.interval ?? epochs[at + 1]?.interval ?? 0, 1),
      },
    }));
    phases.update(points);
    rates.update(points);
    drawFigures();
    rows.show(epochs.slice(-IN_TABLE).reverse());
  }

  function drawFigures() {
    const lengths = epochs.map((epoch) => epoch.duration).sort((a, b) => a - b);
    /** @param {number} share */
    const at = (share) =>
      lengths.length ? duration(lengths[Math.min(lengths.length - 1, Math.ceil(share * lengths.length) - 1)]) : "–";
    const last = epochs.at(-1);
    const span = last && epochs.length > 1 ? (last.ended - epochs[0].ended) / (epochs.length - 1) : null;
    const records = epochs.length ? short(epochs.reduce((sum, epoch) => sum + epoch.records, 0) / epochs.length) : "–";
    const shown = [at(0.5), at(0.95), at(0.99), at(1), `${records} each`, span === null ? "–" : duration(span)];
    shown.forEach((text, place) => setText(figures[place].value, text));
    setText(scope, last ? `${count(epochs[0].epoch)} to ${count(last.epoch)}` : "");
  }

  load();

  return {
    update(message) {
      const [last, { epoch: next, latest }] = [epochs.at(-1), message];
      if (!next || next.epoch === last?.epoch) return;
      if (last && latest[0]?.epoch === last.epoch + 1 && !loading) return take(latest);
      const isEarlier = last && next.epoch < last.epoch && next.ended > last.ended; // restarted from an older checkpoint
      if (isEarlier) epochs = [];
      load();
    },
    unmount() {
      clearTimeout(waiting);
      life.abort();
    },
  };
}

/**
 * A row is created once, because an epoch does not change.
 *
 * @param {Epoch} epoch
 */
function row(epoch) {
  /** @type {(text: string, attributes?: Attributes) => HTMLElement} */
  const number = (text, attributes) => h("td", { class: "number", ...attributes }, text);
  const element = h(
    "tr",
    {},
    h("th", { scope: "row", class: "number" }, count(epoch.epoch)),
    h("td", {}, timeOfDay(epoch.ended)),
    number(duration(epoch.duration)),
    number(count(epoch.records)),
    number(bytes(epoch["delta-bytes"])),
    number(count(epoch["state-entries"])),
    number(count(epoch.runs)),
    PHASES.map((phase) => number(duration(epoch.phases[phase.key] ?? 0), { class: "number phase" })),
  );
  return { element };
}
