// The last lines of the driver's log, where it writes one.

import { h, replace, setText } from "../dom.js";
import { plural } from "../format.js";
import { copyButton, copyable, isAborted, loader, notice, problem } from "../parts.js";

export const title = "Logs";

const LINES = [200, 1000, 5000];
/** The least time between two looks while the log is followed, in milliseconds. */
const PAUSE = 4000;
/** Each look is noted in the log, as the audit wants it. These lines are left out, or there would be no others soon. */
const OWN = / tidemill\.audit: .* GET \S+\/logs -> 200$/;

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
  const told = h("span");
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
  let lines = [];
  let next = null; // where the log ended at the last look; null to look at its end anew

  const shown = () => {
    const wanted = search.value.toLowerCase();
    return wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : lines;
  };

  const loading = loader(async (signal) => {
    const after = next === null ? "" : `&after=${next}`;
    try {
      const answer = await context.api.get(`/jobs/${context.jobId}/logs?lines=${count.value}${after}`, { signal });
      const fresh = answer.lines.filter((line) => !OWN.test(line));
      lines = (next === null ? fresh : [...lines, ...fresh]).slice(-Number(count.value));
      next = answer.next;
      if (!place.contains(box)) open(answer.path);
      draw();
    } catch (error) {
      if (isAborted(error)) return;
      next = null;
      if (error.status === 404) replace(place, withoutLog(error));
      else if (error.status === 403) replace(place, forOperators());
      else replace(place, problem(error, anew));
    }
  }, PAUSE);

  function anew() {
    next = null;
    loading.now();
  }

  function open(path) {
    replace(where, " of ", copyable(path, "the path of the log", context.announce));
    replace(place, tools, h("p", { class: "help" }, told, where), box);
  }

  function draw() {
    const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    const wasEmpty = !list.firstChild;
    const wanted = shown();
    update(list, wanted);
    setText(
      told,
      wanted.length < lines.length
        ? `${wanted.length} of ${lines.length} lines`
        : `The last ${plural(lines.length, "line")}`,
    );
    if (isAtEnd || wasEmpty) box.scrollTop = box.scrollHeight;
  }

  search.addEventListener("input", draw);
  count.addEventListener("change", anew);
  follow.addEventListener("change", () => follow.checked && loading.now());
  anew();
  return {
    update: () => follow.checked && place.contains(box) && loading.ask(),
    unmount: loading.stop,
  };
}

/** Make the list one of these lines. Of a log that has grown, lines that are there stay: what is selected stays so. */
function update(list, lines) {
  const old = [...list.children];
  const from = beginning(
    old.map((item) => item.textContent),
    lines,
  );
  for (const item of old.slice(0, from)) item.remove();
  list.append(...lines.slice(old.length - from).map(line));
}

/** From where on the old lines are the beginning of the new ones. */
function beginning(old, lines) {
  for (let from = Math.max(0, old.length - lines.length); from < old.length; from += 1) {
    if (old[from] === lines[0] && old.slice(from).every((text, at) => text === lines[at])) return from;
  }
  return old.length;
}

function line(text) {
  const level = /\b(CRITICAL|FATAL|ERROR|WARNING|WARN)\b/.exec(text.slice(0, 120))?.[1];
  const kind = level && (level.startsWith("WARN") ? "log-warning" : "log-error");
  return h("li", { class: kind }, text);
}

function withoutLog(error) {
  return notice(
    "info",
    h("p", {}, "There is no log to show here."),
    h("p", { class: "help" }, error.messages.join(" ")),
  );
}

function forOperators() {
  return notice("info", "A log can hold users' data: it is only shown with the token of rest.operate-token.");
}
