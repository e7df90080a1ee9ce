// @ts-check
// Access to the REST server that served this page: requests with the token, and the stream of a job's events.

/** @import { JobEvent } from "./answers.js" */

/** @typedef {"GET" | "POST" | "PATCH"} Method */
/** @typedef {(this: unknown, name: string, value: any, context?: { source?: string }) => unknown} Reviver */
/** @typedef {"live" | "reconnecting" | "gone" | "refused" | "ended"} StreamState */

const KEY = "tidemill.token";
const CHANGE_HEADER = "X-Tidemill-Request";
/** Timeouts of a request, and of a stream without data, in milliseconds. The server sends something every 15 s. */
const PATIENCE = 20_000;
const SILENCE = 40_000;
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 15_000];

/** An error response with its `status` (0 if there was no response at all) and the server's messages. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string[]} messages
   */
  constructor(status, messages) {
    super(messages.join(" "));
    this.name = "ApiError";
    this.status = status;
    this.messages = messages;
  }
}

/**
 * The HTTP status of an error: 0 if the driver did not respond, null if the error is not that of a request.
 *
 * @param {unknown} error
 * @returns {number | null}
 */
export function statusOf(error) {
  return error instanceof Error && "status" in error ? Number(error.status) : null;
}

/**
 * The message of an error.
 *
 * @param {unknown} error
 * @returns {string}
 */
export function messageOf(error) {
  if (error instanceof ApiError && error.messages.length) return error.messages.join(" ");
  if (error instanceof TypeError) return "The driver does not respond: it has ended, or cannot be reached.";
  return (error instanceof Error && error.message) || String(error);
}

/**
 * Whether an error is that of a request that was aborted.
 *
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof Error && error.name === "AbortError";
}

/** The token, which is kept until the tab is closed. */
export const token = {
  get: () => sessionStorage.getItem(KEY),
  /** @param {string} text */
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/**
 * The last response to each GET request, by its path, or null if responses are not kept.
 *
 * @type {Map<string, string> | null}
 */
let kept = null;
/** @type {() => void} */
let onRefused = () => {};
/** @type {(answered: boolean) => void} */
let onContact = () => {};

/**
 * Call `listener` when a token, or a different one, is required.
 *
 * @param {() => void} listener
 */
export function whenRefused(listener) {
  onRefused = listener;
}

/**
 * Call `listener` after each request, with whether the driver responded.
 *
 * @param {(answered: boolean) => void} listener
 */
export function whenContact(listener) {
  onContact = listener;
}

/**
 * Keep the responses to GET requests from now on, and use them if the driver does not respond: the job has ended, so they
 * will not change. `paths` are requested now. Without paths, responses are no longer kept.
 *
 * @param {string[]} [paths]
 */
export function keepAnswers(paths) {
  kept = paths ? (kept ?? new Map()) : null;
  for (const path of paths ?? []) get(path).catch(() => {}); // what was not received is requested again when it is shown
}

/**
 * The response to a request. The caller declares its type; `revive` is passed to JSON.parse to convert values.
 *
 * @template T
 * @param {string} path
 * @param {{ signal?: AbortSignal, revive?: Reviver }} [options]
 * @returns {Promise<T>}
 */
export function get(path, { signal, revive } = {}) {
  return ask("GET", path, undefined, signal, revive);
}

/**
 * @template T
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<T>}
 */
export function post(path, body) {
  return ask("POST", path, body);
}

/**
 * @template T
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<T>}
 */
export function patch(path, body) {
  return ask("PATCH", path, body);
}

/**
 * @param {Method} method
 * @param {string} path
 * @param {object} [body]
 * @param {AbortSignal} [signal]
 * @param {Reviver} [revive]
 */
async function ask(method, path, body, signal, revive) {
  const patience = AbortSignal.timeout(PATIENCE);
  const text = await textOf(method, path, body, signal ? AbortSignal.any([signal, patience]) : patience);
  return JSON.parse(text, revive);
}

/**
 * The text of a response, or of the one that was kept.
 *
 * @param {Method} method
 * @param {string} path
 * @param {object | undefined} body
 * @param {AbortSignal} signal
 */
async function textOf(method, path, body, signal) {
  try {
    const text = await (await send(method, path, body, signal)).text();
    if (method === "GET") kept?.set(path, text);
    return text;
  } catch (error) {
    const before = method === "GET" && statusOf(error) === 0 ? kept?.get(path) : undefined;
    if (before === undefined) throw error;
    return before;
  }
}

/**
 * @param {Method} method
 * @param {string} path
 * @param {object | undefined} body
 * @param {AbortSignal} signal
 */
async function send(method, path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  const used = token.get();
  if (used) headers.Authorization = `Bearer ${used}`;
  if (method !== "GET") headers[CHANGE_HEADER] = "page";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    // Relative to the page, because a proxy may serve it below another path.
    response = await fetch(`.${path}`, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch (error) {
    if (isAborted(error)) throw error;
    onContact(false);
    throw new ApiError(0, ["The driver does not respond."]);
  }
  onContact(true);
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const messages = Array.isArray(answer.errors) ? answer.errors : [`The driver responded with status ${response.status}.`];
  if (response.status === 401 && used === token.get()) onRefused(); // unless the user entered another token meanwhile
  throw new ApiError(response.status, messages);
}

/**
 * Read the events of a job until `signal` is aborted or the job has ended. Calls `onMessage(message)` for each event, and
 * `onState(state, why)` with "live", "reconnecting", "gone" (the driver does not know the job), "refused" or "ended". A
 * broken stream is reopened, with increasing pauses if that fails.
 *
 * @param {string} jobId
 * @param {(message: JobEvent) => void} onMessage
 * @param {AbortSignal} signal
 * @param {(state: StreamState, why?: string) => void} [onState]
 * @returns {Promise<void>}
 */
export async function events(jobId, onMessage, signal, onState = () => {}) {
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    try {
      for await (const event of stream(`/jobs/${encodeURIComponent(jobId)}/events`, signal)) {
        onState("live");
        pause = FIRST_PAUSE;
        if (event.name === "end") return onState("ended");
        if (event.name === "job") onMessage(JSON.parse(event.data));
      }
      if (!signal.aborted) onState("reconnecting");
    } catch (error) {
      if (signal.aborted) return;
      const status = statusOf(error);
      if (status === 401 || status === 403) return onState("refused");
      if (status === 404) pause = LONGEST_PAUSE; // another driver responds, which may still start the job
      onState(status === 404 ? "gone" : "reconnecting", messageOf(error));
    }
    if (signal.aborted) return;
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(LONGEST_PAUSE, pause * 2);
  }
}

/**
 * @param {string} path
 * @param {AbortSignal} signal
 */
async function* stream(path, signal) {
  const silence = new AbortController();
  let watch = setTimeout(() => silence.abort(), SILENCE);
  try {
    const response = await send("GET", path, undefined, AbortSignal.any([signal, silence.signal]));
    if (response.body === null) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(() => silence.abort(), SILENCE);
      const parts = (rest + value).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) yield parsed(part);
    }
  } finally {
    clearTimeout(watch);
  }
}

/** @param {string} text */
function parsed(text) {
  const event = { name: "", data: "" };
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) event.name = line.slice(7);
    else if (line.startsWith("data: ")) event.data += line.slice(6);
  }
  return event;
}

/**
 * Wait for a time, or until `signal` is aborted.
 *
 * @param {number} millis
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(millis, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, millis);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
