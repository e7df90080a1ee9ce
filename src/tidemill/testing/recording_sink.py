"""A sink that keeps the committed records for a test to inspect."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle

from tidemill.checkpoint.model import Epoch
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter


class Recording:
    """Committed records by epoch and subtask. A repeated commit has no effect."""

    def __init__(self) -> None:
        self._committed: dict[tuple[int, int], list[Any]] = {}

    def add(self, epoch: Epoch, subtask: int, values: list[Any]) -> None:
        """Add the records that one subtask committed in one epoch."""
        self._committed.setdefault((epoch, subtask), values)

    def values(self) -> list[Any]:
        """Return all committed records, ordered by epoch and subtask, and for each subtask in the order of writing."""
        return [value for place in sorted(self._committed) for value in self._committed[place]]

    def by_subtask(self) -> dict[int, list[Any]]:
        """Return the committed records of each subtask, for all epochs."""
        found: dict[int, list[Any]] = {}
        for (_, subtask), values in sorted(self._committed.items(), key=lambda item: item[0]):
            found.setdefault(subtask, []).extend(values)
        return found

    def by_epoch(self) -> dict[int, list[Any]]:
        """Return the committed records of each epoch that has any."""
        found: dict[int, list[Any]] = {}
        for (epoch, _), values in sorted(self._committed.items(), key=lambda item: item[0]):
            found.setdefault(epoch, []).extend(values)
        return found


class RecordingSink(Sink):
    """Writes to a :class:`Recording`, with exactly-once semantics."""

    guarantee = "exactly-once"
    pickled_committables = True

    def __init__(self, recording: Recording | None) -> None:
        self._recording = recording

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that keeps batches until the barrier."""
        return _RecordingWriter()

    def create_committer(self) -> Committer | None:
        """Create a committer that adds the batches to the recording."""
        return None if self._recording is None else _RecordingCommitter(self._recording)

    def __reduce__(self) -> tuple[Any, ...]:
        return (RecordingSink, (None,))


class _RecordingWriter(SinkWriter):
    def __init__(self) -> None:
        self._batches: list[bytes] = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        # Records may be instances of classes that a test defines in a function.
        self._batches.append(cloudpickle.dumps(values))

    def prepare_commit(self) -> Sequence[bytes]:
        batches, self._batches = self._batches, []
        return batches


class _RecordingCommitter(Committer):
    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in committed:
            values = [value for batch in part.committables for value in pickle.loads(batch)]
            self._recording.add(Epoch(part.epoch), part.subtask, values)
