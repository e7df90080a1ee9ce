// @ts-check
// What each operator and subtask contributed to one checkpoint.

import { isAborted } from "../core/api.js";
import { h, replace, setAttribute } from "../core/dom.js";
import { bytes, chainName, count, duration } from "../core/format.js";
import { nothing, problem } from "../widgets/parts.js";

/** @import { CheckpointDetails, SubtaskCheckpoints, TaskCheckpoint } from "../core/answers.js" */
/** @import { Child } from "../core/dom.js" */
/** @import { JobContext } from "../core/context.js" */

const VERTEX = ["Operators", "Subtasks", "Written", "Longest write", "Longest epoch"];
const SUBTASK = ["Subtask", "Written", "Write", "Epoch", "Changes by state"];
const TEXT = ["Operators", "Changes by state"];

/**
 * {element, open(id), close()}: hidden until a checkpoint is opened; `closed()` is called when the user closes it.
 *
 * @param {JobContext} context
 * @param {() => void} closed
 */
export function checkpointDetails(context, closed) {
  let life = new AbortController();
  const title = h("h3", { tabindex: "-1" });
  const body = h("div");
  const away = h("button", { type: "button", class: "button button-small" }, "Close");
  const element = h(
    "section",
    { class: "panel panel-table", "aria-label": "One checkpoint", hidden: true },
    h("div", { class: "toolbar panel-head" }, title, away),
    body,
  );
  away.addEventListener("click", () => {
    close();
    closed();
  });

  function close() {
    life.abort();
    element.hidden = true;
  }

  /** @param {number} id */
  async function open(id) {
    life.abort();
    life = new AbortController();
    const { signal } = life;
    const path = `/jobs/${context.jobId}/checkpoints/details/${id}`;
    replace(title, `Checkpoint of epoch ${count(id)}`);
    element.hidden = false;
    title.focus({ preventScroll: false });
    try {
      /** @type {CheckpointDetails} */
      const answer = await context.api.get(path, { signal });
      replace(body, detailsOf(context, path, Object.values(answer.tasks), signal));
    } catch (error) {
      if (!isAborted(error))
        replace(
          body,
          problem(error, () => open(id)),
        );
    }
  }

  return { element, open, close };
}

/**
 * @param {JobContext} context
 * @param {string} path
 * @param {TaskCheckpoint[]} tasks
 * @param {AbortSignal} signal
 */
function detailsOf(context, path, tasks, signal) {
  if (tasks.length === 0)
    return nothing(
      "What each subtask wrote is not known: the driver remembers it for its own recent checkpoints, not for savepoints.",
    );
  const most = Math.max(...tasks.map((task) => task.checkpointed_size));
  return tableOf(
    "What each vertex wrote",
    VERTEX,
    tasks.flatMap((task) => {
      const place = h("td", { colspan: VERTEX.length });
      const below = h("tr", { hidden: true }, place);
      const button = h("button", { type: "button", class: "link", "aria-expanded": "false" }, chainName(task.name));
      button.addEventListener("click", async () => {
        below.hidden = !below.hidden;
        setAttribute(button, "aria-expanded", String(!below.hidden));
        if (below.hidden) return;
        try {
          /** @type {SubtaskCheckpoints} */
          const answer = await context.api.get(`${path}/subtasks/${task.id}`, { signal });
          replace(place, subtasksOf(answer));
        } catch (error) {
          if (!isAborted(error)) replace(place, problem(error));
        }
      });
      const row = h(
        "tr",
        { class: task.checkpointed_size === most && most > 0 ? "selected" : null },
        h("th", { scope: "row", "data-label": VERTEX[0] }, button),
        [
          count(task.num_subtasks),
          bytes(task.checkpointed_size),
          duration(task.write_duration),
          duration(task.end_to_end_duration),
        ].map((text, at) => h("td", { class: "number", "data-label": VERTEX[at + 1] }, text)),
      );
      return [row, below];
    }),
  );
}

/** @param {SubtaskCheckpoints} answer */
function subtasksOf({ subtasks }) {
  return tableOf(
    "What each subtask wrote",
    SUBTASK,
    subtasks.map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row", class: "number", "data-label": SUBTASK[0] }, String(one.index + 1)),
        [bytes(one.checkpointed_size), duration(one.write_duration), duration(one.end_to_end_duration)].map((text, at) =>
          h("td", { class: "number", "data-label": SUBTASK[at + 1] }, text),
        ),
        h(
          "td",
          { "data-label": SUBTASK[4] },
          one.states.map(({ uid, name, rows }) => `${uid} ${name}: ${count(rows)}`).join(", ") || "none",
        ),
      ),
    ),
  );
}

/**
 * @param {string} caption
 * @param {string[]} heads
 * @param {Child[]} rows
 */
function tableOf(caption, heads, rows) {
  return h(
    "div",
    { class: "table-box", role: "group", "aria-label": caption, tabindex: "0" },
    h(
      "table",
      { class: "cards cards-pairs" },
      h("caption", { class: "visually-hidden" }, caption),
      h(
        "thead",
        {},
        h("tr", {}, ...heads.map((name) => h("th", { scope: "col", class: TEXT.includes(name) ? null : "number" }, name))),
      ),
      h("tbody", {}, ...rows),
    ),
  );
}
