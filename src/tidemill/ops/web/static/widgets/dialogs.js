// @ts-check
// Dialogs that ask for confirmation.

import { h, replace, setAttribute } from "../core/dom.js";
import { problem } from "./parts.js";

/** @import { Child } from "../core/dom.js" */

/**
 * The content of a dialog. `body` are the children of its form; `confirm` is the text of its button, which is enabled
 * while `ready()` is true. `act()` performs the action.
 *
 * @typedef {{
 *   title: string,
 *   body: Child[],
 *   confirm: string,
 *   danger?: boolean,
 *   ready?: () => boolean,
 *   act: () => Promise<void>,
 * }} Question
 */

let made = 0;

/**
 * Shows a dialog, and acts when the user confirms. `act()` is awaited with the dialog open: if it throws, the error is
 * shown and the user can try again; otherwise the dialog closes. Focus returns to the previous element.
 *
 * @param {Question} question
 */
export function ask({ title, body, confirm, danger = false, ready = () => true, act }) {
  made += 1;
  const id = `dialog-${made}`;
  const failure = h("div", { class: "dialog-failure" });
  const go = h("button", { type: "submit", class: danger ? "button button-danger" : "button button-main" }, confirm);
  const away = h("button", { type: "button", class: "button" }, "Back");
  const form = h("form", {}, ...body, failure, h("div", { class: "dialog-buttons" }, away, go));
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": id }, h("h2", { id }, title), form);
  const opener = document.activeElement;

  const life = new AbortController();
  let busy = false;

  const settle = () => (go.disabled = busy || !ready());
  form.addEventListener("input", settle);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    busy = true;
    settle();
    setAttribute(form, "aria-busy", "true");
    replace(failure);
    try {
      await act();
      dialog.close();
    } catch (error) {
      replace(failure, problem(error));
    }
    busy = false;
    settle();
    setAttribute(form, "aria-busy", null);
  });
  away.addEventListener("click", () => dialog.close());
  window.addEventListener("hashchange", () => dialog.close(), { signal: life.signal });
  dialog.addEventListener("close", () => {
    life.abort();
    dialog.remove();
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
  });
  document.body.append(dialog);
  settle();
  dialog.showModal();
}

/**
 * A field with its label, and a hint below it that screen readers read with the field: {element, hint}.
 *
 * @param {string} label
 * @param {HTMLInputElement} input
 * @param {string} [text]
 */
export function field(label, input, text) {
  const hint = described(input, text);
  return { hint, element: h("div", { class: "field" }, h("label", { for: input.id }, label), input, hint) };
}

/**
 * A checkbox with its label, and a hint below it.
 *
 * @param {string} label
 * @param {HTMLInputElement} input
 * @param {string} text
 */
export function choice(label, input, text) {
  const hint = described(input, text);
  return h("div", { class: "field" }, h("div", { class: "choice" }, input, h("label", { for: input.id }, label)), hint);
}

/**
 * Adds an id and a hint to an input; without a text the hint is empty and hidden.
 *
 * @param {HTMLInputElement} input
 * @param {string} [text]
 */
function described(input, text) {
  made += 1;
  input.id = `field-${made}`;
  const hint = h("p", { class: "help", id: `hint-${made}`, hidden: text === undefined }, text);
  if (text !== undefined) setAttribute(input, "aria-describedby", hint.id);
  return hint;
}
