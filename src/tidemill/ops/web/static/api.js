// The REST server of the driver that served this page: requests with the token, and the stream of a job's events.

const KEY = "tidemill.token";
const CHANGE_HEADER = "X-Tidemill-Request";
/** Milliseconds after which a request, and a stream that says nothing, is given up. The server says something each 15 s. */
const PATIENCE = 20_000;
const SILENCE = 40_000;
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 15_000];

/** An answer that is an error (`status`, 0 if there was no answer at all) with what the server says of it. */
export class ApiError extends Error {
  constructor(status, messages) {
    super(messages.join(" "));
    this.name = "ApiError";
    this.status = status;
    this.messages = messages;
  }
}

/** The token, which lives as long as this tab. */
export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

let onRefused = () => {};
let onContact = () => {};

/** Be told when a token is needed, or another one. */
export function whenRefused(tell) {
  onRefused = tell;
}

/** Be told with each request whether the driver answered: tell(true) or tell(false). */
export function whenContact(tell) {
  onContact = tell;
}

/** `revive` is for JSON.parse: it makes the values of the answer. */
export const get = (path, { signal, revive } = {}) => ask("GET", path, undefined, signal, revive);
export const post = (path, body, { signal } = {}) => ask("POST", path, body, signal);
export const patch = (path, body, { signal } = {}) => ask("PATCH", path, body, signal);

async function ask(method, path, body, signal, revive) {
  const patience = AbortSignal.timeout(PATIENCE);
  const response = await send(method, path, body, signal ? AbortSignal.any([signal, patience]) : patience);
  return revive ? JSON.parse(await response.text(), revive) : await response.json();
}

async function send(method, path, body, signal) {
  const headers = { Accept: "application/json" };
  const used = token.get();
  if (used) headers.Authorization = `Bearer ${used}`;
  if (method !== "GET") headers[CHANGE_HEADER] = "page";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    // Relative to the page: a proxy may serve it below a path of its own.
    response = await fetch(`.${path}`, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    onContact(false);
    throw new ApiError(0, ["The driver does not answer."]);
  }
  onContact(true);
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  const messages = Array.isArray(told.errors) ? told.errors : [`The answer was ${response.status}.`];
  if (response.status === 401 && used === token.get()) onRefused(); // not if another one was given meanwhile
  throw new ApiError(response.status, messages);
}

/**
 * Read the events of a job until `signal` is aborted or the job is over: `onMessage(message)` for each, `onState(state,
 * why)` with "live", "reconnecting", "gone" (the driver does not know the job), "refused" or "ended". A stream that
 * breaks is opened again, later and later if that does not help.
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
      if (error.status === 401 || error.status === 403) return onState("refused");
      if (error.status === 404) pause = LONGEST_PAUSE; // another driver answers: it may still start the job
      onState(error.status === 404 ? "gone" : "reconnecting", error.message);
    }
    if (signal.aborted) return;
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(LONGEST_PAUSE, pause * 2);
  }
}

async function* stream(path, signal) {
  const silence = new AbortController();
  let watch = setTimeout(() => silence.abort(), SILENCE);
  try {
    const response = await send("GET", path, undefined, AbortSignal.any([signal, silence.signal]));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(() => silence.abort(), SILENCE);
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) yield parsed(part);
    }
  } finally {
    clearTimeout(watch);
  }
}

function parsed(text) {
  const event = { name: "", data: "" };
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) event.name = line.slice(7);
    else if (line.startsWith("data: ")) event.data += line.slice(6);
  }
  return event;
}

/** Wait, or until `signal` is aborted. */
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
