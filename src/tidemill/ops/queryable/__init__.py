"""Queryable state: look up the committed state of a job by key from outside the job.

A program makes a state queryable with ``StateDescriptor.set_queryable`` or ``KeyedStream.as_queryable_state``. A server
reads the committed state of the job (:class:`CommittedStates`) and serves :class:`QueryableStateClient`.

Start with ``service.py``, the process of a job, and ``view.py``, which looks up keys in one committed epoch. The driver
starts the process in ``tidemill.runtime.driver.queryable_service``. Queries over REST are in
``tidemill.ops.rest.resources.queryable``.
"""

from __future__ import annotations

from tidemill.ops.queryable.client import PlainAnswer, QueryableStateClient
from tidemill.ops.queryable.committed import CommittedStates
from tidemill.ops.queryable.errors import (
    QueryableStateError,
    StateUnavailableError,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateNameError,
)
from tidemill.ops.queryable.servers import address_of
from tidemill.runtime.driver.queryable_service import stop_queryable_state

__all__ = [
    "CommittedStates",
    "PlainAnswer",
    "QueryableStateClient",
    "QueryableStateError",
    "StateUnavailableError",
    "UnknownJobError",
    "UnknownKeyOrNamespaceError",
    "UnknownStateNameError",
    "address_of",
    "stop_queryable_state",
]
