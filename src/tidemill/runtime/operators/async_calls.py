"""Asynchronous calls of one operator instance: an event loop, with limits on the number and duration of calls.

The loop belongs to the thread of the task and runs only inside the methods here: no other thread accesses records or
user code. Measured with minimal prototypes, with calls that await once, on two busy cores: 600 000 calls/s as here,
with one asyncio task for each unit of capacity (see ``_work``); 540 000 with the loop in a separate thread; with an
asyncio task for every record 200 000 here, and 100 000 in a separate thread. The whole operator did 290 000.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, cast

from tidemill.common.calls import NO_RECORD, was_raised
from tidemill.datastream.functions.asynchronous import AsyncFunction
from tidemill.datastream.functions.retry_strategies import AsyncRetryStrategy
from tidemill.errors import TidemillError
from tidemill.python_versions import forget_cancellation
from tidemill.runtime.operators.async_results import Call

Invoke = Callable[[Any], Awaitable[Any]]

_log = logging.getLogger(__name__)

#: The seconds that a cancelled call has to clean up. A call that takes longer has ignored its cancellation.
GRACE: Final = 30.0


class AsyncCalls:
    """Calls the function for records, in the order in which they are submitted, at most ``capacity`` at a time.

    ``completed`` is called with each call that has its results. ``failed`` creates the error to raise from the
    exception, the name of the method and the record, ``NO_RECORD`` if it is unknown. After an error, only :meth:`close`
    may be called.
    """

    def __init__(
        self,
        function: AsyncFunction,
        *,
        timeout: int,
        capacity: int,
        retry: AsyncRetryStrategy | None,
        completed: Callable[[Call], None],
        failed: Callable[[BaseException, str, Any], TidemillError],
    ) -> None:
        # configuration
        self._function = function
        self._timeout = timeout / 1000 if timeout else None
        self._capacity = capacity
        self._invoke = function.async_invoke if retry is None else _retrying(function.async_invoke, retry)
        self._completed = completed
        self._failed = failed
        # transient
        self._loop = asyncio.new_event_loop()
        # A loop has open sockets: it is closed even if this object is only garbage collected.
        self._close_loop = weakref.finalize(self, self._loop.close)
        self._waiting: deque[Call] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._running: dict[Call, asyncio.Task[None]] = {}
        self._cancelled: dict[Call, asyncio.Task[None]] = {}
        self._watchdog: asyncio.TimerHandle | None = None
        self._failure: TidemillError | None = None
        self._escaped: BaseException | None = None
        self._closing = False
        self._rested = False
        self._left = self._loop.time()
        self._stood_still = 0.0

    # --- for the task, outside the loop

    def submit(self, calls: Iterable[Call]) -> None:
        """Begin calls. Returns when all have begun; at most ``capacity`` of them are still running."""
        if self._rested:
            # Let connections detect that the other side closed them while the loop was not running.
            self._rested = False
            self._loop.call_soon(self._loop.stop)
            self._turn()
        self._waiting.extend(calls)
        self._run(until_done=False)

    def wait(self) -> None:
        """Wait until all calls are completed."""
        self._run(until_done=True)
        self._rested = True

    def call(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Call a method of the function, async or not, on the loop."""
        self._loop.run_until_complete(_awaited(method, *arguments))

    def close(self, closer: Callable[[], Any] | None) -> None:
        """Cancel all calls and wait for their end, call ``closer``, then cancel the function's other tasks."""
        if not self._close_loop.alive:
            return
        try:
            self._loop.run_until_complete(self._shut_down(closer))
        finally:
            self._close_loop()

    def _run(self, *, until_done: bool) -> None:
        self._stood_still += self._loop.time() - self._left
        try:
            while self._failure is None and (self._waiting or (until_done and self._workers)):
                for _ in range(min(len(self._waiting), self._capacity - len(self._workers))):
                    self._workers.add(self._loop.create_task(self._work()))
                self._turn()
        finally:
            self._left = self._loop.time()
        if self._watchdog is not None and not self._workers:
            self._watchdog.cancel()
            self._watchdog = None
        if self._failure is None and self._escaped is not None:
            self._failure = self._failed(self._escaped, "async_invoke", NO_RECORD)
        if self._failure is not None:
            raise self._failure

    def _turn(self) -> None:
        """Run the loop until something stops it.

        The loop also ends with the ``SystemExit`` of any task, for example one that the function created. If a call
        awaits that task, it receives the exception too, and fails with it when the loop continues.
        """
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            if not _of_function(error):
                raise
            self._escaped = error

    # --- on the loop

    async def _work(self) -> None:
        """Run waiting calls one after the other. There are at most ``capacity`` such workers."""
        worker = _current_task()
        waiting = self._waiting
        try:
            while waiting and self._failure is None:
                call = waiting.popleft()
                if not waiting:
                    self._loop.stop()  # all calls have begun: return to the task
                self._begin(call, worker)
                error: BaseException | None = None
                results: list[Any] = []
                try:
                    results = _checked(await self._invoke(call.value), "async_invoke")
                except asyncio.CancelledError as cancelled:
                    if self._closing:
                        raise
                    error = cancelled  # it timed out, or something that it awaited was cancelled
                except BaseException as raised:
                    if not _of_function(raised):
                        raise
                    error = raised
                if self._closing:
                    return
                self._end(call, worker, results, error)
        finally:
            self._workers.discard(worker)
            if not self._workers and not self._closing:
                self._loop.stop()

    def _begin(self, call: Call, worker: asyncio.Task[None]) -> None:
        if self._timeout is not None:
            call.deadline = self._now() + self._timeout
            self._running[call] = worker
            if self._watchdog is None:
                self._watchdog = self._loop.call_later(self._timeout, self._watch)

    def _end(self, call: Call, worker: asyncio.Task[None], results: list[Any], error: BaseException | None) -> None:
        method = "async_invoke"
        if self._timeout is not None:
            self._running.pop(call, None)
            self._cancelled.pop(call, None)
            # A call that blocked the loop is late although it was not cancelled.
            if not call.wanted or self._now() >= call.deadline:
                forget_cancellation(worker)
                method, error = "timeout", None
                try:
                    results = _checked(self._function.timeout(call.value), method)
                except BaseException as raised:
                    if not _of_function(raised):
                        raise
                    error = raised
        if error is not None:
            self._fail(error, method, call)
        else:
            call.results = results
            try:
                self._completed(call)
            except Exception as problem:  # a result that cannot be copied
                self._fail(problem, method, call)

    # --- timeouts

    def _now(self) -> float:
        """The clock of timeouts. It stops with the loop: a response that could not be received is not late."""
        return self._loop.time() - self._stood_still

    def _watch(self) -> None:
        """Cancel late calls. All have the same timeout, so the call that began first is the first to be late."""
        self._watchdog = None
        now = self._now()
        while self._running and (call := next(iter(self._running))).deadline <= now:
            worker = self._cancelled[call] = self._running.pop(call)
            call.wanted, call.deadline = False, now + GRACE
            worker.cancel()
        ignoring = next(iter(self._cancelled), None)
        if ignoring is not None and ignoring.deadline <= now:
            problem = TimeoutError(f"async_invoke() was cancelled, but has not ended {GRACE:g} seconds later")
            self._fail(problem, "async_invoke", ignoring)
            return
        deadlines = [next(iter(calls)).deadline for calls in (self._running, self._cancelled) if calls]
        if deadlines:
            self._watchdog = self._loop.call_later(min(deadlines) - now, self._watch)

    def _fail(self, error: BaseException, method: str, call: Call) -> None:
        if self._failure is None:
            self._failure = self._failed(error, method, call.value)
            self._failure.__cause__ = error
        self._loop.stop()

    # --- the end

    async def _shut_down(self, closer: Callable[[], Any] | None) -> None:
        self._closing = True
        self._waiting.clear()
        if self._watchdog is not None:
            self._watchdog.cancel()
        try:
            await _cancel(self._workers)
            if closer is not None:
                await _awaited(closer)
        finally:
            await _cancel(asyncio.all_tasks() - {_current_task()})
            await self._loop.shutdown_asyncgens()
            await self._loop.shutdown_default_executor()


