"""Predicates for :class:`AsyncRetryStrategy` that are often needed."""

from __future__ import annotations

from typing import Any

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: Any) -> bool:
    """Whether a call gave no results.

    >>> empty_result_predicate([]), empty_result_predicate([0])
    (True, False)
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Whether a call failed, in whatever way."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Whether a call failed with such an exception; to be given its type by ``functools.partial`` or a lambda."""
    return isinstance(error, expected_error_type)
