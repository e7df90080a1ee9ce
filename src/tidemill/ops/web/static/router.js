// What the address says: "#/" is the list of jobs, "#/jobs/{id}/{view}" a view of one. "#token=..." is taken out of it.

export const VIEWS = ["graph", "epochs", "checkpoints", "state", "exceptions", "config", "logs"];

/** The route that the address stands for: {page: "jobs"} or {page: "job", jobId, view}. */
export function route(hash = location.hash) {
  const parts = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (parts[0] !== "jobs" || !parts[1]) return { page: "jobs" };
  return { page: "job", jobId: parts[1], view: VIEWS.includes(parts[2]) ? parts[2] : "graph" };
}

/** The address of a view of a job. */
export function addressOf(jobId, view = "graph") {
  return `#/jobs/${encodeURIComponent(jobId)}/${view}`;
}

/** The token in the address, if there is one; it is no longer there afterwards, nor in the history. */
export function tokenOfAddress() {
  const found = /^#(.*?)[?&]?token=([^&]+)(?:&(.*))?$/.exec(location.hash);
  if (!found) return null;
  const kept = found[1].startsWith("/") ? found[1] : "/";
  history.replaceState(null, "", `${location.pathname}${location.search}#${kept}`);
  return decoded(found[2]);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
