"""Queryable state over REST: the states that a program made queryable by name, as of the last committed epoch."""

from __future__ import annotations

import json
import threading
from typing import Annotated, Final
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends, Query

from tidemill.checkpoint.storage.storages import storage_for, store_options
from tidemill.errors import InvalidKeyError
from tidemill.ops.queryable.answer import NOTHING
from tidemill.ops.queryable.committed import CommittedStates
from tidemill.ops.queryable.errors import StateUnavailableError, UnknownKeyOrNamespaceError, UnknownStateNameError
from tidemill.ops.rest.errors import BadRequestError, ResourceNotFoundError, UnavailableError
from tidemill.ops.rest.jobs_shown import ShownJob, vertex_id
from tidemill.ops.rest.models.state import QueryableNames, QueryableValue
from tidemill.ops.rest.parameters import JobPath, Name, operating
from tidemill.ops.rest.state_pages import key_from
from tidemill.state.codecs.plain_values import json_text
from tidemill.state_processor.job_directory import JobDirectory

__all__ = ["router"]

router = APIRouter(tags=["state"], dependencies=[Depends(operating)])

#: Size of the cache for the queryable states of a job.
_CACHE: Final = 16 << 20

_lock = threading.Lock()
_states: WeakKeyDictionary[ShownJob, CommittedStates] = WeakKeyDictionary()


@router.get("/jobs/{job_id}/queryable-state", summary="The names of the queryable states")
def get_queryable_names(job: JobPath) -> QueryableNames:
    states = _followed(job)
    states.refresh()
    try:
        return QueryableNames(epoch=states.view().epoch, names=states.names())
    except StateUnavailableError as error:
        raise UnavailableError(str(error)) from error


@router.get("/jobs/{job_id}/queryable-state/{name}", summary="The value of a key in a queryable state")
def get_queryable_value(
    job: JobPath, name: Name, key: Annotated[str, Query(max_length=4096, description="A key as JSON.")]
) -> QueryableValue:
    states = _followed(job)
    wanted = key_from(key)
    try:
        states.refresh()
        named = next((known for known in states.names() if name in (known, vertex_id(known))), name)
        answer = states.get(named, wanted)
        value = answer.plain()
        if value is NOTHING:
            raise UnknownKeyOrNamespaceError(f"state {named!r} has no value for key {key} in epoch {answer.epoch}")
    except (UnknownStateNameError, UnknownKeyOrNamespaceError) as error:
        raise ResourceNotFoundError(str(error)) from error
    except StateUnavailableError as error:
        raise UnavailableError(str(error)) from error
    except InvalidKeyError as error:
        raise BadRequestError(f"key: {error}") from error
    return QueryableValue(epoch=answer.epoch, name=named, value=json.loads(json_text(value) or "null"))


def _followed(job: ShownJob) -> CommittedStates:
    """Return the states of a job, which are updated from epoch to epoch after they were first requested."""
    with _lock:
        found = _states.get(job)
        if found is None:
            location, job_id, configuration = job.state_place
            storage = (
                storage_for(location, durable=False, options=store_options(configuration))
                if isinstance(location, str)
                else location
            )
            found = _states[job] = CommittedStates(JobDirectory(storage, job_id, job_id), cache_bytes=_CACHE)
        return found
