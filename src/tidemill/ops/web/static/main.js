// The page: header, token, and what the address asks for.

import * as api from "./api.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { time } from "./format.js";
import { jobFrame } from "./frame.js";
import { icon, mark } from "./icons.js";
import { route, tokenOfAddress } from "./router.js";
import { tokenForm } from "./token_form.js";
import * as jobList from "./views/jobs.js";

const THEME = "tidemill.theme";
const content = document.getElementById("content");
const announcer = document.getElementById("announcer");

/** What is shown: {route, unmount()} of the list of jobs, or the frame of a job. */
let shown = null;
/** What the server says of itself and of what we may do; null until it has answered. */
let server = null;
let asking = null; // the request for it that is under way
let turn = 0; // counts the changes of the address
let lastContact = Date.now();

const banner = h("p", { class: "banner", role: "status", hidden: true });
const version = h("span", { class: "version" });

/** Say a thing to screen readers. */
function announce(text) {
  setText(announcer, "");
  requestAnimationFrame(() => setText(announcer, text));
}

function header() {
  const home = h("a", { class: "brand", href: "#/" }, mark(), h("span", {}, "Tidemill"));
  return h("div", { class: "top-line" }, home, version, h("span", { class: "stretch" }), themeSwitch());
}

function themeSwitch() {
  const looks = ["system", "light", "dark"];
  const icons = { system: "system", light: "sun", dark: "moon" };
  const button = h("button", { type: "button", class: "button button-quiet" });
  const show = () => {
    const look = document.documentElement.dataset.theme ?? "system";
    replace(button, icon(icons[look]), h("span", { class: "wide-only" }, `Look: ${look}`));
    setAttribute(button, "aria-label", `Look: ${look}. Change it`);
  };
  button.addEventListener("click", () => {
    const next = looks[(looks.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % looks.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    localStorage.setItem(THEME, next);
    show();
    announce(`Look: ${next}`);
  });
  show();
  return button;
}

function noteContact(answered) {
  if (answered) lastContact = Date.now();
  const was = banner.hidden;
  banner.hidden = answered;
  if (!answered)
    setText(banner, `The driver does not answer. What you see is from ${time(lastContact)}; trying again.`);
  else if (!was) announce("The driver answers again.");
}

function askForToken() {
  if (shown?.asksForToken) return;
  const hadOne = api.token.get() !== null;
  api.token.forget();
  server = null;
  leave();
  shown = { asksForToken: true };
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
  shown?.unmount?.();
  shown = null;
}

/** Show what the address asks for. */
async function follow() {
  turn += 1;
  const mine = turn;
  if (server === null) await askServer();
  if (mine !== turn || shown?.asksForToken) return;
  const wanted = route();
  if (shown?.route.page === "job" && wanted.page === "job" && shown.route.jobId === wanted.jobId) {
    shown.route = wanted;
    shown.show(wanted.view);
    return;
  }
  const first = shown === null;
  leave();
  replace(content);
  const made = wanted.page === "job" ? jobFrame(content, wanted, context) : jobList.mount(content, context);
  shown = { ...made, route: wanted };
  if (!first) content.querySelector("h1")?.focus();
}

/** Ask for what the server says of itself; those that ask meanwhile wait for the same answer. */
function askServer() {
  asking ??= api
    .get("/config")
    .then((answer) => {
      server = answer;
      setText(version, answer["tidemill-version"]);
      shown?.granted?.();
    })
    .catch(() => {}) // the banner says so, or the form asks for a token; the next answer of the driver asks again
    .finally(() => (asking = null));
  return asking;
}

/** What all views may use. */
const context = {
  api,
  announce,
  get mayOperate() {
    return server?.["may-operate"] ?? false;
  },
};

const found = tokenOfAddress();
if (found !== null) api.token.set(found);
api.whenRefused(askForToken);
api.whenContact((answered) => {
  noteContact(answered);
  if (answered && server === null && !shown?.asksForToken) askServer();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part of the address behind # is a route
  content.focus();
});
replace(document.getElementById("top"), header(), banner);
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
