// @ts-check
// The page: its header, the form for the token, and the view for the current address.

import * as api from "./core/api.js";
import { h, replace, setAttribute, setText } from "./core/dom.js";
import { time } from "./core/format.js";
import { route, tokenOfAddress } from "./core/router.js";
import { jobFrame } from "./views/frame.js";
import * as jobList from "./views/jobs.js";
import { icon, mark } from "./widgets/icons.js";
import { tokenForm } from "./widgets/token_form.js";

/** @import { ServerConfig } from "./core/answers.js" */
/** @import { PageContext } from "./core/context.js" */

/**
 * What is shown: the list of jobs, a job, or the form for the token.
 *
 * @typedef {{ page: "jobs", unmount: () => void }
 *   | { page: "job", jobId: string, frame: ReturnType<typeof jobFrame>, unmount: () => void }
 *   | { page: "token", unmount: () => void }
 * } Shown
 */
/** @typedef {"system" | "light" | "dark"} Theme */

const THEME = "tidemill.theme";
/** @type {readonly Theme[]} */
const THEMES = ["system", "light", "dark"];
const THEME_ICONS = /** @type {const} */ ({ system: "system", light: "sun", dark: "moon" });

const content = elementOf("content");
const announcer = elementOf("announcer");

/** @type {Shown | null} */
let shown = null;
/**
 * The server's information about itself and the permissions of the token; null until it has responded.
 *
 * @type {ServerConfig | null}
 */
let server = null;
/** @type {Promise<void> | null} */
let asking = null; // the pending request for it
let turn = 0; // counts the changes of the address
let lastContact = Date.now();

const banner = h("p", { class: "banner", role: "status", hidden: true });
const version = h("span", { class: "version" });

/** @param {string} id */
function elementOf(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no element #${id}`);
  return found;
}

/**
 * Announce a text to screen readers.
 *
 * @param {string} text
 */
function announce(text) {
  setText(announcer, "");
  requestAnimationFrame(() => setText(announcer, text));
}

function header() {
  const home = h("a", { class: "brand", href: "#/" }, mark(), h("span", {}, "Tidemill"));
  return h("div", { class: "top-line" }, home, version, h("span", { class: "stretch" }), themeSwitch());
}

function themeSwitch() {
  const root = document.documentElement;
  const button = h("button", { type: "button", class: "button button-quiet" });
  let theme = THEMES.find((one) => one === root.dataset.theme) ?? "system"; // core/theme.js has set it
  const show = () => {
    replace(button, icon(THEME_ICONS[theme]), h("span", { class: "wide-only" }, `Theme: ${theme}`));
    setAttribute(button, "aria-label", `Theme: ${theme}. Change it`);
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    setAttribute(root, "data-theme", theme === "system" ? null : theme);
    localStorage.setItem(THEME, theme);
    show();
    announce(`Theme: ${theme}`);
  });
  show();
  return button;
}

/** @param {boolean} answered */
function noteContact(answered) {
  if (answered) lastContact = Date.now();
  const was = banner.hidden;
  banner.hidden = answered;
  const frame = shown?.page === "job" ? shown.frame : null;
  frame?.contact(answered);
  if (!answered)
    setText(
      banner,
      frame?.isOver()
        ? "The driver has ended. The page shows the job as it was at its end."
        : `The driver does not respond. The page shows data from ${time(lastContact)}. Retrying.`,
    );
  else if (!was) announce("The driver responds again.");
}

function askForToken() {
  if (shown?.page === "token") return;
  const hadOne = api.token.get() !== null;
  api.token.forget();
  server = null;
  leave();
  shown = { page: "token", unmount() {} };
  replace(
    content,
    tokenForm(hadOne, (text) => {
      api.token.set(text);
      shown = null;
      follow();
    }),
  );
}

function leave() {
  shown?.unmount();
  shown = null;
}

/** Show the view for the current address. */
async function follow() {
  turn += 1;
  const mine = turn;
  if (server === null) await askServer();
  if (mine !== turn || shown?.page === "token") return;
  const wanted = route();
  if (shown?.page === "job" && wanted.page === "job" && shown.jobId === wanted.jobId) {
    shown.frame.show(wanted.view);
    return;
  }
  const first = shown === null;
  leave();
  replace(content);
  if (wanted.page === "job") {
    const frame = jobFrame(content, wanted, context);
    shown = { page: "job", jobId: wanted.jobId, frame, unmount: frame.unmount };
  } else {
    shown = { page: "jobs", unmount: jobList.mount(content, context).unmount };
  }
  if (!first) content.querySelector("h1")?.focus();
}

/** Request the server's information about itself. Concurrent calls share one request. */
function askServer() {
  asking ??= api
    .get("/config")
    .then((/** @type {ServerConfig} */ answer) => {
      server = answer;
      setText(version, answer["tidemill-version"] + (answer.features["web-history"] ? " · History" : ""));
      if (shown?.page === "job") shown.frame.granted();
    })
    .catch(() => {}) // the banner or the token form reports it; the next response of the driver triggers a retry
    .finally(() => {
      asking = null;
    });
  return asking;
}

/** @type {PageContext} */
const context = {
  api,
  announce,
  get mayOperate() {
    return server?.["may-operate"] ?? false;
  },
  get isHistory() {
    return server?.features["web-history"] ?? false;
  },
};

const found = tokenOfAddress();
if (found !== null) api.token.set(found);
api.whenRefused(askForToken);
api.whenContact((answered) => {
  noteContact(answered);
  if (answered && server === null && shown?.page !== "token") askServer();
});
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the part of the address after # is a route
  content.focus();
});
replace(elementOf("top"), header(), banner);
window.addEventListener("hashchange", () => {
  const given = tokenOfAddress();
  if (given !== null) {
    api.token.set(given);
    leave();
    server = asking = null;
  }
  follow();
});
follow();
