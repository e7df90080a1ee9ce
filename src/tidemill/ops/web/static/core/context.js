// @ts-check
// The types of what the page passes to its views. No script loads this module at run time.

/** @import { JobDetails, JobEvent } from "./answers.js" */

/**
 * The context of every view: the REST server, announcements for screen readers, whether the token may change jobs, and
 * whether the server shows a history.
 *
 * @typedef {{
 *   api: typeof import("./api.js"),
 *   announce: (text: string) => void,
 *   readonly mayOperate: boolean,
 *   readonly isHistory: boolean,
 * }} PageContext
 */

/**
 * The context of the views of one job. `job` is the job as last received, `live` the last event, `now()` the driver's
 * time or the time when the job ended. `refresh()` requests the job again.
 *
 * @typedef {PageContext & {
 *   jobId: string,
 *   job: JobDetails,
 *   live: JobEvent | null,
 *   now: () => number,
 *   refresh: () => void,
 * }} JobContext
 */

/**
 * A mounted view: `update` is called with each event of the job.
 *
 * @typedef {{ update?: (message: JobEvent) => void, unmount?: () => void }} MountedView
 */

/**
 * A module of a view. `answers(path)` are the paths that it requests for the job with this path, which are requested when
 * the job ends, so that the view can also be opened when the driver has ended; of those in `secrets(path)` only if the
 * token permits it.
 *
 * @typedef {{
 *   title: string,
 *   mount: (root: HTMLElement, context: JobContext) => MountedView,
 *   answers?: (path: string) => string[],
 *   secrets?: (path: string) => string[],
 * }} View
 */

export {};
