"""Epochs of a sink by hand: what its writers prepare, before anything is committed."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from tidemill.datastream.sinks import Committed, Sink, WriterContext


def context(epoch: int, subtask: int = 0, attempt: str = "a1", time: int | None = 0) -> WriterContext:
    return WriterContext("job", "sink", subtask, 2, "lineage", epoch, attempt, time)


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
