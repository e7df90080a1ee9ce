"""Selects fields of a record."""

from __future__ import annotations

from typing import Any

from tidemill.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from tidemill.common.types import Row
from tidemill.datastream.functions.basic import MapFunction
from tidemill.errors import GraphError, TypeMismatchError


class Projection(MapFunction):
    """Selects the fields at given positions. The result is a row for a row, and a tuple for a tuple or list.

    >>> Projection((2, 0)).map(("a", "b", "c"))
    ('c', 'a')
    """

    def __init__(self, positions: tuple[int, ...]) -> None:
        if not positions:
            raise ValueError("project() needs at least one position")
        for position in positions:
            if type(position) is not int or position < 0:
                raise ValueError(f"project(): a position must be an integer of at least 0, not {position!r}")
        self.positions = positions

    def map(self, value: Any) -> Any:
        """Returns the selected fields."""
        try:
            if isinstance(value, Row):
                names = value.get_field_names()
                row = Row(*[value[position] for position in self.positions])
                if names is not None:
                    row.set_field_names([names[position] for position in self.positions])
                row.set_row_kind(value.get_row_kind())
                return row
            if isinstance(value, (tuple, list)):
                return tuple([value[position] for position in self.positions])
        except IndexError:
            raise TypeMismatchError(
                f"project{self.positions}: a {type(value).__name__} of {len(value)} fields lacks one of them: {value!r}"
            ) from None
        raise TypeMismatchError(f"project{self.positions}: a {type(value).__name__} has no positions: {value!r}")

    def type_of(self, source: TypeInformation | None) -> TypeInformation | None:
        """The type of the result, or None if it cannot be derived from the type of the stream."""
        if not isinstance(source, (TupleTypeInfo, RowTypeInfo)):
            return None
        types = source.get_field_types()
        if max(self.positions) >= len(types):
            raise GraphError(f"project{self.positions} of a stream with {len(types)} fields: {source}")
        chosen = [types[position] for position in self.positions]
        if isinstance(source, TupleTypeInfo):
            return TupleTypeInfo(chosen)
        names = source.get_field_names()
        return RowTypeInfo(chosen, [names[position] for position in self.positions])
