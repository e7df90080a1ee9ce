// @ts-check
// The address of the page: "#/" is the list of jobs, "#/jobs/{id}/{view}" a view of a job, "?chart=..." a chart of the
// view of metrics. "#token=..." is removed.

/** @typedef {"graph" | "epochs" | "checkpoints" | "state" | "metrics" | "exceptions" | "config" | "logs"} ViewName */
/** @typedef {{ vertex: string, of: "sum" | "max" | "min" | "avg", metric: string }} PickedChart */
/** @typedef {{ page: "job", jobId: string, view: ViewName }} JobRoute */
/** @typedef {{ page: "jobs" } | JobRoute} Route */

/** @type {readonly ViewName[]} */
export const VIEWS = ["graph", "epochs", "checkpoints", "state", "metrics", "exceptions", "config", "logs"];
/** @type {readonly PickedChart["of"][]} */
const AGGREGATES = ["sum", "max", "min", "avg"];

/**
 * The route for an address.
 *
 * @param {string} [hash]
 * @returns {Route}
 */
export function route(hash = location.hash) {
  const parts = hash.replace(/^#\/?/, "").replace(/\?.*$/, "").split("/").map(decoded);
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

/**
 * The charts in the address: each is `chart={vertex}.{sum, max, min or avg}.{metric}`.
 *
 * @param {string} [hash]
 * @returns {PickedChart[]}
 */
export function chartsOf(hash = location.hash) {
  const query = new URLSearchParams(hash.includes("?") ? hash.slice(hash.indexOf("?") + 1) : "");
  return query.getAll("chart").flatMap((text) => {
    const [vertex, name, ...rest] = text.split(".");
    const of = AGGREGATES.find((one) => one === name);
    return vertex && of && rest.length ? [{ vertex, of, metric: rest.join(".") }] : [];
  });
}

/**
 * The address of the view of metrics with these charts.
 *
 * @param {string} jobId
 * @param {PickedChart[]} charts
 */
export function withCharts(jobId, charts) {
  const query = new URLSearchParams(charts.map(({ vertex, of, metric }) => ["chart", `${vertex}.${of}.${metric}`]));
  return addressOf(jobId, "metrics") + (charts.length ? `?${query}` : "");
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
