"""Batches of records in a chain: parallel lists of values, timestamps and keys, without an object per record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import index
from typing import Any, Final

from tidemill.errors import StateError

#: Flink's Long.MIN_VALUE: no watermark yet, no timestamp.
MIN_TIME: Final = -(2**63)
#: Flink's Watermark.MAX_WATERMARK: the end of all input.
MAX_TIME: Final = 2**63 - 1


def checked_time(time: Any, what: str) -> int:
    """Return a time that user code has set as an int; ``what`` describes it in errors.

    >>> checked_time(True, "a timer")
    1
    """
    try:
        found = index(time)
    except TypeError:
        raise StateError(
            f"{what} needs a time in milliseconds as an int, not {time!r} ({type(time).__name__})"
        ) from None
    if not MIN_TIME <= found <= MAX_TIME:
        raise StateError(f"{what} needs a time in milliseconds that fits 64 bits, not {found}")
    return found


class Batch:
    """Values with, in parallel, their event timestamps (None if no record has one) and their keys (None if not keyed).

    Receivers must not change the lists: several consumers may receive the same batch.
    """

    __slots__ = ("keys", "timestamps", "values")

    def __init__(self, values: list[Any], timestamps: list[int] | None = None, keys: list[Any] | None = None) -> None:
        self.values = values
        self.timestamps = timestamps
        self.keys = keys

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: list[Any]) -> Batch:
        """Return the records whose entry in ``chosen`` is true."""
        return Batch(
            list(compress(self.values, chosen)),
            None if self.timestamps is None else list(compress(self.timestamps, chosen)),
            None if self.keys is None else list(compress(self.keys, chosen)),
        )

    def slice(self, start: int, stop: int) -> Batch:
        """Return the records from one position up to another."""
        return Batch(
            self.values[start:stop],
            None if self.timestamps is None else self.timestamps[start:stop],
            None if self.keys is None else self.keys[start:stop],
        )

    @property
    def last_timestamp(self) -> int | None:
        """The timestamp of the last record, if it has one."""
        return self.timestamps[-1] if self.timestamps else None

    @property
    def key_values(self) -> Sequence[Any] | None:
        """The keys, for a reader that looks at few of them."""
        return self.keys

    def __repr__(self) -> str:
        return f"Batch({self.values!r}, {self.timestamps!r}, {self.keys!r})"
