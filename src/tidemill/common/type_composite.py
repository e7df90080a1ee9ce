"""Types made of other types: rows, tuples, arrays, lists, maps, optional values."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from tidemill.common.type_base import FastCheck, TypeInformation, all_types_in, restore
from tidemill.common.type_basic import BasicType, BasicTypeInfo
from tidemill.common.types import Row
from tidemill.errors import TypeMismatchError

_TUPLES = frozenset((tuple,))
_LISTS = frozenset((list, tuple))
_DICTS = frozenset((dict,))
_PRIMITIVES = frozenset(BasicType) - {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}


class RowTypeInfo(TypeInformation):
    """A :class:`Row`. Tuples, lists, dicts and objects with attributes are taken as rows too, as in PyFlink; a field
    may be None whatever its type."""

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
        """The names of the fields; ``f0``, ``f1``, ... if none were given."""
        return list(self._field_names)

    def get_field_index(self, field_name: str) -> int:
        """The position of the field; -1 if the fields were given no names. Raises ``ValueError`` for another name."""
        return self._field_names.index(field_name) if self._named else -1

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

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
                if set(names) != set(self._field_names):
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

    def fast_check(self) -> FastCheck:
        width, names = len(self._field_types), self._field_names
        in_order = (None, names) if self._named else None
        checks = [field_type.fast_check() for field_type in self._field_types]

        def check(values: Sequence[Any]) -> bool:
            if not all_types_in(frozenset((Row,)), values):
                return False
            if in_order is not None and any(row._fields not in in_order for row in values):
                return False
            rows = [row._values for row in values]
            return _same_width(rows, width) and all(
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
    """A tuple of fixed length. Lists and rows are taken as tuples too, as in PyFlink."""

    kind = "tuple"

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = tuple(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def _validate(self, value: Any, path: str) -> None:
        if not isinstance(value, (tuple, list, Row)):
            self.mismatch(value, path)
        if len(value) != len(self._field_types):
            self.mismatch(value, path, f" (it has {len(value)} fields, not {len(self._field_types)})")
        for i, (field_type, field) in enumerate(zip(self._field_types, value, strict=True)):
            field_type.validate(field, f"{path}[{i}]")

    def fast_check(self) -> FastCheck:
        width = len(self._field_types)
        checks = [field_type.fast_check() for field_type in self._field_types]

        def check(values: Sequence[Any]) -> bool:
            return (
                all_types_in(_TUPLES, values)
                and _same_width(values, width)
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
    """Any number of elements of one type."""

    _nullable_elements = False

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


class BasicArrayTypeInfo(_SequenceTypeInfo):
    """An array of basic values, each of which may be None."""

    kind = "basic_array"
    _nullable_elements = True

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        _require(element_type, _PRIMITIVES | {BasicType.STRING}, "a basic array")


class PrimitiveArrayTypeInfo(_SequenceTypeInfo):
    """An array of primitive values: a list, tuple or ``array.array``; for bytes also ``bytes`` and ``bytearray``."""

    kind = "primitive_array"

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        _require(element_type, _PRIMITIVES, "a primitive array")
        self._is_bytes = element_type == BasicTypeInfo(BasicType.BYTE)

    def _validate(self, value: Any, path: str) -> None:
        if not (self._is_bytes and isinstance(value, (bytes, bytearray))):
            super()._validate(value.tolist() if isinstance(value, array) else value, path)

    def fast_check(self) -> FastCheck:
        in_lists = super().fast_check()
        if not self._is_bytes:
            return in_lists
        return lambda values: all_types_in(frozenset((bytes, bytearray)), values) or in_lists(values)


class MapTypeInfo(TypeInformation):
    """A dict with keys of one type and values of another; a value may be None."""

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
    """None, or a value of another type. Tidemill's own, for the hint ``Optional[...]``."""

    kind = "optional"
    nullable = True

    def _validate(self, value: Any, path: str) -> None:
        self._element_type.validate(value, path)

    def fast_check(self) -> FastCheck:
        element_check = self._element_type.fast_check()
        return lambda values: element_check([value for value in values if value is not None])


def _same_width(values: Sequence[Any], width: int) -> bool:
    return {width}.issuperset(map(len, values))


def _require(element_type: TypeInformation, allowed: Iterable[BasicType], of: str) -> None:
    if not isinstance(element_type, BasicTypeInfo) or element_type.basic_type not in allowed:
        raise TypeMismatchError(f"{element_type} cannot be the element type of {of}; use Types.OBJECT_ARRAY")
