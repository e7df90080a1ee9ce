"""Types composed of other types: rows, tuples, arrays, lists, maps, optional values."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

from tidemill.common.type_kinds.array_names import BasicArrays, PrimitiveArrays
from tidemill.common.type_kinds.base import FastCheck, TypeInformation, all_types_in, restore
from tidemill.common.type_kinds.basic import BasicType, BasicTypeInfo
from tidemill.common.type_kinds.columns_of_fields import all_named, same_width, shaped_column
from tidemill.common.types import Row, RowKind
from tidemill.errors import TypeMismatchError

_ROWS = frozenset((Row,))
_TUPLES = frozenset((tuple,))
_LISTS = frozenset((list,))
_DICTS = frozenset((dict,))
_BYTES = frozenset((bytes,))
_PRIMITIVES = frozenset(BasicType) - {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}
_names_of = attrgetter("_fields")
_values_of = attrgetter("_values")
_kind_of = attrgetter("_row_kind")


class RowTypeInfo(TypeInformation):
    """A :class:`Row`.

    Tuples, lists, dicts and objects with attributes are accepted and converted to rows. A field may be None regardless
    of its type. The converted row has the field names of the type. If the type has no names, the row keeps its own
    names, or gets ``f0``, ``f1``, ...
    """

    kind = "row"

    def __init__(self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> None:
        if field_names is not None and len(field_names) != len(field_types):
            raise TypeMismatchError(f"{len(field_names)} field names for {len(field_types)} field types of a row")
        if field_names is not None and len(set(field_names)) != len(field_names):
            raise TypeMismatchError(f"the field names of a row must differ: {list(field_names)}")
        self._field_types = tuple(field_types)
        self._named = field_names is not None
        self._field_names = tuple(field_names or (f"f{i}" for i in range(len(field_types))))

    def get_field_names(self) -> list[str]:
        """The names of the fields; ``f0``, ``f1``, ... if the type has no names."""
        return list(self._field_names)

    @property
    def field_names(self) -> list[str]:
        """The names of the fields, as an attribute (legacy)."""
        return self.get_field_names()

    def get_field_index(self, field_name: str) -> int:
        """The position of the field, or -1 if the type has no names. Raises ``ValueError`` for an unknown name."""
        return self._field_names.index(field_name) if self._named else -1

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    @property
    def types(self) -> list[TypeInformation]:
        """The types of the fields, as an attribute (legacy)."""
        return self.get_field_types()

    def _validate(self, value: Any, path: str) -> None:
        for name, field_type, field in zip(
            self._field_names, self._field_types, self._fields_of(value, path), strict=True
        ):
            if field is not None:
                field_type.validate(field, f"{path}.{name}")

    def _fields_of(self, value: Any, path: str) -> Iterable[Any]:
        if isinstance(value, Row):
            names = value.get_field_names()
            if names is not None and self._named:
                if set(names) != set(self._field_names) or len(value) != len(names):
                    self.mismatch(value, path)
                return value.get_fields_by_names(self._field_names)
        elif isinstance(value, Mapping):
            return [value.get(name) for name in self._field_names]
        elif not isinstance(value, (tuple, list)):
            if not hasattr(value, "__dict__") or isinstance(value, type):
                self.mismatch(value, path)
            return [getattr(value, name, None) for name in self._field_names]
        if len(value) != len(self._field_types):
            self.mismatch(value, path, f" (it has {len(value)} fields, not {len(self._field_types)})")
        fields: Iterable[Any] = value
        return fields

    def shape(self, value: Any) -> Any:
        fields = zip(self._field_types, self._fields_of(value, ""), strict=True)
        return self._row(value, [None if field is None else field_type.shape(field) for field_type, field in fields])

    def _coerce(self, value: Any, path: str) -> Any:
        fields = zip(self._field_names, self._field_types, self._fields_of(value, path), strict=True)
        return self._row(
            value, [None if field is None else kind.coerce(field, f"{path}.{name}") for name, kind, field in fields]
        )

    def _row(self, value: Any, fields: list[Any]) -> Row:
        """A row of the type with these fields, which come from ``value``."""
        own = value.get_field_names() if isinstance(value, Row) and not self._named else None
        kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
        row = Row.of_kind(kind, *fields)
        # A row created from a template may have fewer values than names.
        row.set_field_names(own[: len(row)] if own else self._field_names)
        return row

    def shaper(self, *, strict: bool = True) -> Callable[[list[Any]], list[Any]]:
        fast, one_by_one, names = self.fast_check(), super().shaper(strict=strict), self._field_names
        shapers = [field_type.shaper(strict=strict) for field_type in self._field_types]

        def shaped(values: list[Any]) -> list[Any]:
            if fast(values):
                return values
            # The common case of rows without names, or with another numeric type: convert column by column.
            if not shapers or not all_types_in(_ROWS, values) or not all_named(values, None, names):
                return one_by_one(values)
            rows = list(map(_values_of, values))
            if not same_width(rows, len(shapers)):
                return one_by_one(values)
            try:
                columns = [shaped_column(shape, map(itemgetter(i), rows)) for i, shape in enumerate(shapers)]
            except TypeMismatchError:
                return one_by_one(values)  # raises the error with the position
            found = Row.of_columns(names, columns)
            kinds = list(map(_kind_of, values))
            if kinds.count(RowKind.INSERT) != len(kinds):
                for row, kind in zip(found, kinds, strict=True):
                    row.set_row_kind(kind)
            return found

        return shaped

    def fast_check(self) -> FastCheck:
        names, width = self._field_names if self._named else None, len(self._field_types)
        checks = [field_type.fast_check() for field_type in self._field_types]

        def check(values: Sequence[Any]) -> bool:
            if not all_types_in(_ROWS, values):
                return False
            found = list(map(_names_of, values))
            if None in found if names is None else found.count(names) != len(found):
                return False
            rows = list(map(_values_of, values))
            return same_width(rows, width) and all(
                column_check([v for v in map(itemgetter(i), rows) if v is not None])
                for i, column_check in enumerate(checks)
            )

        return check

    def _identity(self) -> tuple[Any, ...]:
        return (self._field_types, self._field_names)

    def _parameters(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"types": [t.describe() for t in self._field_types]}
        return {**fields, "names": list(self._field_names)} if self._named else fields

    @classmethod
    def _restore(cls, data: Mapping[str, Any]) -> TypeInformation:
        return cls([restore(t) for t in data["types"]], data.get("names"))

    def __repr__(self) -> str:
        if not self._named:
            return f"RowTypeInfo({', '.join(map(str, self._field_types))})"
        fields = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type}' for name, field_type in fields)})"


class TupleTypeInfo(TypeInformation):
    """A tuple of fixed length. As in PyFlink, lists and rows are accepted too; they are converted to tuples."""

    kind = "tuple"

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = tuple(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    @property
    def types(self) -> list[TypeInformation]:
        """The types of the fields, as an attribute (legacy)."""
        return self.get_field_types()

    def _validate_width(self, value: Any, path: str) -> None:
        if not isinstance(value, (tuple, list, Row)):
            self.mismatch(value, path)
        if len(value) != len(self._field_types):
            self.mismatch(value, path, f" (it has {len(value)} fields, not {len(self._field_types)})")

    def _validate(self, value: Any, path: str) -> None:
        self._validate_width(value, path)
        for i, (field_type, field) in enumerate(zip(self._field_types, value, strict=True)):
            field_type.validate(field, f"{path}[{i}]")

    def shape(self, value: Any) -> Any:
        fields = zip(self._field_types, value, strict=True)
        return tuple([None if field is None else field_type.shape(field) for field_type, field in fields])

    def _coerce(self, value: Any, path: str) -> Any:
        self._validate_width(value, path)
        fields = enumerate(zip(self._field_types, value, strict=True))
        return tuple([kind.coerce(field, f"{path}[{i}]") for i, (kind, field) in fields])

    def shaper(self, *, strict: bool = True) -> Callable[[list[Any]], list[Any]]:
        width, one_by_one = len(self._field_types), super().shaper(strict=strict)
        shapers = [field_type.shaper(strict=strict) for field_type in self._field_types]

        def shaped(values: list[Any]) -> list[Any]:
            if not all_types_in(_TUPLES, values) or not same_width(values, width):
                return one_by_one(values)
            columns = [list(map(itemgetter(i), values)) for i in range(width)]
            try:
                found = [shape(column) for shape, column in zip(shapers, columns, strict=True)]
            except TypeMismatchError:
                return one_by_one(values)  # raises the error with the position
            if all(new is old for new, old in zip(found, columns, strict=True)):
                return values
            return list(zip(*found, strict=True))

        return shaped

    def fast_check(self) -> FastCheck:
        width = len(self._field_types)
        checks = [field_type.fast_check() for field_type in self._field_types]

        def check(values: Sequence[Any]) -> bool:
            return (
                all_types_in(_TUPLES, values)
                and same_width(values, width)
                and all(column_check(list(map(itemgetter(i), values))) for i, column_check in enumerate(checks))
            )

        return check

    def _identity(self) -> tuple[Any, ...]:
        return (self._field_types,)

    def _parameters(self) -> dict[str, Any]:
        return {"types": [t.describe() for t in self._field_types]}

    @classmethod
    def _restore(cls, data: Mapping[str, Any]) -> TypeInformation:
        return cls([restore(t) for t in data["types"]])

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


class _SequenceTypeInfo(TypeInformation):
    """Any number of elements of one type: a list, or a tuple, which is converted to a list."""

    #: Whether an element may be None: strictly, and as in Flink.
    _nullable_elements = False
    _nullable_coerced = True

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = element_type

    @property
    def elem_type(self) -> TypeInformation:
        return self._element_type

    def _validate(self, value: Any, path: str) -> None:
        if not isinstance(value, (list, tuple)):
            self.mismatch(value, path)
        for i, element in enumerate(value):
            if element is not None or not self._nullable_elements:
                self._element_type.validate(element, f"{path}[{i}]")

    def shape(self, value: Any) -> Any:
        return [None if element is None else self._element_type.shape(element) for element in value]

    def _coerce(self, value: Any, path: str) -> Any:
        if not isinstance(value, (list, tuple)):
            value = self._listed(value, path)
        coerce, nullable = self._element_type.coerce, self._nullable_coerced
        return [
            None if element is None and nullable else coerce(element, f"{path}[{i}]") for i, element in enumerate(value)
        ]

    def _listed(self, value: Any, path: str) -> Sequence[Any]:
        """The elements of a value that is neither a list nor a tuple."""
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
            return value
        to_list = getattr(value, "tolist", None)  # of array.array and numpy.ndarray
        if to_list is None:
            self.mismatch(value, path)
        elements: list[Any] = to_list()
        return elements

    def fast_check(self) -> FastCheck:
        element_check, nullable = self._element_type.fast_check(), self._nullable_elements

        def check(values: Sequence[Any]) -> bool:
            if not all_types_in(_LISTS, values):
                return False
            elements: Iterator[Any] = chain.from_iterable(values)
            return element_check([e for e in elements if e is not None] if nullable else list(elements))

        return check

    def _identity(self) -> tuple[Any, ...]:
        return (self._element_type,)

    def _parameters(self) -> dict[str, Any]:
        return {"element": self._element_type.describe()}

    @classmethod
    def _restore(cls, data: Mapping[str, Any]) -> TypeInformation:
        return cls(restore(data["element"]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._element_type}>"


class ListTypeInfo(_SequenceTypeInfo):
    """A list of elements of one type."""

    kind = "list"


class ObjectArrayTypeInfo(_SequenceTypeInfo):
    """An array of elements of one type, each of which may be None."""

    kind = "object_array"
    _nullable_elements = True


class BasicArrayTypeInfo(_SequenceTypeInfo, BasicArrays):
    """An array of basic values, each of which may be None."""

    kind = "basic_array"
    _nullable_elements = True

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        _require(element_type, _PRIMITIVES | {BasicType.STRING}, "a basic array")


class PrimitiveArrayTypeInfo(_SequenceTypeInfo, PrimitiveArrays):
    """An array of primitive values: a list, tuple or ``array.array``.

    An array of bytes may also be ``bytes`` or ``bytearray``, which is converted to ``bytes``.
    """

    kind = "primitive_array"
    _nullable_coerced = False

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        _require(element_type, _PRIMITIVES, "a primitive array")
        self._is_bytes = element_type == BasicTypeInfo(BasicType.BYTE)

    def _validate(self, value: Any, path: str) -> None:
        if not (self._is_bytes and isinstance(value, (bytes, bytearray))):
            super()._validate(value.tolist() if isinstance(value, array) else value, path)

    def shape(self, value: Any) -> Any:
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        return value if isinstance(value, array) else super().shape(value)

    def _coerce(self, value: Any, path: str) -> Any:
        if isinstance(value, (bytes, bytearray)) and self._is_bytes:
            return bytes(value)
        return value if isinstance(value, array) else super()._coerce(value, path)

    def fast_check(self) -> FastCheck:
        in_lists = super().fast_check()
        if not self._is_bytes:
            return in_lists
        return lambda values: all_types_in(_BYTES, values) or in_lists(values)


class MapTypeInfo(TypeInformation):
    """A dict with keys of one type and values of another; a value may be None.

    A key is converted to the form of its type, unless that form is not hashable: a tuple given for a list type stays a
    tuple.
    """

    kind = "map"

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = key_type_info
        self._value_type_info = value_type_info

    @property
    def key_type(self) -> TypeInformation:
        return self._key_type_info

    @property
    def value_type(self) -> TypeInformation:
        return self._value_type_info

    def _validate(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            self.mismatch(value, path)
        for key, item in value.items():
            self._key_type_info.validate(key, f"{path}.key({key!r})")
            if item is not None:
                self._value_type_info.validate(item, f"{path}[{key!r}]")

    def shape(self, value: Any) -> Any:
        item_shape = self._value_type_info.shape
        return {self._key(key): None if item is None else item_shape(item) for key, item in value.items()}

    def _coerce(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            self.mismatch(value, path)
        coerce = self._value_type_info.coerce
        return {
            self._key(key, f"{path}.key({key!r})"): None if item is None else coerce(item, f"{path}[{key!r}]")
            for key, item in value.items()
        }

    def _key(self, key: Any, path: str | None = None) -> Any:
        """Converts a key; with a path, which an error names, one that has not been validated."""
        if path is not None:
            shaped = self._key_type_info.coerce(key, path)
        elif key is None:
            return None
        else:
            shaped = self._key_type_info.shape(key)
        try:
            hash(shaped)
        except TypeError:
            return key
        return shaped

    def fast_check(self) -> FastCheck:
        keys_check, items_check = self._key_type_info.fast_check(), self._value_type_info.fast_check()

        def check(values: Sequence[Any]) -> bool:
            if not all_types_in(_DICTS, values):
                return False
            return keys_check(list(chain.from_iterable(values))) and items_check(
                [item for value in values for item in value.values() if item is not None]
            )

        return check

    def _identity(self) -> tuple[Any, ...]:
        return (self._key_type_info, self._value_type_info)

    def _parameters(self) -> dict[str, Any]:
        return {"key": self._key_type_info.describe(), "value": self._value_type_info.describe()}

    @classmethod
    def _restore(cls, data: Mapping[str, Any]) -> TypeInformation:
        return cls(restore(data["key"]), restore(data["value"]))

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


class OptionalTypeInfo(_SequenceTypeInfo):
    """None or a value of another type, for the type hint ``Optional[...]``. Not part of PyFlink."""

    kind = "optional"
    nullable = True

    def _validate(self, value: Any, path: str) -> None:
        self._element_type.validate(value, path)

    def shape(self, value: Any) -> Any:
        return self._element_type.shape(value)

    def _coerce(self, value: Any, path: str) -> Any:
        return self._element_type.coerce(value, path)

    def fast_check(self) -> FastCheck:
        element_check = self._element_type.fast_check()
        return lambda values: element_check([value for value in values if value is not None])


def _require(element_type: TypeInformation, allowed: Iterable[BasicType], of: str) -> None:
    if not isinstance(element_type, BasicTypeInfo) or element_type.basic_type not in allowed:
        raise TypeMismatchError(f"{element_type} cannot be the element type of {of}; use Types.OBJECT_ARRAY")
