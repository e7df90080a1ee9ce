"""Queryable state: the committed state of a job, looked up by key from outside.

A program names a state with ``StateDescriptor.set_queryable`` or ``KeyedStream.as_queryable_state``. A server reads
what the job commits (:class:`CommittedStates`) and answers a :class:`QueryableStateClient`.
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
from tidemill.runtime.driver.queryable_service import address_of, stop_queryable_state

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
