"""Async I/O: concurrent calls for many records, all of which are completed at the barrier."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import groupby, repeat
from typing import Any

from tidemill.common.calls import NO_RECORD
from tidemill.datastream.program.specs import AsyncWaitSpec
from tidemill.errors import StateError, TidemillError
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.async_calls import AsyncCalls
from tidemill.runtime.operators.async_results import Call, OrderedResults, Results, UnorderedResults
from tidemill.runtime.operators.base import FunctionContext, Operator, OperatorContext
from tidemill.runtime.time.strands import Strand


class AsyncWaitOperator(Operator):
    """Begins the calls of a batch when it arrives, and emits completed results whenever it is called.

    Calls may still run while watermarks and further batches arrive, so that a slow response does not delay the next
    requests. They do not run across a barrier: ``end_epoch`` waits for all of them. So the operator has no state.
    """

    def __init__(self, spec: AsyncWaitSpec, context: OperatorContext) -> None:
        super().__init__(context)
        # configuration
        self._spec = spec
        self._function = spec.function
        # transient
        self._results: Results = OrderedResults() if spec.in_order else UnorderedResults()
        self._calls: AsyncCalls | None = None

    def functions(self) -> list[Any]:
        return [self._function]

    def open(self) -> None:
        if _a_loop_runs():
            raise TidemillError(
                f"{self.context.where} cannot be opened: an event loop is already running in this thread, and the job "
                "would block it. Run the job in another thread: asyncio.to_thread()"
            )
        calls = AsyncCalls(
            self._function,
            timeout=self._spec.timeout,
            capacity=self._spec.capacity,
            retry=self._spec.retry,
            completed=self._completed,
            failed=self._failed,
        )
        try:
            calls.call(self._function.open, _StatelessContext(self.context))
        except BaseException as error:
            calls.close(None)
            raise self.failed(error, method="open") from error
        self._calls = calls

    def close(self) -> None:
        if self._calls is not None:
            self._calls.close(self._function.close)

    def process(self, batch: Batch, input_index: int) -> None:
        stamps: Iterable[int | None] = repeat(None) if batch.timestamps is None else batch.timestamps
        calls = list(map(Call, batch.values, stamps))
        self._results.add(calls)
        self._at_work.submit(calls)
        self._emit()

    def watermark(self, watermark: int) -> None:
        self._results.add_mark(partial(super().watermark, watermark))
        self._emit()

    def watermark_status(self, idle: bool) -> None:
        self._results.add_mark(partial(super().watermark_status, idle))
        self._emit()

    def progress(self, strand: Strand, watermark: int) -> None:
        self._results.add_mark(partial(super().progress, strand, watermark))
        self._emit()

    def end_input(self) -> None:
        self._wait()

    def end_epoch(self) -> None:
        self._wait()

    @property
    def _at_work(self) -> AsyncCalls:
        if self._calls is None:
            raise StateError(f"{self.context.where} is not open")
        return self._calls

    def _wait(self) -> None:
        self._at_work.wait()
        self._emit()

    def _emit(self) -> None:
        """Emit what can be emitted. The loop does not run meanwhile, so the next operator may run its own loop."""
        for ready in self._results.take():
            if isinstance(ready, list):
                for stamped, calls in groupby(ready, _has_timestamp):
                    self._emit_results(calls, stamped=stamped)
            else:
                ready()

    def _emit_results(self, calls: Iterable[Call], *, stamped: bool) -> None:
        values: list[Any] = []
        timestamps: list[Any] = []
        for call in calls:
            results = call.results or ()
            values += results
            timestamps += [call.timestamp] * len(results)
        self.output.emit(values, timestamps if stamped else None)

    def _completed(self, call: Call) -> None:
        """Capture the results, which may have to wait for others."""
        results: list[Any] = []
        self.output.emissions.extend_of(results)(call.results or ())
        call.results = results
        self._results.completed(call)

    def _failed(self, error: BaseException, method: str, record: Any) -> TidemillError:
        return self.failed(error, method=method, record=record, with_record=record is not NO_RECORD)


class _StatelessContext(FunctionContext):
    """The context of an async function. It has no keyed state: calls for several keys run at the same time."""

    def _keyed_state(self, state_descriptor: Any) -> Any:
        raise StateError(
            f"{self._context.where} asked for keyed state {state_descriptor.name!r}, but an async function has none: "
            "use a keyed process function before or after it"
        )


def _has_timestamp(call: Call) -> bool:
    return call.timestamp is not None


def _a_loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
