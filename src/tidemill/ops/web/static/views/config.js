// @ts-check
// The configuration of a job. The server masks secrets.

import { isAborted } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { NOTHING, plural } from "../core/format.js";
import { loader } from "../core/loader.js";
import { facts, nothing, problem, section, table, tableSection } from "../widgets/parts.js";

/** @import { JobConfig } from "../core/answers.js" */
/** @import { JobContext, MountedView } from "../core/context.js" */

export const title = "Configuration";

const MASK = /^\*+$/;

/** @param {string} path */
export const answers = (path) => [`${path}/config`];

/**
 * @param {HTMLElement} root
 * @param {JobContext} context
 * @returns {MountedView}
 */
export function mount(root, context) {
  const loading = loader(async (signal) => {
    try {
      /** @type {JobConfig} */
      const config = await context.api.get(`/jobs/${context.jobId}/config`, { signal });
      replace(root, shown(config));
    } catch (error) {
      if (!isAborted(error))
        replace(
          root,
          problem(error, () => loading.now()),
        );
    }
  }, 0);
  loading.now();
  return { unmount: loading.stop };
}

/** @param {JobConfig} config */
function shown(config) {
  const execution = config["execution-config"];
  const own = Object.entries(execution["user-config"]);
  return [
    h("h2", { class: "visually-hidden" }, title),
    section(
      "Execution",
      facts(
        ["Mode", execution["execution-mode"]],
        ["Default parallelism", String(execution["job-parallelism"])],
        ["Restart strategy", execution["restart-strategy"]],
        ["Object reuse", execution["object-reuse-mode"] ? "on" : "off"],
      ),
    ),
    own.length ? tableSection("Parameters of the program", settings("Parameters of the program", own).element) : null,
    searchable(Object.entries(config.configuration)),
  ];
}

/**
 * The settings, with a field that filters them by all of its words.
 *
 * @param {[string, string][]} all
 */
function searchable(all) {
  const list = settings("Settings", all);
  const search = h("input", { type: "search", id: "config-search", autocomplete: "off", spellcheck: "false" });
  const found = h("p", { class: "help", role: "status" });
  const none = nothing("No setting contains all of these words. Other settings have their defaults: see the documentation.");

  function narrow() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = all.filter((pair) => words.every((word) => pair.join(" ").toLowerCase().includes(word)));
    list.fill(left.map(cells));
    none.hidden = left.length > 0;
    list.element.hidden = !left.length;
    found.textContent = words.length
      ? `${left.length} of ${plural(all.length, "setting")}`
      : plural(all.length, "setting");
  }

  search.addEventListener("input", narrow);
  narrow();
  return tableSection(
    "Settings",
    h("div", { class: "toolbar" }, h("label", { for: search.id }, "Search"), search, found),
    list.element,
    none,
  );
}

/**
 * @param {string} caption
 * @param {[string, string][]} pairs
 */
function settings(caption, pairs) {
  return table(caption, ["Key", "Value"], pairs.map(cells));
}

/** @param {[string, string]} setting */
function cells([key, value]) {
  return [h("code", { class: "key" }, key), h("code", { class: "wrap" }, valueOf(value))];
}

/** @param {string} value */
function valueOf(value) {
  if (value === "") return NOTHING;
  return MASK.test(value)
    ? h("span", { class: "masked" }, value, h("span", { class: "visually-hidden" }, " (a secret)"))
    : value;
}
