// @ts-check
// The dialogs of a job's buttons.

import { messageOf } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { chainName } from "../core/format.js";
import { ask, choice, field } from "../widgets/dialogs.js";
import { notice } from "../widgets/parts.js";
import { insisting, triggerId } from "./operations.js";
import { cancelled, finished, follow, pathOf, savedAt } from "./results.js";

/** @import { CheckpointConfigInfo, JobConfig, Trigger } from "../core/answers.js" */
/** @import { ActionBar } from "./bar.js" */

const SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir";

/** @param {ActionBar} bar */
export function savepoint(bar) {
  const directory = directoryField(bar);
  ask({
    title: "Take a savepoint",
    body: [
      h("p", {}, "A copy of all state and of the positions in the sources, which you own. The job continues to run."),
      directory.element,
    ],
    confirm: "Take savepoint",
    async act() {
      const body = { triggerId: directory.id, ...(directory.value && { "target-directory": directory.value }) };
      await insisting(() => bar.context.api.post(pathOf(bar, "savepoints"), body));
      const doing = follow(bar, "Taking a savepoint", pathOf(bar, `savepoints/${directory.id}`));
      doing.then((result) => result && savedAt(bar, result, "Savepoint complete"));
    },
  });
}

/** @param {ActionBar} bar */
export function stop(bar) {
  const directory = directoryField(bar);
  const drain = h("input", { type: "checkbox" });
  const warning = notice(
    "warning",
    "Windows that are still open emit their results now, before all of their records have arrived. A job that starts from " +
      "this savepoint has nothing left to process. Drain a job only if you will not resume it.",
  );
  warning.hidden = true;
  drain.addEventListener("change", () => (warning.hidden = !drain.checked));
  ask({
    title: "Stop the job",
    body: [
      h(
        "p",
        {},
        "The job stops reading, processes what it has read, takes a savepoint, and ends. Everything up to the savepoint " +
          "is committed; a job that starts from it resumes exactly there.",
      ),
      directory.element,
      choice("Drain: send the maximum watermark first", drain, "All windows and event-time timers fire."),
      warning,
    ],
    confirm: "Stop with savepoint",
    async act() {
      const body = {
        triggerId: directory.id,
        drain: drain.checked,
        ...(directory.value && { targetDirectory: directory.value }),
      };
      await insisting(() => bar.context.api.post(pathOf(bar, "stop"), body));
      const doing = follow(
        bar,
        drain.checked ? "Draining and stopping the job" : "Stopping the job",
        pathOf(bar, `savepoints/${directory.id}`),
      );
      doing.then((result) => result && savedAt(bar, result, "Stopped with a savepoint"));
    },
  });
}

