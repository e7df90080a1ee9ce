// @ts-check
// The address of the page: "#/" is the list of jobs, "#/jobs/{id}/{view}" a view of a job. "#token=..." is removed.

/** @typedef {"graph" | "epochs" | "checkpoints" | "state" | "exceptions" | "config" | "logs"} ViewName */
/** @typedef {{ page: "job", jobId: string, view: ViewName }} JobRoute */
/** @typedef {{ page: "jobs" } | JobRoute} Route */

/** @type {readonly ViewName[]} */
export const VIEWS = ["graph", "epochs", "checkpoints", "state", "exceptions", "config", "logs"];

/**
 * The route for an address.
 *
 * @param {string} [hash]
 * @returns {Route}
 */
export function route(hash = location.hash) {
  const parts = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (parts[0] !== "jobs" || !parts[1]) return { page: "jobs" };
  return { page: "job", jobId: parts[1], view: VIEWS.find((view) => view === parts[2]) ?? "graph" };
}

/**
 * The address of a view of a job.
 *
 * @param {string} jobId
 * @param {ViewName} [view]
 */
export function addressOf(jobId, view = "graph") {
  return `#/jobs/${encodeURIComponent(jobId)}/${view}`;
}

/** The token in the address, or null. It is removed from the address and from the history. */
export function tokenOfAddress() {
  const found = /^#(.*?)[?&]?token=([^&]+)(?:&(.*))?$/.exec(location.hash);
  if (!found) return null;
  const kept = found[1].startsWith("/") ? found[1] : "/";
  history.replaceState(null, "", `${location.pathname}${location.search}#${kept}`);
  return decoded(found[2]);
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
