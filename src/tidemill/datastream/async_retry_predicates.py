"""Common predicates for :class:`AsyncRetryStrategy`."""

from __future__ import annotations

from tidemill.datastream.functions.retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = [
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
]
