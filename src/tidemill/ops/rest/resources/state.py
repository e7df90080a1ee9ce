"""The committed state of a job, in the last epoch or another one: list of states, entries, entries of a key.

It is read from storage, by a few requests at a time. The job is not affected, and does not have to run. Nothing is
unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from tidemill.ops.rest.jobs_shown import vertex_id
from tidemill.ops.rest.models.state import OperatorWithState, StateList, StateOfOperator, StatePage
from tidemill.ops.rest.parameters import JobPath, Name, operating
from tidemill.ops.rest.state_pages import PagePosition, entries_of_key, key_from, operator_page, page_from
from tidemill.ops.rest.state_readers import OfEpoch, find_state, reading
from tidemill.state.keyed.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo

__all__ = ["router"]

#: Up to this number of stored rows, entries are counted for each request: it takes about a tenth of a second.
_COUNTED: Final = 50_000

router = APIRouter(tags=["state"], dependencies=[Depends(operating)])


@router.get("/jobs/{job_id}/state", summary="The operators that have state, and its size")
def get_states(job: JobPath, epoch: OfEpoch = None) -> StateList:
    # The metrics have the number of entries of the last epoch only.
    entries = job.figures().state_entries() if epoch is None else {}
    return reading(job, epoch, lambda reader: _list(reader, entries))


@router.get("/jobs/{job_id}/state/{operator}/{name}", summary="Entries of a state, or of one key")
def get_state(
    job: JobPath,
    operator: Name,
    name: Name,
    key: Annotated[
        str | None, Query(max_length=4096, description="A key as JSON. Only its entries are returned.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of entries.")] = 100,
    start: Annotated[
        str | None,
        Query(
            alias="from",
            pattern=r"^[0-9]{1,18}-[0-9]{1,5}-[0-9]{1,12}$",
            description="The value of next in the previous page. The epoch is that of the previous page.",
        ),
    ] = None,
    epoch: OfEpoch = None,
) -> StatePage:
    place = None if start is None else PagePosition.of(start)

    def page(reader: SavepointReader) -> StatePage:
        owner, state = find_state(job, reader, operator, name)
        behind: PagePosition | None = None
        if state not in owner.states:
            entries, behind = operator_page(reader, owner, state, place or PagePosition(reader.epoch), limit)
        elif key is None:
            entries, behind = page_from(reader, owner, state, place or PagePosition(reader.epoch), limit)
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

    return reading(job, epoch if place is None else place.epoch, page)


def _list(reader: SavepointReader, entries: Mapping[tuple[str, str], int]) -> StateList:
    """List operators and their states. ``entries`` are those that workers have reported, for state too large to count.

    Workers report the keys of a state as of the epoch before.
    """
    found = reader.operators()
    stored = sum(one.timers + sum(info.rows for info in (*one.states, *one.operator_states)) for one in found)
    if stored <= _COUNTED:
        found = reader.counted_operators()
    operators: list[OperatorWithState] = [
        {
            "id": vertex_id(info.uid),
            "uid": info.uid,
            "name": info.name,
            "keyed": info.keyed,
            "timers": info.timers if stored <= _COUNTED else _timers(info, entries),
            "states": [_state(one, entries.get((info.uid, one.name))) for one in info.states],
            "operator-states": [_state(one, entries.get((info.uid, one.name))) for one in info.operator_states],
        }
        for info in found
    ]
    return StateList(epoch=reader.epoch, operators=operators)


def _timers(info: OperatorInfo, entries: Mapping[tuple[str, str], int]) -> int:
    """Return the number of pending timers that workers have reported, or that of stored rows if they have not."""
    found = [entries[info.uid, name] for name in (EVENT_TIMERS, PROCESSING_TIMERS) if (info.uid, name) in entries]
    return sum(found) if found else info.timers


def _state(info: StateInfo, entries: int | None) -> StateOfOperator:
    return StateOfOperator(
        id=vertex_id(info.name),
        name=info.name,
        kind=info.kind,
        types=info.types,
        rows=info.rows,
        bytes=info.bytes,
        entries=entries if info.entries is None else info.entries,
    )
