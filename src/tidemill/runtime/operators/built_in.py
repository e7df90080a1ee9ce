"""The implementation of built-in aggregates, record by record.

``min`` and ``max`` keep the other fields of the first record, ``min_by`` and ``max_by`` return a whole record, the
first one on ties. A value without fields is its own field 0. No function changes its arguments.

Only :func:`with_code` selects the implementation of a built-in aggregate. A columnar one would be selected there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tidemill.common.types import Row
from tidemill.datastream.functions.basic import AggregateFunction, ReduceFunction
from tidemill.datastream.functions.built_in import AggregateKind, BuiltIn
from tidemill.datastream.functions.field_access import Field, get_field, with_field
from tidemill.datastream.program.specs import ReduceSpec, WindowSpec
from tidemill.errors import TypeMismatchError


class OverField:
    """Reads and replaces the field of an aggregate."""

    label: str

    def __init__(self, field: Field) -> None:
        self.field = field

    def read(self, value: Any) -> Any:
        """Return the field of a record."""
        if type(value) is tuple and type(self.field) is int and self.field < len(value):
            return value[self.field]  # the common case, kept short
        if self.field == 0 and is_basic(value):
            return value
        try:
            return get_field(value, self.field)
        except LookupError as error:
            raise TypeMismatchError(f"{self.label}({self.field!r}): {error.args[0]}") from None

    def replace(self, value: Any, new: Any) -> Any:
        """Return a copy of a record with another value in the field."""
        if type(value) is tuple and type(self.field) is int:
            return (*value[: self.field], new, *value[self.field + 1 :])
        if self.field == 0 and is_basic(value):
            return new
        return with_field(value, self.field, new)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.field!r})"


class BuiltInReduce(OverField, ReduceFunction):
    """A built-in aggregate whose result is a record like its input records."""


class Sum(BuiltInReduce):
    """Sums the field.

    >>> Sum(1).reduce(("a", 1), ("a", 2))
    ('a', 3)
    """

    label = "sum"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the first record with the sum of both fields."""
        field = self.field
        if type(value1) is type(value2) is tuple and type(field) is int and field < len(value1) <= len(value2):
            items = list(value1)  # the common case, kept short: half the time of the general one
            items[field] += value2[field]
            return tuple(items)
        return self.replace(value1, self.read(value1) + self.read(value2))


class Min(BuiltInReduce):
    """Keeps the smallest value of the field.

    >>> Min(1).reduce(("first", 5), ("second", 2))
    ('first', 2)
    """

    label = "min"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the first record with the smaller of both fields."""
        new = self.read(value2)
        return self.replace(value1, new) if new < self.read(value1) else value1


class Max(BuiltInReduce):
    """Keeps the largest value of the field.

    >>> Max("n").reduce({"id": "first", "n": 5}, {"id": "second", "n": 7})
    {'id': 'first', 'n': 7}
    """

    label = "max"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the first record with the larger of both fields."""
        new = self.read(value2)
        return self.replace(value1, new) if new > self.read(value1) else value1


class MinBy(BuiltInReduce):
    """Keeps the record with the smallest value of the field.

    >>> MinBy(1).reduce(("first", 5), ("second", 2))
    ('second', 2)
    """

    label = "min_by"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the record with the smaller field, the first on a tie."""
        return value2 if self.read(value2) < self.read(value1) else value1


class MaxBy(BuiltInReduce):
    """Keeps the record with the largest value of the field.

    >>> MaxBy(1).reduce(("first", 5), ("second", 5))
    ('first', 5)
    """

    label = "max_by"

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the record with the larger field, the first on a tie."""
        return value2 if self.read(value2) > self.read(value1) else value1


class Count(AggregateFunction):
    """The number of records."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Avg(OverField, AggregateFunction):
    """The mean of the field. The accumulator is the sum and the number of records.

    >>> mean = Avg(1)
    >>> mean.get_result(mean.add(("b", 2), mean.add(("a", 1), mean.create_accumulator())))
    1.5
    """

    label = "avg"

    def create_accumulator(self) -> tuple[Any, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[Any, int]) -> tuple[Any, int]:
        return accumulator[0] + self.read(value), accumulator[1] + 1

    def get_result(self, accumulator: tuple[Any, int]) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[Any, int], acc_b: tuple[Any, int]) -> tuple[Any, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


_OVER_FIELD: Final[dict[AggregateKind, Any]] = {
    AggregateKind.SUM: Sum,
    AggregateKind.MIN: Min,
    AggregateKind.MAX: Max,
    AggregateKind.MIN_BY: MinBy,
    AggregateKind.MAX_BY: MaxBy,
    AggregateKind.AVG: Avg,
}


def code_of(function: Any) -> Any:
    """Return the implementation of a built-in aggregate, or any other function unchanged."""
    if not isinstance(function, BuiltIn):
        return function
    return Count() if function.kind is AggregateKind.COUNT else _OVER_FIELD[function.kind](function.field)


def with_code(spec: Any) -> Any:
    """Return the spec of an operator with built-in aggregates replaced by their implementation."""
    if isinstance(spec, ReduceSpec):
        return replace(spec, function=code_of(spec.function))
    if isinstance(spec, WindowSpec):
        return replace(spec, reduce=code_of(spec.reduce), aggregate=code_of(spec.aggregate))
    return spec


def is_basic(value: Any) -> bool:
    """Whether a value has no fields."""
    return not isinstance(value, (tuple, list, Row, dict)) and not hasattr(value, "__dict__")