/** @param {ActionBar} bar */
export function cancel(bar) {
  const lost = h("div", { "aria-live": "polite" }, h("p", {}, "Checking which state is lost …"));
  const word = h("input", { type: "text", autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  ask({
    title: "Cancel the job",
    body: [
      h("p", {}, "The job ends immediately, without a savepoint. To resume it later, stop it instead."),
      lost,
      field("Type “cancel” to confirm", word).element,
    ],
    confirm: "Cancel the job",
    danger: true,
    ready: () => word.value.trim().toLowerCase() === "cancel",
    async act() {
      await bar.context.api.patch(`${pathOf(bar)}?mode=cancel`);
      cancelled(bar);
    },
  });
  whatIsLost(bar).then((message) => replace(lost, message));
}

/** @param {ActionBar} bar */
export function rescale(bar) {
  const inputs = bar.job.vertices.map((vertex) => {
    const input = h("input", {
      type: "number",
      min: "1",
      max: String(vertex.maxParallelism),
      step: "1",
      inputmode: "numeric",
      required: true,
      value: String(vertex.parallelism),
      "aria-label": `Parallelism of ${vertex.name}`,
    });
    return { vertex, input };
  });
  const changed = () => inputs.filter(({ vertex, input }) => Number(input.value) !== vertex.parallelism);
  const most = Math.min(...bar.job.vertices.map((vertex) => vertex.maxParallelism));
  const all = h("input", { type: "number", min: "1", max: String(most), step: "1", inputmode: "numeric" });
  all.addEventListener("input", () => {
    if (!all.value || !all.validity.valid) return;
    for (const { vertex, input } of inputs) {
      input.value = String(Math.min(Number(all.value), vertex.maxParallelism));
    }
  });
  ask({
    title: "Change the parallelism",
    body: [
      h("p", {}, "The parallelism changes between two epochs: nothing is restarted or recomputed."),
      field("For all operators", all).element,
      h(
        "div",
        { class: "table-box" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ...["Operators", "Now", "New"].map((name) =>
                h("th", { scope: "col", class: name === "Now" ? "number" : null }, name),
              ),
            ),
          ),
          h(
            "tbody",
            {},
            ...inputs.map(({ vertex, input }) =>
              h(
                "tr",
                {},
                h("th", { scope: "row", class: "wrap" }, chainName(vertex.name)),
                h("td", { class: "number" }, String(vertex.parallelism)),
                h("td", {}, input, h("span", { class: "help" }, ` of at most ${vertex.maxParallelism}`)),
              ),
            ),
          ),
        ),
      ),
      h(
        "p",
        { class: "help" },
        "Operators connected by a forward edge change together: set one of them, or the same value for all.",
      ),
    ],
    confirm: "Rescale",
    ready: () => changed().length > 0 && inputs.every(({ input }) => input.validity.valid),
    async act() {
      const wanted = changed().map(({ vertex, input }) => ({ vertex, width: Number(input.value) }));
      const parallelism = Object.fromEntries(wanted.map(({ vertex, width }) => [vertex.uid, width]));
      /** @type {Trigger} */
      const begun = await bar.context.api.patch(pathOf(bar, "rescaling"), { parallelism });
      const doing = follow(bar, "Changing the parallelism", pathOf(bar, `rescaling/${begun["request-id"]}`));
      const widths = new Set(inputs.map(({ input }) => input.value));
      const each = wanted.map(({ vertex, width }) => `${chainName(vertex.name)}: ${width}`).join(", ");
      const what = widths.size === 1 ? `all operators: ${wanted[0].width}` : each;
      doing.then((result) => result && finished(bar, result.item, "good", `Rescaled: ${what}.`));
    },
  });
}

/**
 * A field for the directory of a savepoint, which is optional if the job has a default; with an id for the request.
 *
 * @param {ActionBar} bar
 */
function directoryField(bar) {
  const input = h("input", { type: "text", autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const { element, hint } = field("Directory", input, "If empty, the directory in the configuration of the job is used.");
  bar.context.api.get(pathOf(bar, "config")).then(
    (/** @type {JobConfig} */ { configuration }) => {
      const own = configuration[SAVEPOINT_DIRECTORY];
      if (own) {
        input.placeholder = own;
        hint.textContent = "If empty, the savepoint directory of the job is used, which is shown.";
      } else {
        input.required = true;
        hint.textContent = `The job has no ${SAVEPOINT_DIRECTORY}: specify a directory below one of rest.savepoint-dirs.`;
      }
    },
    () => {}, // the hint remains unchanged
  );
  return {
    element,
    id: triggerId(),
    get value() {
      return input.value.trim();
    },
  };
}

/**
 * A notice about what happens to the state of a job that is cancelled.
 *
 * @param {ActionBar} bar
 */
async function whatIsLost(bar) {
  try {
    /** @type {CheckpointConfigInfo} */
    const config = await bar.context.api.get(pathOf(bar, "checkpoints/config"));
    if (config.externalization.delete_on_cancellation) {
      return notice(
        "warning",
        "Its checkpoints are deleted, as configured: all of its state will be lost.",
      );
    }
    if (!config.externalization.enabled) {
      return notice(
        "warning",
        "It has no execution.checkpointing.dir: its state is lost when the driver ends, and cannot be recovered.",
      );
    }
    return notice(
      "info",
      `Its checkpoints are kept. If started again with the same execution.job-id, it resumes from its last committed epoch, ` +
        `now ${bar.job.epoch}; later input is processed again.`,
    );
  } catch (error) {
    return notice("warning", `Could not determine what happens to its state. ${messageOf(error)}`);
  }
}
