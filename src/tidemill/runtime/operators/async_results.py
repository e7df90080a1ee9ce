"""The order in which an operator emits the results of async calls: as configured, and never across a watermark."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: An action between records, such as a watermark, which is run in their order.
Mark = Callable[[], None]


class Call:
    """An asynchronous call for a record; ``results`` is None until it is completed."""

    __slots__ = ("deadline", "results", "segment", "timestamp", "value", "wanted")

    segment: CallSegment

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] | None = None
        #: The time, on the clock of the calls, at which the call times out.
        self.deadline = 0.0
        #: False once the call was cancelled because it took too long.
        self.wanted = True


class Results(abc.ABC):
    """Calls and marks, until they can be emitted."""

    @abc.abstractmethod
    def add(self, calls: Iterable[Call]) -> None:
        """Add calls that begin."""

    @abc.abstractmethod
    def add_mark(self, mark: Mark) -> None:
        """Add a mark, which separates all calls so far from all later ones."""

    @abc.abstractmethod
    def completed(self, call: Call) -> None:
        """Called when a call has its results."""

    @abc.abstractmethod
    def take(self) -> Iterator[list[Call] | Mark]:
        """Remove and return what can be emitted now, in order."""


class OrderedResults(Results):
    """Emits all results in the order of the calls."""

    def __init__(self) -> None:
        self._waiting: deque[Call | Mark] = deque()

    def add(self, calls: Iterable[Call]) -> None:
        self._waiting.extend(calls)

    def add_mark(self, mark: Mark) -> None:
        self._waiting.append(mark)

    def completed(self, call: Call) -> None:
        """Nothing to do: the call contains its results."""

    def take(self) -> Iterator[list[Call] | Mark]:
        waiting = self._waiting
        ready: list[Call] = []
        while waiting:
            first = waiting[0]
            if isinstance(first, Call):
                if first.results is None:
                    break
                ready.append(first)
                waiting.popleft()
            else:
                if ready:
                    yield ready
                    ready = []
                waiting.popleft()
                yield first
        if ready:
            yield ready


class CallSegment:
    """The calls between two marks: those that are completed, in order of completion, and the mark that follows."""

    __slots__ = ("done", "mark", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self.done: list[Call] = []
        self.mark: Mark | None = None


class UnorderedResults(Results):
    """Emits the results of calls between the same marks in order of completion."""

    def __init__(self) -> None:
        self._segments = deque([CallSegment()])

    def add(self, calls: Iterable[Call]) -> None:
        last = self._segments[-1]
        for call in calls:
            call.segment = last
            last.pending += 1

    def add_mark(self, mark: Mark) -> None:
        self._segments[-1].mark = mark
        self._segments.append(CallSegment())

    def completed(self, call: Call) -> None:
        call.segment.pending -= 1
        call.segment.done.append(call)

    def take(self) -> Iterator[list[Call] | Mark]:
        while True:
            first = self._segments[0]
            if first.done:
                ready, first.done = first.done, []
                yield ready
            if first.pending or first.mark is None:
                return
            self._segments.popleft()
            yield first.mark
