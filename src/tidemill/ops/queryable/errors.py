"""Errors of queries. A server sends the code of an error, and the client raises the class."""

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
    """A query failed."""


class UnknownJobError(QueryableStateError):
    """The server serves another job."""


class UnknownStateNameError(QueryableStateError):
    """There is no queryable state with the name."""


class UnknownKeyOrNamespaceError(QueryableStateError):
    """There is no value for the key, or no longer."""


class StateUnavailableError(QueryableStateError):
    """The state cannot be read now; the same query may succeed later."""


#: Errors by their codes in responses. Codes never change.
ERRORS: Final[dict[str, type[QueryableStateError]]] = {
    "query": QueryableStateError,
    "job": UnknownJobError,
    "name": UnknownStateNameError,
    "key": UnknownKeyOrNamespaceError,
    "unavailable": StateUnavailableError,
}
_CODES: Final = {kind: code for code, kind in ERRORS.items()}


def error_code(error: QueryableStateError) -> str:
    """Return the code of an error."""
    return _CODES.get(type(error), "query")
