"""What the tests of async I/O share: small jobs, and functions whose calls end in an order that is known."""

from __future__ import annotations

import asyncio
import selectors
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tidemill.common import Time
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidemill.testing import JobHarness

Env = StreamExecutionEnvironment
LONG = Time.seconds(300)
#: For calls of which some are late, and others must not be: by the clock of a test, see :class:`LoopClock`.
MEDIUM = Time.milliseconds(300)
#: For calls that are all late.
SHORT = Time.milliseconds(40)


class LoopClock(selectors.DefaultSelector):
    """The time of event loops, which passes only when all that they run waits for a time to come.

    So it does not matter how long a busy machine takes for a call. While the clock is ``held`` no time passes: for what
    threads do, of which a loop knows nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.held = False

    def time(self) -> float:
        """In seconds, as asyncio's loops tell it."""
        return self.now

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        found = super().select(0.005 if self.held else 0)
        if not found and not self.held:
            self.now += timeout
        return found

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """A loop that goes by this clock; there is one at a time."""
        loop = asyncio.SelectorEventLoop(self)
        loop.time = self.time  # type: ignore[method-assign]
        return loop


def wait(
    function: AsyncFunction,
    *,
    in_order: bool = True,
    timeout: Time = LONG,
    retry: AsyncRetryStrategy | None = None,
    **options: Any,
) -> Callable[[DataStream], DataStream]:
    """What a harness runs."""
    if retry is None:
        plain = AsyncDataStream.ordered_wait if in_order else AsyncDataStream.unordered_wait
        return lambda stream: plain(stream, function, timeout, **options)
    again = AsyncDataStream.ordered_wait_with_retry if in_order else AsyncDataStream.unordered_wait_with_retry
    return lambda stream: again(stream, function, timeout, retry, **options)


def run_all(values: list[Any], function: AsyncFunction, **options: Any) -> list[Any]:
    """The results of a small job: all values in one epoch, in one subtask."""

    def build(env: Env, values: DataStream) -> DataStream:
        return wait(function, **options)(values)

    with JobHarness(build, inputs=["values"], parallelism=1) as job:
        job.epoch(values=values)
        return job.output()


both_orders = pytest.mark.parametrize("in_order", [True, False], ids=["ordered", "unordered"])


class After(AsyncFunction):
    """Takes ``(name, other)`` and answers when the call of ``other`` has ended, so that tests know the order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.log: list[str] = []

    async def async_invoke(self, value: tuple[str, str | None]) -> list[Any]:
        name, other = value
        self.log.append(f"{name} begins")
        if other is not None:
            await self.ended[other].wait()
        self.log.append(f"{name} ends")
        self.ended[name].set()
        return [name]


class Double(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0)
        return [2 * value]
