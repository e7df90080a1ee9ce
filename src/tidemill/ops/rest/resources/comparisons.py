"""The changes of a keyed state between two committed epochs, some changes at a time.

About four megabytes of the files of both epochs, or one key group, are kept in memory. For the same two epochs a
position always has the same meaning, so the server keeps no data between the requests for two pages.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query

from tidemill.checkpoint.model import Epoch
from tidemill.ops.rest.errors import BadRequestError, ConflictError
from tidemill.ops.rest.jobs_shown import ShownJob
from tidemill.ops.rest.models.state import StateDifference
from tidemill.ops.rest.parameters import JobPath, Name, operating
from tidemill.ops.rest.state_pages import json_value
from tidemill.ops.rest.state_readers import find_state, state_reader, turn
from tidemill.ops.state_rows import difference_in
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo

__all__ = ["router"]

router = APIRouter(tags=["state"], dependencies=[Depends(operating)])

#: Approximate number of bytes of the files to compare at a time.
_CHUNK: Final = 4 << 20
#: Maximum average size of a key group, which is never divided, in the files.
_LARGEST_GROUP: Final = 64 << 20
#: A page ends after this many seconds, even if it is not full.
_SECONDS: Final = 2.0
#: The columns of a change that contain user data, which is truncated if it is long.
_VALUES: Final = ("key", "namespace", "map_key", "before", "after")


@dataclass(frozen=True)
class _Place:
    """A position in the changes between two epochs: the first change that has not been returned yet."""

    first: Epoch
    last: Epoch
    group: int = 0
    entry: int = 0

    @classmethod
    def of(cls, text: str) -> _Place:
        """Parse the position that a page returned as ``next``."""
        first, last, group, entry = map(int, text.split("-"))
        return cls(Epoch(first), Epoch(last), group, entry)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}-{self.group}-{self.entry}"


@router.get("/jobs/{job_id}/state/{operator}/{name}/diff", summary="The changes of a state between two epochs")
def get_difference(
    job: JobPath,
    operator: Name,
    name: Name,
    first: Annotated[
        Epoch, Query(alias="from", ge=0, le=2**63 - 1, description="The earlier epoch, which must still be retained.")
    ],
    last: Annotated[
        Epoch | None, Query(alias="to", ge=0, le=2**63 - 1, description="The later epoch. Default: the latest.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of changes.")] = 100,
    after: Annotated[
        str | None,
        Query(
            pattern=r"^[0-9]{1,18}-[0-9]{1,18}-[0-9]{1,5}-[0-9]{1,12}$",
            description="The value of next in the previous page. The epochs are those of that page.",
        ),
    ] = None,
) -> StateDifference:
    given = None if after is None else _Place.of(after)
    with turn():
        old = state_reader(job, first if given is None else given.first)
        new = state_reader(job, last if given is None else given.last)
        place = given or _Place(old.epoch, new.epoch)
        before, after_state = _keyed(job, old, operator, name), _keyed(job, new, operator, name)
        changes, behind = _page(job, (old, *before), (new, *after_state), place, limit)
    return {
        "from": old.epoch,
        "to": new.epoch,
        "uid": before[0].uid,
        "state": before[1].name,
        "changes": changes,
        "next": None if behind is None else str(behind),
    }


def _keyed(job: ShownJob, reader: SavepointReader, operator: str, name: str) -> tuple[OperatorInfo, StateInfo]:
    owner, state = find_state(job, reader, operator, name)
    if state not in owner.states:
        raise BadRequestError(f"name: {state.name!r} is operator state; only keyed state can be compared")
    return owner, state


_Side = tuple[SavepointReader, OperatorInfo, StateInfo]


def _page(
    job: ShownJob, old: _Side, new: _Side, place: _Place, limit: int
) -> tuple[list[dict[str, Any]], _Place | None]:
    """Return at most ``limit`` changes from a position, and the next position, or None if there are no more changes."""
    (before, operator, old_state), (after, new_operator, new_state) = old, new
    groups, size = operator.max_parallelism, old_state.bytes + new_state.bytes
    if groups != new_operator.max_parallelism or size // groups > _LARGEST_GROUP:
        raise ConflictError(
            "comparing these epochs requires too much memory; compare them without the driver: tidemill state diff "
            f"{job.id} {operator.uid} {old_state.name} --from {before.epoch} --to {after.epoch}"
        )
    width = max(1, min(groups, groups * _CHUNK // max(1, size)))
    until = time.monotonic() + _SECONDS
    found: list[dict[str, Any]] = []
    group, skip = place.group, place.entry
    while group < groups:
        cut = (group, min(group + width, groups) - 1)
        wanted = limit - len(found)
        changes = difference_in(before, after, operator.uid, old_state.name, cut)
        more = list(islice(changes, skip, skip + wanted + 1))
        found += map(_shown, more[:wanted])
        if len(more) > wanted:
            return found, _Place(place.first, place.last, group, skip + wanted)
        group, skip = cut[1] + 1, 0
        if len(found) == limit or time.monotonic() > until:
            break
    return found, _Place(place.first, place.last, group) if group < groups else None


def _shown(change: dict[str, Any]) -> dict[str, Any]:
    return {name: json_value(value) if name in _VALUES else value for name, value in change.items()}