def _retrying(invoke: Invoke, strategy: AsyncRetryStrategy) -> Invoke:
    """Return a function that retries calls according to the strategy. The last results or exception count."""
    predicate = strategy.get_retry_predicate()
    again_after_results, again_after_error = predicate.result_predicate(), predicate.exception_predicate()

    async def invoke_until_good(value: Any) -> Any:
        attempts = 1
        while True:
            results, error = None, None
            try:
                results = await invoke(value)
            except Exception as raised:
                error = raised
            if error is not None:
                again = again_after_error is not None and again_after_error(error)
            else:
                again = results is not None and again_after_results is not None and again_after_results(results)
            if not again or not strategy.can_retry(attempts):
                if error is not None:
                    raise error
                return results
            await asyncio.sleep(strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    return invoke_until_good


def _current_task() -> asyncio.Task[Any]:
    return cast("asyncio.Task[Any]", asyncio.current_task())


def _of_function(error: BaseException) -> bool:
    """Whether a function raised the exception itself. An interrupt or the end of a coroutine has other causes."""
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit)) or was_raised(error)


async def _awaited(method: Callable[..., Any], *arguments: Any) -> None:
    result = method(*arguments)
    if inspect.isawaitable(result):
        await result


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end, for a limited time."""
    tasks = set(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        ended, going_on = await asyncio.wait(tasks, timeout=GRACE)
        for task in ended:
            if not task.cancelled():
                task.exception()  # mark it as retrieved: relevant errors have already been reported
        if going_on:
            _log.warning("%d async calls have ignored their cancellation and are abandoned", len(going_on))


def _checked(results: Any, method: str) -> list[Any]:
    if type(results) is list:
        return results
    if isinstance(results, Iterable) and not isinstance(results, (str, bytes)):
        return list(results)
    raise TypeError(f"{method}() must return a list of results, which may be empty, not {type(results).__name__}")
