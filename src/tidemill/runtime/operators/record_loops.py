"""The loops that call a user function for each record of a batch.

Before each call they set the current key and the event time of the record. They stop at the first exception and raise
the error that names the operator, the record and its key. Operators select one of these loops instead of writing their
own, so that a rule for all user functions (error handling, reading state ahead) is implemented once.

- :func:`map_each`: exactly one result for each record (map, filter, reduce);
- :func:`flat_map_each`: any number of results for each record (flat_map, process, windows).

Timers have one loop too, :meth:`KeyedOperator.fire <tidemill.runtime.operators.keyed.KeyedOperator.fire>`. These have
their own loops: interval joins, which call their function for pairs of records; aligned windows, for late records;
windows with an evictor, which combine their elements (``windowing/contents.py``); punctuated watermark generators,
which split a batch between two records; asynchronous functions (``async_calls.py``); and custom partitioners
(``tidemill.runtime.exchange.routes``). Key selectors, timestamp assigners and dynamic session gaps are called with
:func:`tidemill.common.calls.call_each`. Reducing and aggregating state calls its function in ``tidemill.state.keyed``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import Any, Protocol

from tidemill.common.calls import call_each
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.base import Operator
from tidemill.state.keyed.context import KeyContext


class RecordTime(Protocol):
    """Stores the event time of the current record: the context of a function, or its operator."""

    current_timestamp: int | None


class _NoKey:
    """Replaces the key context if records have no keys."""

    __slots__ = ("key",)
    key: Any


def map_each(operator: Operator, batch: Batch, call: Callable[[Any], Any], time: RecordTime) -> list[Any]:
    """Return the function's result for each record."""
    values, record_keys = batch.values, batch.keys
    keys = _key_context(operator, record_keys)
    if keys is None or record_keys is None:
        return call_each(call, values, partial(operator.failed_at, values))
    results = []
    value = None
    try:
        if batch.timestamps is not None:
            for value, keys.key, time.current_timestamp in zip(values, record_keys, batch.timestamps, strict=True):
                results.append(call(value))
        else:
            for value, keys.key in zip(values, record_keys, strict=True):
                results.append(call(value))
    except BaseException as error:
        raise operator.failed(error, record=value, with_record=True, key=keys.key) from error
    finally:
        time.current_timestamp = None
    return results


def flat_map_each(
    operator: Operator,
    batch: Batch,
    call: Callable[..., Iterable[Any] | None],
    time: RecordTime,
    *,
    with_context: bool,
    method: str = "",
) -> tuple[list[Any], list[int] | None]:
    """Return everything that the function yields or returns, with the timestamps of the records that caused it.

    The timestamps are None if the records have none. With ``with_context`` the function is called with the record and
    ``time``, which then is its context, else with the record alone. ``method`` is the name of the function in errors.
    """
    values: list[Any] = []
    timestamps: list[int] | None = None
    extend = operator.output.emissions.extend_of(values)
    key_context = _key_context(operator, batch.keys)
    keys = key_context or _NoKey()
    record_keys = repeat(None, len(batch)) if batch.keys is None else batch.keys
    value = None
    try:
        if batch.timestamps is not None:
            timestamps = []
            for value, keys.key, timestamp in zip(batch.values, record_keys, batch.timestamps, strict=True):
                time.current_timestamp = timestamp
                result = call(value, time) if with_context else call(value)
                if result is not None:
                    before = len(values)
                    extend(result)
                    timestamps += [timestamp] * (len(values) - before)
        elif with_context or key_context is not None:
            for value, keys.key in zip(batch.values, record_keys, strict=True):
                result = call(value, time) if with_context else call(value)
                if result is not None:
                    extend(result)
        else:  # the most frequent kind of flat_map: 25 ns less per record
            for value in batch.values:
                result = call(value)
                if result is not None:
                    extend(result)
    except BaseException as error:
        key = {} if key_context is None else {"key": key_context.key}
        raise operator.failed(error, method=method, record=value, with_record=True, **key) from error
    finally:
        time.current_timestamp = None
    return values, timestamps


def _key_context(operator: Operator, record_keys: list[Any] | None) -> KeyContext | None:
    """Return the key context of an operator whose records have keys, and prefetch their state."""
    backend = operator.context.backend
    if backend is None or record_keys is None:
        return None
    if backend.prefetches:
        backend.prefetch(record_keys)
    return backend.context
