// @ts-check
// Asynchronous operations of a job: one request starts an operation, others poll its result until it has completed.

import { sleep, statusOf } from "../core/api.js";

/** @import { OperationAnswer } from "../core/answers.js" */

/** How long to wait before polling a result again, in milliseconds: short at first, then increasing. */
const FIRST = 250;
const LONGEST = 1000;
/** After how many requests without a response the driver is considered to have ended. */
const PATIENCE = 8;

/** The driver ended before it could report the result of an operation. */
export class DriverGone extends Error {}

/** An operation that failed, with the driver's message. */
export class OperationFailed extends Error {}

/** An id for a request, which can be resent if its response was lost without starting an operation twice. */
export function triggerId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The response to `request`, which is resent if there was none. The request must be safe to repeat.
 *
 * @template T
 * @param {() => Promise<T>} request
 * @returns {Promise<T>}
 */
export async function insisting(request) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await request();
    } catch (error) {
      if (!isPassing(error) || attempt === 3) throw error;
      await sleep(500 * attempt);
    }
  }
}

/**
 * The result of an operation, once it has completed: `{location}` of a savepoint, otherwise `{}`. `ask` requests it.
 *
 * @param {() => Promise<OperationAnswer>} ask
 */
export async function outcome(ask) {
  let wait = FIRST;
  let failures = 0;
  for (;;) {
    await sleep(wait);
    wait = Math.min(wait * 1.6, LONGEST);
    let answer;
    try {
      answer = await ask();
      failures = 0;
    } catch (error) {
      if (!isPassing(error)) throw error;
      failures += 1;
      if (failures === PATIENCE) throw new DriverGone();
      continue;
    }
    if (answer.status.id !== "COMPLETED") continue;
    const failure = answer.operation?.["failure-cause"];
    if (failure) throw new OperationFailed(failure["stack-trace"] || failure.class);
    return answer.operation ?? {};
  }
}

/**
 * Whether the same request may succeed later: there was no response, or its status indicates this.
 *
 * @param {unknown} error
 */
function isPassing(error) {
  return [0, 429, 503].includes(statusOf(error) ?? 0);
}
