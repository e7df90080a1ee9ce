// Dialogs that ask before something is done.

import { h, replace, setAttribute } from "./dom.js";
import { problem } from "./parts.js";

let made = 0;

/**
 * Asks, and does it. `body` are the children of the form; `confirm` is the text of its button, which is there to be
 * pressed while `ready()` is true. `act()` is awaited with the dialog open: when it throws, its error is shown and one
 * may try again; else the dialog closes. Focus goes back to where it was.
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
    if (opener?.isConnected) opener.focus();
  });
  document.body.append(dialog);
  settle();
  dialog.showModal();
}

/** A field with its label, and a hint below that screen readers tell with it. */
export function field(label, input, hint = null) {
  const told = described(input, hint);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, told);
}

/** A checkbox with its label, and a hint below. */
export function choice(label, input, hint = null) {
  const told = described(input, hint);
  return h("div", { class: "field" }, h("div", { class: "choice" }, input, h("label", { for: input.id }, label)), told);
}

function described(input, hint) {
  made += 1;
  input.id = `field-${made}`;
  if (hint === null) return null;
  setAttribute(input, "aria-describedby", `hint-${made}`);
  return h("p", { class: "help", id: `hint-${made}` }, hint);
}
