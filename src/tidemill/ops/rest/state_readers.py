"""How requests read the committed state of a job: few at a time, of an epoch that is still kept, without unpickling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, TypeVar

from fastapi import Query

from tidemill.config import CheckpointingOptions
from tidemill.errors import CheckpointError
from tidemill.ops.rest.errors import ResourceNotFoundError, UnavailableError
from tidemill.ops.rest.jobs_shown import ShownJob, vertex_id
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo, read

__all__ = ["OfEpoch", "find_state", "reader_of", "reading", "turn"]

T = TypeVar("T")

#: How many requests read state at a time.
_READERS: Final = threading.Semaphore(2)
_PATIENCE: Final = 5.0

OfEpoch = Annotated[
    int | None, Query(ge=0, le=2**63 - 1, description="Of a committed epoch that is still kept; by default the last.")
]


def reading(job: ShownJob, epoch: int | None, answer: Callable[[SavepointReader], T]) -> T:
    """What is found in an epoch, or the last one; that may be removed while it is read, so it is tried again."""
    with turn():
        for attempt in range(3):
            try:
                return answer(reader_of(job, epoch))
            except CheckpointError:
                if epoch is not None or attempt == 2 or job.is_over:
                    raise
    raise AssertionError("unreachable")


@contextmanager
def turn() -> Iterator[None]:
    """Wait until there are not too many readers. Raises :class:`UnavailableError` if that takes long."""
    if not _READERS.acquire(timeout=_PATIENCE):
        raise UnavailableError("others are reading state: try again")
    try:
        yield
    finally:
        _READERS.release()


def reader_of(job: ShownJob, epoch: int | None) -> SavepointReader:
    """The state of a job as of an epoch, or the last one. Raises :class:`CheckpointError` if that is not kept."""
    configuration = job.outline.configuration
    directory = configuration.get(CheckpointingOptions.DIRECTORY)
    location = job.outline.storage if directory is None else f"{directory.rstrip('/')}/{job.id}"
    return read(location, epoch, job.id, configuration=configuration)


def find_state(job: ShownJob, reader: SavepointReader, operator: str, name: str) -> tuple[OperatorInfo, StateInfo]:
    """The state that two parts of a path stand for. Raises :class:`ResourceNotFoundError`."""
    for info in reader.operators():
        if operator in (info.uid, vertex_id(info.uid)):
            for state in (*info.states, *info.operator_states):
                if name in (state.name, vertex_id(state.name)):
                    return info, state
    raise ResourceNotFoundError(
        f"job {job.id} has no state {name!r} of operator {operator!r}; /jobs/{job.id}/state lists all"
    )
