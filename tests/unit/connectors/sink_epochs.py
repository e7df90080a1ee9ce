"""Epochs of a sink by hand: what its writers prepare, and what is committed of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from tidemill.common.constants import MAX_LONG_VALUE
from tidemill.connectors.sinks import (
    Committed,
    Committer,
    CommitterContext,
    Sink,
    SupportsWriterState,
    WriterContext,
)


def context(
    epoch: int,
    subtask: int = 0,
    attempt: str = "a1",
    time: int | None = 0,
    checkpoint: bool = True,
    next_checkpoint: int | None = None,
) -> WriterContext:
    return WriterContext(
        "job",
        "sink",
        subtask,
        2,
        "lineage",
        epoch,
        attempt,
        time,
        checkpoint=checkpoint,
        next_checkpoint=next_checkpoint,
    )


def run_epoch(sink: Sink, epoch: int, *subtasks: Sequence[Any], attempt: str = "a1") -> list[Committed]:
    """One epoch of a sink: written on a worker, not yet committed."""
    worker: Sink = pickle.loads(pickle.dumps(sink))
    out = []
    for subtask, values in enumerate(subtasks):
        writer = worker.create_writer(subtask, len(subtasks))
        writer.begin_epoch(context(epoch, subtask, attempt))
        writer.write(list(values), None)
        out.append(Committed(epoch, subtask, writer.prepare_commit()))
        writer.close()
    return out


class Job:
    """One subtask of a sink with a committer over epochs: each is committed, unless it is killed first.

    Checkpoints are ``interval`` ms apart; without it, each epoch is one.
    """

    def __init__(self, sink: Sink, interval: int | None = None) -> None:
        self.sink = sink
        self.interval = interval
        self.checkpoint_at = 0
        self.state: list[Any] = []
        self.epoch = 0
        self.last: list[Committed] = []
        self.writer: Any = sink.create_writer(0, 1)

    def run(self, values: Sequence[Any], now: int, *, end: bool = False, attempt: str = "a") -> None:
        """Write an epoch: prepared and snapshotted, not committed."""
        checkpoint = self.interval is None or now >= self.checkpoint_at
        if self.interval is not None and checkpoint:
            self.checkpoint_at = now + self.interval
        upcoming = None if self.interval is None else self.checkpoint_at
        self.writer.begin_epoch(context(self.epoch + 1, 0, attempt, now, checkpoint, upcoming))
        self.writer.write(list(values), None)
        if end:
            self.writer.write_watermark(MAX_LONG_VALUE)
        self.last = [Committed(self.epoch + 1, 0, self.writer.prepare_commit())]
        self.prepared = [pickle.loads(pickle.dumps(one)) for one in self.writer.snapshot_state(self.epoch + 1)]

    def commit(self, *, again: bool = False) -> None:
        self.epoch += not again
        self.state = self.prepared
        self._committer().commit([Committed(one.epoch, 0, one.committables, again) for one in self.last])

    def restart(self) -> None:
        """A new driver and a new worker: leftovers go, the last epoch is committed again, the writer is restored."""
        in_use = [data for one in self.last if one.epoch == self.epoch for data in one.committables]
        self._committer().discard(in_use, "lineage")
        if in_use:
            self.commit(again=True)
        if isinstance(self.sink, SupportsWriterState):
            self.writer = self.sink.restore_writer(0, 1, self.state)
        else:
            self.writer = self.sink.create_writer(0, 1)

    def epoch_of(self, values: Sequence[Any], now: int, *, end: bool = False) -> None:
        self.run(values, now, end=end)
        self.commit()

    def _committer(self) -> Committer:
        committer = self.sink.create_committer()
        assert committer is not None
        committer.open(CommitterContext("job", "sink"))
        return committer
