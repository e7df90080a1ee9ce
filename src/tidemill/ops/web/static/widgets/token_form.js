// @ts-check
// The form for the token of a server that requires one.

import { h } from "../core/dom.js";

/**
 * The form; `take(token)` receives the token.
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
    h("h1", { tabindex: "-1" }, "A token is required"),
    wasRefused &&
      h("p", { class: "notice notice-error", role: "alert" }, "The server does not accept the token of this page."),
    h("label", { for: "token" }, "Token"),
    field,
    h(
      "p",
      { id: "token-help", class: "help" },
      h("code", {}, "tidemill page JOB"),
      " prints an address that contains it. It is also in the file or the environment variable specified by ",
      h("code", {}, "rest.operate-token"),
      ", or by ",
      h("code", {}, "rest.read-token"),
      " for read-only access.",
    ),
    h("p", { class: "help" }, "It is kept until this tab is closed."),
    h("button", { type: "submit", class: "button button-main" }, "Open"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) take(field.value.trim());
  });
  requestAnimationFrame(() => field.focus());
  return form;
}
