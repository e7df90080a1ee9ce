"""What can be wrong with a query. A server names the kind by its code, and a client raises the class."""

from __future__ import annotations

from typing import Final

from tidemill.errors import TidemillError

__all__ = [
    "ERRORS",
    "QueryableStateError",
    "StateUnavailableError",
    "UnknownJobError",
    "UnknownKeyOrNamespaceError",
    "UnknownStateNameError",
    "error_code",
]


class QueryableStateError(TidemillError):
    """A query that cannot be answered."""


class UnknownJobError(QueryableStateError):
    """The server answers for another job."""


class UnknownStateNameError(QueryableStateError):
    """No state is queryable under the name."""


class UnknownKeyOrNamespaceError(QueryableStateError):
    """There is no value for the key, or none any more."""


class StateUnavailableError(QueryableStateError):
    """The state cannot be read now; the same query may be answered later."""


#: By the code that stands for it in an answer. Codes never change.
ERRORS: Final[dict[str, type[QueryableStateError]]] = {
    "query": QueryableStateError,
    "job": UnknownJobError,
    "name": UnknownStateNameError,
    "key": UnknownKeyOrNamespaceError,
    "unavailable": StateUnavailableError,
}
_CODES: Final = {kind: code for code, kind in ERRORS.items()}


def error_code(error: QueryableStateError) -> str:
    """The code that stands for an error."""
    return _CODES.get(type(error), "query")
