// @ts-check
// The last lines of the driver's log, if it has one.

import { isAborted, messageOf, statusOf } from "../core/api.js";
import { h, replace, setText } from "../core/dom.js";
import { plural } from "../core/format.js";
import { loader } from "../core/loader.js";
import { copyButton, copyable, notice, problem } from "../widgets/parts.js";

/** @import { LogLines } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */

export const title = "Logs";

const LINES = [200, 1000, 5000];
/** The minimum time between two requests while the log is followed, in milliseconds. */
const PAUSE = 4000;
/** The audit log records each request for the log. These lines are omitted, because they would soon fill the view. */
const OWN = / tidemill\.audit: .* GET \S+\/logs -> 200$/;

/**
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  const count = h(
    "select",
    { id: "log-lines" },
    ...LINES.map((lines) => h("option", { value: String(lines) }, String(lines))),
  );
  const search = h("input", { type: "search", id: "log-search", autocomplete: "off", spellcheck: "false" });
  const follow = h("input", { type: "checkbox", id: "log-follow" });
  const again = h("button", { type: "button", class: "button", onclick: () => anew() }, "Refresh");
  const list = h("ol");
  const box = h("div", { class: "log", tabindex: "0", role: "region", "aria-label": "Log of the driver" }, list);
  const amount = h("span");
  const where = h("span");
  const tools = h(
    "div",
    { class: "toolbar" },
    h("label", { for: search.id }, "Search"),
    search,
    h("label", { for: count.id }, "Last lines"),
    count,
    h("span", { class: "choice" }, follow, h("label", { for: follow.id }, "Follow")),
    again,
    copyButton(() => shown().join("\n"), "the lines shown", context.announce, "Copy lines"),
  );
  const place = h("div");
  replace(root, h("h2", { class: "visually-hidden" }, title), place);
  const rows = linesOf(list);
  /** @type {string[]} */
  let lines = [];
  /** @type {number | null} */
  let next = null; // the end of the log at the last request; null to start again at its end

  const shown = () => {
    const wanted = search.value.toLowerCase();
    return wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : lines;
  };

  const loading = loader(async (signal) => {
    const after = next === null ? "" : `&after=${next}`;
    try {
      /** @type {LogLines} */
      const answer = await context.api.get(`/jobs/${context.jobId}/logs?lines=${count.value}${after}`, { signal });
      const fresh = answer.lines.filter((line) => !OWN.test(line));
      lines = (next === null ? fresh : [...lines, ...fresh]).slice(-Number(count.value));
      next = answer.next;
      if (!place.contains(box)) open(answer.path);
      draw();
    } catch (error) {
      if (isAborted(error)) return;
      next = null;
      if (statusOf(error) === 404) replace(place, withoutLog(error));
      else if (statusOf(error) === 403) replace(place, forOperators());
      else replace(place, problem(error, anew));
    }
  }, PAUSE);

  function anew() {
    next = null;
    loading.now();
  }

  /** @param {string} path */
  function open(path) {
    replace(where, " of ", copyable(path, "the path of the log", context.announce));
    replace(place, tools, h("p", { class: "help" }, amount, where), box);
  }

  function draw() {
    const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    const wasEmpty = rows.isEmpty();
    const wanted = shown();
    rows.show(wanted);
    setText(
      amount,
      wanted.length < lines.length
        ? `${wanted.length} of ${lines.length} lines`
        : `The last ${plural(lines.length, "line")}`,
    );
    if (isAtEnd || wasEmpty) box.scrollTop = box.scrollHeight;
  }

  search.addEventListener("input", draw);
  count.addEventListener("change", anew);
  follow.addEventListener("change", () => {
    if (follow.checked) loading.now();
  });
  anew();
  return {
    update() {
      if (follow.checked && place.contains(box)) loading.ask();
    },
    unmount: loading.stop,
  };
}

/**
 * The lines in a list. When a log has grown, existing lines are kept, so that selected text remains selected.
 *
 * @param {HTMLElement} list
 */
function linesOf(list) {
  /** @type {{ text: string, element: HTMLElement }[]} */
  let shown = [];
  return {
    isEmpty: () => shown.length === 0,
    /** @param {string[]} lines */
    show(lines) {
      const from = beginning(
        shown.map((line) => line.text),
        lines,
      );
      for (const { element } of shown.slice(0, from)) element.remove();
      const more = lines.slice(shown.length - from).map((text) => ({ text, element: line(text) }));
      list.append(...more.map(({ element }) => element));
      shown = [...shown.slice(from), ...more];
    },
  };
}

/**
 * The index from which the old lines are the beginning of the new ones.
 *
 * @param {string[]} old
 * @param {string[]} lines
 */
function beginning(old, lines) {
  for (let from = Math.max(0, old.length - lines.length); from < old.length; from += 1) {
    if (old[from] === lines[0] && old.slice(from).every((text, at) => text === lines[at])) return from;
  }
  return old.length;
}

/** @param {string} text */
function line(text) {
  const level = /\b(CRITICAL|FATAL|ERROR|WARNING|WARN)\b/.exec(text.slice(0, 120))?.[1];
  const kind = level && (level.startsWith("WARN") ? "log-warning" : "log-error");
  return h("li", { class: kind }, text);
}

/** @param {unknown} error */
function withoutLog(error) {
  return notice(
    "info",
    h("p", {}, "There is no log to show here."),
    h("p", { class: "help" }, messageOf(error)),
  );
}

function forOperators() {
  return notice("info", "A log can contain user data: it is only shown with the token of rest.operate-token.");
}
