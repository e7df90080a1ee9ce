"""Common predicates for :class:`AsyncRetryStrategy`."""

from __future__ import annotations

from typing import Any

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: Any) -> bool:
    """Whether a call returned no results.

    >>> empty_result_predicate([]), empty_result_predicate([0])
    (True, False)
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Whether a call failed with any exception."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Whether a call failed with an exception of this type. Bind the type with ``functools.partial`` or a lambda."""
    return isinstance(error, expected_error_type)
