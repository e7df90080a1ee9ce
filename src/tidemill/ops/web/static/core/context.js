// @ts-check
// What the page hands to its views, as types. No script loads this module at run time.

/** @import { JobDetails, JobEvent } from "./answers.js" */

/**
 * What every view gets: the REST server, a way to speak to screen readers, and whether the token may change jobs.
 *
 * @typedef {{
 *   api: typeof import("./api.js"),
 *   announce: (text: string) => void,
 *   readonly mayOperate: boolean,
 * }} PageContext
 */

/**
 * What the views of one job get. `job` is the job as last seen, `live` the last event, `now()` the driver's time or the
 * time the job ended. `refresh()` asks for the job again.
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
 * A view that is shown: `update` takes each event of the job.
 *
 * @typedef {{ update?: (message: JobEvent) => void, unmount?: () => void }} MountedView
 */

/**
 * A module of a view.
 *
 * @typedef {{ title: string, mount: (root: HTMLElement, context: JobContext) => MountedView }} View
 */

export {};
