"""User functions called over a whole batch: the one place that may do it.

``map``, ``filter`` and their like take a ``StopIteration`` that their function raises for the end of their input: the
rest of the batch would be lost without an error. A list comprehension does not, and calls Python functions faster.
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

#: What :func:`noted_record` gives for an exception without a record.
NO_RECORD: Final = object()

_RAISE: Final = opcode.opmap["RAISE_VARARGS"]
_RECORD: Final = "_tidemill_record"


def call_each(
    function: Callable[..., R],
    values: Sequence[Any],
    failed: Callable[[BaseException, int], BaseException],
    beside: Iterable[Any] | None = None,
) -> list[R]:
    """The results of a user function for each value, with the one of ``beside`` at the same place if there is one.

    Whatever the function raises ends in the error that ``failed`` makes of it and of the position of the value.

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
    """As ``list(map(function, values))``, for functions written in C that may run code of the values' classes.

    Such code (a property, ``__hash__``) may raise ``StopIteration``: a result that is too short reveals it.

    >>> with_each(len, ["a", "bc"])
    [1, 2]
    """
    results = list(map(function, values))
    if len(results) != len(values):
        return [function(value) for value in values]  # raises it where it belongs
    return results


def note_record(error: BaseException, values: Sequence[Any], remaining: Iterator[Any]) -> None:
    """Remember with an exception which of the values was at hand; ``remaining`` is the iterator over them.

    For code that is handed a batch and lets exceptions pass: whoever reports them names the record.
    """
    with contextlib.suppress(Exception):  # a class may refuse attributes
        setattr(error, _RECORD, values[len(values) - length_hint(remaining) - 1])


def noted_record(error: BaseException) -> Any:
    """What :func:`note_record` remembered, or ``NO_RECORD``."""
    return getattr(error, _RECORD, NO_RECORD)


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception is no fault of the function: a ``KeyboardInterrupt`` by a signal, a death in a test."""
    return isinstance(error, ProcessDeath) or (isinstance(error, KeyboardInterrupt) and not was_raised(error))


def was_raised(error: BaseException) -> bool:
    """Whether an exception comes from a ``raise`` statement of the code that ran.

    Signals and ``close()`` of a generator raise at other instructions, or in the handler of the signal (PySpark's).
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
