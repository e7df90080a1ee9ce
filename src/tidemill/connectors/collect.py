"""Returns the records of a stream to the driver program: the sink of ``execute_and_collect``."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from tidemill.common.moved import unpickle
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter
from tidemill.datastream.functions.pickling import pickled_by_value

__all__ = ["CollectSink", "CollectedResults"]


class CollectedResults:
    """Passes results from the committer's thread to the program's; iterating blocks until there are more.

    ``finish`` ends the iteration after the remaining results, ``fail`` ends it with an error.

    >>> results = CollectedResults()
    >>> results.add(epoch=1, subtask=0, values=["a", "b"])
    >>> results.add(epoch=1, subtask=0, values=["a", "b"])  # the same commit again changes nothing
    >>> results.finish()
    >>> list(results)
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: deque[Any] = deque()
        self._committed: dict[int, int] = {}
        self._error: BaseException | None = None
        self._done = False

    def add(self, epoch: int, subtask: int, values: Sequence[Any]) -> None:
        """Add the results of one subtask and epoch, unless they have been added before."""
        with self._changed:
            if epoch <= self._committed.get(subtask, -1):
                return
            self._committed[subtask] = epoch
            self._values.extend(values)
            self._changed.notify_all()

    def finish(self) -> None:
        """Indicate that there are no more results. Has no effect if called again."""
        with self._changed:
            self._done = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Indicate that the job failed: iterating yields the remaining results, then raises ``error``."""
        with self._changed:
            if not self._done:
                self._error = error
                self._done = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._changed:
                while not self._values and not self._done:
                    self._changed.wait()
                if not self._values:
                    if self._error is not None:
                        raise self._error
                    return
                batch = list(self._values)
                self._values.clear()
            yield from batch


class CollectSink(Sink):
    """Passes committed records to ``results``, which only the program's own copy of the sink has.

    ``uid`` is the operator's uid, and the argument of the job client's ``collected(uid)``.
    """

    guarantee = "exactly-once"
    pickled_committables = True

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.results = CollectedResults()

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that pickles batches."""
        return _CollectWriter()

    def create_committer(self) -> Committer:
        """Create a committer that adds them to the results."""
        return _CollectCommitter(self.results)

    def __reduce__(self) -> tuple[Any, ...]:
        return (CollectSink, (self.uid,))


class _CollectWriter(SinkWriter):
    def __init__(self) -> None:
        self._batches: list[bytes] = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        # Pickled immediately: later changes to a record by user code must not change the result.
        try:
            batch = pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError):
            # Classes defined in the user's script can only be pickled by value, which plain pickle cannot do.
            batch = pickled_by_value(values)
        self._batches.append(batch)

    def prepare_commit(self) -> Sequence[bytes]:
        batches, self._batches = self._batches, []
        return batches

    def close(self) -> None:
        self._batches = []


class _CollectCommitter(Committer):
    def __init__(self, results: CollectedResults) -> None:
        self._results = results

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in sorted(committed, key=lambda one: (one.epoch, one.subtask)):
            values = [value for batch in part.committables for value in unpickle(batch)]
            if values:
                self._results.add(part.epoch, part.subtask, values)
