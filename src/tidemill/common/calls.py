"""Calls user functions on whole batches. No other module may do so.

``map``, ``filter`` and similar built-ins treat a ``StopIteration`` raised by their function as the end of the input:
the rest of the batch would be lost without an error. A list comprehension does not, and calls Python functions faster.
"""

from __future__ import annotations

import contextlib
import opcode
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any, Final, TypeVar

from tidemill.faults import ProcessDeath

__all__ = ["NO_RECORD", "call_each", "is_interrupt", "note_record", "noted_record", "was_raised", "with_each"]

V = TypeVar("V")
R = TypeVar("R")

#: Returned by :func:`noted_record` for an exception without a record.
NO_RECORD: Final = object()

_RAISE: Final = opcode.opmap["RAISE_VARARGS"]
_RECORD: Final = "_tidemill_record"


def call_each(
    function: Callable[..., R],
    values: Sequence[Any],
    failed: Callable[[BaseException, int], BaseException],
    beside: Iterable[Any] | None = None,
) -> list[R]:
    """Call a user function on each value and return the results.

    If ``beside`` is given, its element at the same position is passed as a second argument. If the function raises,
    ``failed`` is called with the exception and the position of the value, and the exception it returns is raised.

    >>> call_each(lambda value: value + 1, [1, 2], lambda error, position: error)
    [2, 3]
    """
    remaining = iter(values)
    try:
        if beside is None:
            return [function(value) for value in remaining]
        return [function(value, other) for value, other in zip(remaining, beside, strict=True)]
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise failed(error, len(values) - length_hint(remaining) - 1) from error


def with_each(function: Callable[[V], R], values: Sequence[V]) -> list[R]:
    """Like ``list(map(function, values))``, for functions written in C that may run code of the values' classes.

    Such code (a property, ``__hash__``) may raise ``StopIteration``, which shows as a result that is too short.

    >>> with_each(len, ["a", "bc"])
    [1, 2]
    """
    results = list(map(function, values))
    if len(results) != len(values):
        return [function(value) for value in values]  # raises the StopIteration to the caller
    return results


def note_record(error: BaseException, values: Sequence[Any], remaining: Iterator[Any]) -> None:
    """Attach to an exception the value that was being processed; ``remaining`` is the iterator over the values.

    For code that processes a batch and lets exceptions propagate: the error report then names the record.
    """
    with contextlib.suppress(Exception):  # a class may refuse attributes
        setattr(error, _RECORD, values[len(values) - length_hint(remaining) - 1])


def noted_record(error: BaseException) -> Any:
    """Return the record that :func:`note_record` attached, or ``NO_RECORD``."""
    return getattr(error, _RECORD, NO_RECORD)


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception was not caused by the function: ``KeyboardInterrupt`` by a signal, or a simulated crash."""
    return isinstance(error, ProcessDeath) or (isinstance(error, KeyboardInterrupt) and not was_raised(error))


def was_raised(error: BaseException) -> bool:
    """Whether an exception comes from a ``raise`` statement in the executed code.

    Signals and ``close()`` of a generator raise at other instructions, or in the signal handler (PySpark's).
    """
    handler = getattr(signal.getsignal(signal.SIGINT), "__code__", None)
    place = error.__traceback__
    if place is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    if place.tb_frame.f_code is handler:
        return False
    return place.tb_frame.f_code.co_code[place.tb_lasti] == _RAISE
