// What takes a job some time: begun by one request, asked after by others until it is over.

/** How long to wait before an operation is asked after again, in milliseconds: soon at first, then less and less often. */
const FIRST = 250;
const LONGEST = 5000;
/** How often to ask in vain before the driver is taken for gone. */
const PATIENCE = 6;

/** The driver was gone before it could be asked how an operation ended. */
export class DriverGone extends Error {}

/** An operation that failed, in the driver's words. */
export class OperationFailed extends Error {}

/** An id for a request, so that it can be sent again when its answer was lost, and begins nothing twice. */
export function triggerId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What `request` answers; it is sent again if there was no answer, which it must allow. */
export async function insisting(request) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await request();
    } catch (error) {
      if (!isPassing(error) || attempt === 3) throw error;
      await pause(500 * attempt);
    }
  }
}

/** What came of an operation, once it is over: `{location}` of a savepoint, otherwise `{}`. `ask` asks after it. */
export async function outcome(ask) {
  let wait = FIRST;
  let failures = 0;
  for (;;) {
    await pause(wait);
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

/** Whether an error may be gone when the same is asked again: no answer at all, or one that says so. */
function isPassing(error) {
  return !error.status || error.status === 429 || error.status === 503;
}

function pause(millis) {
  return new Promise((resolve) => setTimeout(resolve, millis));
}
