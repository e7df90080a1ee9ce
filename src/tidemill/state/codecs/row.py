"""The codec of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.common.types import Row, RowKind
from tidemill.errors import SerializationError
from tidemill.python_versions import Self
from tidemill.state.codecs.base import ColumnCodec, Loading, refuse
from tidemill.state.codecs.basic import LongCodec
from tidemill.state.codecs.fields import FieldsCodec, restore_children, split_rows
from tidemill.state.codecs.tagged import TaggedCodec

__all__ = ["RowCodec"]

_INSERT = RowKind.INSERT
_KINDS = tuple(RowKind)


class RowCodec(FieldsCodec):
    """Rows; tuples, lists, dicts and objects with matching attributes are treated as rows.

    With ``names`` None, rows that all have the same names keep them. Row kinds are stored in an additional child, if
    any is not INSERT.
    """

    name = "row"

    def __init__(self, children: Sequence[ColumnCodec], names: Sequence[str] | None, *, kinds: bool = False) -> None:
        self._row_names = None if names is None else tuple(names)
        self._has_kinds = kinds
        fields = [f"f{i}" for i in range(len(children))] if names is None else list(names)
        super().__init__([*children, LongCodec()] if kinds else children, [*fields, "$kind"] if kinds else fields)

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        if self._has_kinds:
            return super()._encode(values, exact=exact)
        kinds = any(value._row_kind is not _INSERT for value in values if isinstance(value, Row))
        if exact:
            if kinds:
                raise SerializationError("rows of other kinds than INSERT cannot be stored in a plain row column")
            return super()._encode(values, exact=True)
        names = self._row_names
        if names is None:
            found = {value._fields if isinstance(value, Row) else None for value in values if value is not None}
            if len(found) > 1:  # some have names and some do not, or the names differ
                return TaggedCodec()._encode(values, exact=False)
            names = found.pop() if found else None
            if names is not None and len(names) != len(self._children):
                refuse(values, f"a row of {len(self._children)} fields", lambda value: False)
        if kinds or names != self._row_names:
            return RowCodec(self._children, names, kinds=kinds)._with_fields(values)
        return super()._encode(values, exact=False)

    def _with_fields(self, values: list[Any]) -> tuple[ColumnCodec, Any]:
        return super()._encode(values, exact=False)

    def _columns(self, values: list[Any], kinds: set[type]) -> list[list[Any]]:
        width = len(self._children) - self._has_kinds
        rows = [self._fields_of(value) for value in values]
        for value, row in zip(values, rows, strict=True):
            if len(row) != width:
                refuse([value], f"a row of {width} fields {self._row_names or ''}", lambda value: False)
        columns = split_rows(rows, width)
        if self._has_kinds:
            columns.append([value._row_kind.value if isinstance(value, Row) else 0 for value in values])
        return columns

    def _fields_of(self, value: Any) -> Sequence[Any]:
        names = self._row_names
        if type(value) is Row:
            if names is None or value._fields is None or value._fields == names:
                if names is None and value._fields is not None:
                    refuse([value], "a row without field names", lambda value: False)
                return value._values
            return value.get_fields_by_names(names) if set(names) == set(value._fields) else ()
        if value is None:
            return (None,) * (len(self._children) - self._has_kinds)
        if isinstance(value, (tuple, list)):
            return value
        keys = [f"f{i}" for i in range(len(self._children) - self._has_kinds)] if names is None else names
        if isinstance(value, Mapping):
            return [value.get(name) for name in keys]
        return [getattr(value, name, None) for name in keys] if hasattr(value, "__dict__") else ()

    def _join(self, columns: list[list[Any]]) -> list[Any]:
        kinds = columns.pop() if self._has_kinds else None
        rows: list[Any] = Row.of_columns(self._row_names, columns)
        if kinds is not None:
            for row, kind in zip(rows, kinds, strict=True):
                row.set_row_kind(_KINDS[kind or 0])
        return rows

    def _with(self, children: list[ColumnCodec]) -> Self:
        fields = children[:-1] if self._has_kinds else children
        return type(self)(fields, self._row_names, kinds=self._has_kinds)

    def _parameters(self) -> dict[str, Any]:
        fields = self._children[:-1] if self._has_kinds else self._children
        names = None if self._row_names is None else list(self._row_names)
        return {"fields": [child.spec() for child in fields], "names": names, "kinds": self._has_kinds}

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls(restore_children(spec, loading), spec["names"], kinds=spec["kinds"])
