"""In which order the results of async calls leave an operator: never across a watermark, and as the program asked."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: What lies between records: moves event time on, when its turn comes.
Mark = Callable[[], None]


class Call:
    """A record whose function is called; ``results`` is None until it has an answer."""

    __slots__ = ("deadline", "results", "segment", "timestamp", "value", "wanted")

    segment: CallSegment

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] | None = None
        #: On the clock of the calls; after it the answer is not waited for.
        self.deadline = 0.0
        #: False once the call was cancelled because it took too long.
        self.wanted = True


class Results(abc.ABC):
    """Calls and marks in the order they came, until it is their turn to leave."""

    @abc.abstractmethod
    def add(self, calls: Iterable[Call]) -> None:
        """More calls begin."""

    @abc.abstractmethod
    def add_mark(self, mark: Mark) -> None:
        """All calls so far come before the mark, all later ones after it."""

    @abc.abstractmethod
    def completed(self, call: Call) -> None:
        """A call has its results."""

    @abc.abstractmethod
    def take(self) -> Iterator[list[Call] | Mark]:
        """What may leave now, in its order; it is forgotten."""


class OrderedResults(Results):
    """All in the order they came."""

    def __init__(self) -> None:
        self._waiting: deque[Call | Mark] = deque()

    def add(self, calls: Iterable[Call]) -> None:
        self._waiting.extend(calls)

    def add_mark(self, mark: Mark) -> None:
        self._waiting.append(mark)

    def completed(self, call: Call) -> None:
        """Its results are in the call."""

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
    """The calls between two marks: those that are done in the order of their answers, and the mark that follows."""

    __slots__ = ("done", "mark", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self.done: list[Call] = []
        self.mark: Mark | None = None


class UnorderedResults(Results):
    """Calls between the same marks in the order of their answers."""

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
