"""Descriptions of built-in aggregates: the kind of aggregate and its field.

The implementation is selected where the job runs (:mod:`tidemill.runtime.operators.built_in`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from tidemill.datastream.functions.field_access import Field

__all__ = ["AggregateKind", "BuiltIn"]


class AggregateKind(enum.Enum):
    """The kind of a built-in aggregate. The enum value is the name of its method."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MIN_BY = "min_by"
    MAX_BY = "max_by"
    COUNT = "count"
    AVG = "avg"

    @property
    def keeps_a_record(self) -> bool:
        """Whether the result is a record of the input type rather than a number."""
        return self not in _NUMBERS


_NUMBERS: Final = frozenset({AggregateKind.COUNT, AggregateKind.AVG})


@dataclass(frozen=True)
class BuiltIn:
    """A built-in aggregate. ``field`` is a position, a name or a dotted path of names; None for a count.

    >>> BuiltIn(AggregateKind.SUM, 1)
    BuiltIn(sum(1))
    >>> BuiltIn(AggregateKind.MAX, -1)
    Traceback (most recent call last):
    ValueError: max(-1): positions start at 0
    """

    kind: AggregateKind
    field: Field | None = None

    def __post_init__(self) -> None:
        field, label = self.field, self.kind.value
        if self.kind is AggregateKind.COUNT:
            return
        if isinstance(field, bool) or not isinstance(field, (int, str)):
            raise TypeError(
                "The field position must be of int or str type to locate the value to calculate for min, max, min_by, "
                f"max_by and sum.The given type is: {type(field)} (in {label}())"
            )
        if isinstance(field, int) and field < 0:
            raise ValueError(f"{label}({field}): positions start at 0")

    def __repr__(self) -> str:
        return f"BuiltIn({self.kind.value}({'' if self.field is None else repr(self.field)}))"
