"""The state of a job, as of its last committed epoch: which there is, its entries, and what it has for a key.

It is read from what is stored, by few at a time: the job does not notice, and need not run. Nothing is unpickled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Depends, Query

from tidemill.config import CheckpointingOptions
from tidemill.errors import CheckpointError
from tidemill.ops.rest.errors import NotFoundError, UnavailableError
from tidemill.ops.rest.jobs_shown import ShownJob, vertex_id
from tidemill.ops.rest.models import OperatorWithState, StateList, StateOfOperator, StatePage
from tidemill.ops.rest.parameters import JobPath, Name, operating
from tidemill.ops.rest.state_pages import Place, entries_of_key, key_from, operator_page, page_from
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo, read

__all__ = ["router"]

router = APIRouter(tags=["state"], dependencies=[Depends(operating)])

T = TypeVar("T")

#: How many requests read state at a time.
_READERS: Final = threading.Semaphore(2)
_PATIENCE: Final = 5.0


@router.get("/jobs/{job_id}/state", summary="The operators that have state, and how much")
def get_states(job: JobPath) -> StateList:
    return _reading(job, None, lambda reader: _list(job, reader))


@router.get("/jobs/{job_id}/state/{operator}/{name}", summary="Entries of a state, or what it has for a key")
def get_state(
    job: JobPath,
    operator: Name,
    name: Name,
    key: Annotated[
        str | None, Query(max_length=4096, description="A key as JSON; only what the state has for it is shown.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many entries.")] = 100,
    start: Annotated[
        str | None,
        Query(
            alias="from",
            pattern=r"^[0-9]{1,18}-[0-9]{1,5}-[0-9]{1,12}$",
            description="The next of the page before; it goes on with the same epoch.",
        ),
    ] = None,
) -> StatePage:
    place = None if start is None else Place.of(start)

    def page(reader: SavepointReader) -> StatePage:
        owner, state = _find(job, reader, operator, name)
        behind: Place | None = None
        if state not in owner.states:
            entries, behind = operator_page(reader, owner, state, place or Place(reader.epoch), limit)
        elif key is None:
            entries, behind = page_from(reader, owner, state, place or Place(reader.epoch), limit)
        else:
            entries = entries_of_key(reader, owner, state, key_from(key))[:limit]
        return StatePage(
            epoch=reader.epoch,
            uid=owner.uid,
            state=state.name,
            kind=state.kind,
            entries=entries,
            next=None if behind is None else str(behind),
        )

    return _reading(job, None if place is None else place.epoch, page)


def _reading(job: ShownJob, epoch: int | None, answer: Callable[[SavepointReader], T]) -> T:
    """What is found in an epoch, or the last one; that may be removed while it is read, so it is tried again."""
    with _turn():
        for attempt in range(3):
            try:
                return answer(_reader(job, epoch))
            except CheckpointError:
                if epoch is not None or attempt == 2 or job.is_over:
                    raise
    raise AssertionError("unreachable")


@contextmanager
def _turn() -> Iterator[None]:
    if not _READERS.acquire(timeout=_PATIENCE):
        raise UnavailableError("others are reading state: try again")
    try:
        yield
    finally:
        _READERS.release()


def _reader(job: ShownJob, epoch: int | None) -> SavepointReader:
    configuration = job.outline.configuration
    directory = configuration.get(CheckpointingOptions.DIRECTORY)
    location = job.outline.storage if directory is None else f"{directory.rstrip('/')}/{job.id}"
    return read(location, epoch, job.id, configuration=configuration)


def _list(job: ShownJob, reader: SavepointReader) -> StateList:
    entries = job.figures().state_entries()
    operators: list[OperatorWithState] = [
        {
            "id": vertex_id(info.uid),
            "uid": info.uid,
            "name": info.name,
            "keyed": info.keyed,
            "timers": info.timers,
            "states": [_state(one, entries.get((info.uid, one.name))) for one in info.states],
            "operator-states": [_state(one, entries.get((info.uid, one.name))) for one in info.operator_states],
        }
        for info in reader.operators()
    ]
    return StateList(epoch=reader.epoch, operators=operators)


def _state(info: StateInfo, entries: int | None) -> StateOfOperator:
    return StateOfOperator(
        id=vertex_id(info.name),
        name=info.name,
        kind=info.kind,
        types=info.types,
        rows=info.rows,
        bytes=info.bytes,
        entries=entries,
    )


def _find(job: ShownJob, reader: SavepointReader, operator: str, name: str) -> tuple[OperatorInfo, StateInfo]:
    for info in reader.operators():
        if operator in (info.uid, vertex_id(info.uid)):
            for state in (*info.states, *info.operator_states):
                if name in (state.name, vertex_id(state.name)):
                    return info, state
    raise NotFoundError(f"job {job.id} has no state {name!r} of operator {operator!r}; /jobs/{job.id}/state lists all")
