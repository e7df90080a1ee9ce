// The configuration that a job runs with. Secrets come masked from the server, and stay so.

import { h, replace } from "../dom.js";
import { NOTHING, plural } from "../format.js";
import { facts, isAborted, loader, nothing, problem, section, table, tableSection } from "../parts.js";

export const title = "Configuration";

const MASK = /^\*+$/;

export function mount(root, context) {
  const loading = loader(async (signal) => {
    try {
      replace(root, ...shown(await context.api.get(`/jobs/${context.jobId}/config`, { signal })));
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

/** The settings, with a field that narrows them to those with all of its words. */
function searchable(all) {
  const list = settings("Settings", all);
  const search = h("input", { type: "search", id: "config-search", autocomplete: "off", spellcheck: "false" });
  const found = h("p", { class: "help", role: "status" });
  const none = nothing("No setting has all of these words. What is not set has its default: see the documentation.");

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

function settings(caption, pairs) {
  return table(caption, ["Key", "Value"], pairs.map(cells));
}

function cells([key, value]) {
  return [h("code", { class: "key" }, key), h("code", { class: "wrap" }, valueOf(value))];
}

function valueOf(value) {
  if (value === "") return NOTHING;
  return MASK.test(value)
    ? h("span", { class: "masked" }, value, h("span", { class: "visually-hidden" }, " (a secret)"))
    : value;
}
