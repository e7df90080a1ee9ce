"""Reads the committed state of a job for requests: few at a time, of a retained epoch, without unpickling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, TypeVar

from fastapi import Query

from tidemill.checkpoint.model import Epoch
from tidemill.errors import CheckpointError
from tidemill.ops.rest.errors import ResourceNotFoundError, UnavailableError
from tidemill.ops.rest.jobs_shown import ShownJob, vertex_id
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo, read

__all__ = ["OfEpoch", "find_state", "reading", "state_reader", "turn"]

T = TypeVar("T")

#: Limits the number of requests that read state at a time.
_READERS: Final = threading.Semaphore(2)
_PATIENCE: Final = 5.0

OfEpoch = Annotated[
    Epoch | None,
    Query(ge=0, le=2**63 - 1, description="A committed epoch that is still retained. Default: the latest."),
]


def reading(job: ShownJob, epoch: Epoch | None, answer: Callable[[SavepointReader], T]) -> T:
    """Return the answer for an epoch, or for the last one, with a retry if the last one is removed while it is read."""
    with turn():
        for attempt in range(3):
            try:
                return answer(state_reader(job, epoch))
            except CheckpointError:
                if epoch is not None or attempt == 2 or job.is_over:
                    raise
    raise AssertionError("unreachable")


@contextmanager
def turn() -> Iterator[None]:
    """Wait for permission to read state. Raises :class:`UnavailableError` if that takes too long."""
    if not _READERS.acquire(timeout=_PATIENCE):
        raise UnavailableError("too many requests are reading state: try again later")
    try:
        yield
    finally:
        _READERS.release()


def state_reader(job: ShownJob, epoch: Epoch | None) -> SavepointReader:
    """Open the state of a job in an epoch, or in the last one.

    Raises :class:`CheckpointError` if the epoch is not retained.
    """
    place = job.state_place
    return read(place.location, epoch, place.job_id, configuration=place.configuration)


def find_state(job: ShownJob, reader: SavepointReader, operator: str, name: str) -> tuple[OperatorInfo, StateInfo]:
    """Return the state for the operator and state name in a path. Raises :class:`ResourceNotFoundError`."""
    for info in reader.operators():
        if operator in (info.uid, vertex_id(info.uid)):
            for state in (*info.states, *info.operator_states):
                if name in (state.name, vertex_id(state.name)):
                    return info, state
    raise ResourceNotFoundError(
        f"job {job.id} has no state {name!r} of operator {operator!r}; /jobs/{job.id}/state lists all"
    )
