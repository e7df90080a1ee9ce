// @ts-check
// Asks for the token of a server that requires one.

import { h } from "../core/dom.js";

/**
 * The form; `take(token)` receives what was entered.
 *
 * @param {boolean} wasRefused
 * @param {(token: string) => void} take
 */
export function tokenForm(wasRefused, take) {
  const field = h("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "token-help",
  });
  const form = h(
    "form",
    { class: "panel token-form" },
    h("h1", { tabindex: "-1" }, "A token is needed"),
    wasRefused &&
      h("p", { class: "notice notice-error", role: "alert" }, "The server does not take the token that this page had."),
    h("label", { for: "token" }, "Token"),
    field,
    h(
      "p",
      { id: "token-help", class: "help" },
      h("code", {}, "tidemill page JOB"),
      " prints an address that holds it. It is also in the file or the environment variable that ",
      h("code", {}, "rest.operate-token"),
      " names, or ",
      h("code", {}, "rest.read-token"),
      " for one that may only look.",
    ),
    h("p", { class: "help" }, "It is kept in this tab until the tab is closed."),
    h("button", { type: "submit", class: "button button-main" }, "Open"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) take(field.value.trim());
  });
  requestAnimationFrame(() => field.focus());
  return form;
}
