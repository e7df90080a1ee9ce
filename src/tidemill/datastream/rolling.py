"""Rolling aggregates of a keyed stream as reduce functions: sum, min, max, min_by, max_by.

``min`` and ``max`` keep the other fields of the first record, ``min_by`` and ``max_by`` return a whole record, the
first one on ties. A value that has no fields counts as its own field 0. No function changes its arguments.
"""

from __future__ import annotations

from typing import Any

from tidemill.common.types import Row
from tidemill.datastream.basic_functions import ReduceFunction
from tidemill.datastream.field_access import Field, get_field, with_field
from tidemill.errors import TypeMismatchError


class RollingFunction(ReduceFunction):
    """Base: reads and replaces the field that the aggregate is over."""

    label = "aggregate"

    def __init__(self, field: Field) -> None:
        if isinstance(field, bool) or not isinstance(field, (int, str)):
            raise TypeError(
                f"{self.label}(): a field is chosen by position or by name, not by a {type(field).__name__}"
            )
        if isinstance(field, int) and field < 0:
            raise ValueError(f"{self.label}({field}): a position counts from 0")
        self.field = field

    def read(self, value: Any) -> Any:
        """The field of a record."""
        if type(value) is tuple and type(self.field) is int and self.field < len(value):
            return value[self.field]  # the common case, kept short
        if self.field == 0 and is_basic(value):
            return value
        try:
            return get_field(value, self.field)
        except LookupError as error:
            raise TypeMismatchError(f"{self.label}({self.field!r}): {error.args[0]}") from None

    def replace(self, value: Any, new: Any) -> Any:
        """A copy of a record with another value in the field."""
        if type(value) is tuple and type(self.field) is int:
            return (*value[: self.field], new, *value[self.field + 1 :])
        if self.field == 0 and is_basic(value):
            return new
        return with_field(value, self.field, new)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.field!r})"


class Sum(RollingFunction):
    """Adds the field up.

    >>> Sum(1).reduce(("a", 1), ("a", 2))
    ('a', 3)
    """

    label = "sum"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The first record with the sum of both fields."""
        field = self.field
        if type(value1) is type(value2) is tuple and type(field) is int and field < len(value1) <= len(value2):
            items = list(value1)  # the common case, kept short: half the time of the general one
            items[field] += value2[field]
            return tuple(items)
        return self.replace(value1, self.read(value1) + self.read(value2))


class Min(RollingFunction):
    """Keeps the smallest value of the field.

    >>> Min(1).reduce(("first", 5), ("second", 2))
    ('first', 2)
    """

    label = "min"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The first record with the smaller of both fields."""
        new = self.read(value2)
        return self.replace(value1, new) if new < self.read(value1) else value1


class Max(RollingFunction):
    """Keeps the largest value of the field.

    >>> Max("n").reduce({"id": "first", "n": 5}, {"id": "second", "n": 7})
    {'id': 'first', 'n': 7}
    """

    label = "max"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The first record with the larger of both fields."""
        new = self.read(value2)
        return self.replace(value1, new) if new > self.read(value1) else value1


class MinBy(RollingFunction):
    """Keeps the record with the smallest value of the field.

    >>> MinBy(1).reduce(("first", 5), ("second", 2))
    ('second', 2)
    """

    label = "min_by"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The record with the smaller field, the first on a tie."""
        return value2 if self.read(value2) < self.read(value1) else value1


class MaxBy(RollingFunction):
    """Keeps the record with the largest value of the field.

    >>> MaxBy(1).reduce(("first", 5), ("second", 5))
    ('first', 5)
    """

    label = "max_by"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The record with the larger field, the first on a tie."""
        return value2 if self.read(value2) > self.read(value1) else value1


def is_basic(value: Any) -> bool:
    """Whether a value has no fields of its own."""
    return not isinstance(value, (tuple, list, Row, dict)) and not hasattr(value, "__dict__")
