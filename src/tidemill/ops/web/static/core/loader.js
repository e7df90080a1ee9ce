// @ts-check
// Requests that are repeated: at most one at a time, and not too often.

/**
 * Loads on request: never concurrently, at most once in `pause` milliseconds, and once more for all requests that arrived
 * meanwhile. `load(signal)` shows the response or the error; `stop` aborts it.
 *
 * @param {(signal: AbortSignal) => Promise<void>} load
 * @param {number} pause
 */
export function loader(load, pause) {
  const controller = new AbortController();
  let running = false;
  let wanted = false;
  /** @type {number | undefined} */
  let timer;
  let last = -Infinity;

  async function run() {
    timer = undefined;
    running = true;
    wanted = false;
    try {
      await load(controller.signal);
    } finally {
      running = false;
      last = performance.now();
      if (wanted) ask();
    }
  }

  function ask() {
    if (controller.signal.aborted) return;
    wanted = true;
    if (running || timer !== undefined) return;
    timer = setTimeout(run, Math.max(0, last + pause - performance.now()));
  }

  return {
    ask,
    /** Loads immediately, unless loading is in progress. */
    now() {
      if (running || controller.signal.aborted) return;
      clearTimeout(timer);
      run();
    },
    stop() {
      controller.abort();
      clearTimeout(timer);
    },
  };
}
