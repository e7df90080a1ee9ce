"""Type snapshots: the declared types of a state, stored with it, and their compatibility with a program's types.

Every section of a state file contains a snapshot under ``types`` in its schema: plain JSON, so that it can be read and
compared without the user's classes. When a program registers a state, its declared types are compared with the stored
ones before any value is read: :func:`compatibility` decides, on descriptions alone.

Compatible changes lose no data:

- the same type; any type, if the program no longer declares one;
- a wider number: BYTE, SHORT, INT -> LONG -> BIG_INT; FLOAT -> DOUBLE; BYTE, SHORT, INT -> FLOAT, DOUBLE (a float
  represents 32 bits exactly); CHAR -> STRING; T -> OPTIONAL(T);
- an enum with more members;
- a dataclass or NamedTuple with new fields that have defaults, or with fields removed, but not both at once: a renamed
  field would lose its values. Likewise a named row, whose new fields are None. This does not apply to keys: removing a
  field could make two keys equal, and adding a field moves a key to another group;
- a type declared where there was none: then every stored value is checked against it.

For anything else a program can register a function (:meth:`StateDescriptor.migrate_from`), which has precedence.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation
from tidemill.common.types import Row
from tidemill.errors import SerializationError
from tidemill.state.codecs.class_names import replaced_fields

__all__ = [
    "SNAPSHOT_VERSION",
    "Convert",
    "Incompatible",
    "Same",
    "StateTypes",
    "compatibility",
    "parse_type_snapshot",
    "type_text",
]

#: Version of the result of :meth:`StateTypes.snapshot`.
SNAPSHOT_VERSION: Final = 1

#: Converts one stored value, which is not None, to the declared type.
Converter = Callable[[Any], Any]
_Description = Mapping[str, Any]

_INTEGERS: Final = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
_FLOATS: Final = ("FLOAT", "DOUBLE")
#: Basic types whose values may be None, so that OPTIONAL of such a type is the type itself.
_NULLABLE: Final = ("STRING", "BIG_INT", "BIG_DEC", "INSTANT")
_BYTE: Final = {"kind": "basic", "name": "BYTE"}


@dataclass(frozen=True)
class Same:
    """The stored type is the declared one."""


@dataclass(frozen=True)
class Convert:
    """Stored values can be used. ``apply`` converts one to the declared type; None if no conversion is needed.

    ``check``: the stored type is unknown, at least in part, so each value must be validated against the declared type.
    ``migration``: ``apply`` is defined by the program, and accepts plain data.
    """

    apply: Converter | None = None
    check: bool = False
    migration: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Incompatible:
    """Stored values cannot be used; ``reason`` names the part that does not fit, and why."""

    reason: str


Compatibility = Same | Convert | Incompatible


@dataclass(frozen=True)
class StateTypes:
    """The declared types of a state: of its keys (None: unknown), values (for a list: elements) and map keys."""

    kind: str
    key: TypeInformation | None
    value: TypeInformation
    user_key: TypeInformation | None = None

    def snapshot(self) -> dict[str, Any]:
        """These types as plain JSON data; read back with :func:`parse_snapshot`."""
        described: dict[str, Any] = {"v": SNAPSHOT_VERSION, "kind": self.kind}
        for column in ("key", "user_key", "value"):
            type_info: TypeInformation | None = getattr(self, column)
            if type_info is not None:
                described[column] = type_info.describe()
        return described

    def of(self, column: str) -> TypeInformation | None:
        """The type of the values in a column of the state's sections (of one element, for lists)."""
        found: TypeInformation | None = getattr(self, column)
        return found


def parse_type_snapshot(snapshot: Any) -> dict[str, _Description]:
    """The description of each column's type; empty if nothing is known (None).

    Raises :class:`SerializationError` for a snapshot of another version.
    """
    if snapshot is None:
        return {}
    if not isinstance(snapshot, Mapping) or snapshot.get("v") != SNAPSHOT_VERSION:
        version = snapshot.get("v") if isinstance(snapshot, Mapping) else snapshot
        raise SerializationError(
            f"the types of a stored state are of version {version!r}; supported is version {SNAPSHOT_VERSION}"
        )
    return {column: snapshot[column] for column in ("key", "user_key", "value") if column in snapshot}


def compatibility(stored: _Description, declared: _Description, *, is_key: bool = False) -> Compatibility:
    """Whether a program that declares one type can use values stored as another; both are type descriptions.

    ``is_key``: the values are keys, whose meaning must not change.

    >>> from tidemill.common.typeinfo import Types
    >>> compatibility(Types.INT().describe(), Types.LONG().describe())
    Convert(apply=None, check=False)
    >>> compatibility(Types.LIST(Types.LONG()).describe(), Types.LIST(Types.INT()).describe())
    Incompatible(reason='element: Long cannot become Integer')
    """
    if json.dumps(stored) == json.dumps(declared):  # the order of fields matters: a key's hash depends on it
        return Same()
    if declared["kind"] == "pickled":
        return Convert()
    if stored["kind"] == "pickled":
        return Convert(check=True)
    if declared["kind"] == "optional" and stored["kind"] != "optional":
        return _inside(compatibility(stored, declared["element"], is_key=is_key))
    if stored["kind"] == "optional" and declared.get("name") in _NULLABLE:
        return _inside(compatibility(stored["element"], declared, is_key=is_key))
    if stored["kind"] != declared["kind"]:
        return _cannot(stored, declared)
    return _RULES.get(stored["kind"], _fixed)(stored, declared, is_key)


def type_text(description: _Description) -> str:
    """The text of a type as in :class:`TypeInformation`, from its description alone; includes fields of classes."""
    kind = description["kind"]
    if kind == "basic":
        return _BASIC_TEXT.get(description["name"], str(description["name"]))
    if kind == "map":
        return f"{_CLASS_TEXT[kind]}<{type_text(description['key'])}, {type_text(description['value'])}>"
    if "element" in description:
        return f"{_CLASS_TEXT[kind]}<{type_text(description['element'])}>"
    if "types" in description:
        types, names = description["types"], description.get("names")
        parts = [type_text(t) for t in types]
        if names:
            parts = [f"{name}: {part}" for name, part in zip(names, parts, strict=True)]
        return f"{_CLASS_TEXT[kind]}({', '.join(parts)})"
    if "fields" in description:
        fields = ", ".join(f"{name}: {type_text(t)}" for name, t in description["fields"].items())
        return f"{description['class']}({fields})"
    return str(description.get("class", _CLASS_TEXT.get(kind, kind)))


_BASIC_TEXT: Final = {"INT": "Integer", "BIG_INT": "BigInteger", "BIG_DEC": "BigDecimal"} | {
    name: name.capitalize()
    for name in ("STRING", "BYTE", "BOOLEAN", "SHORT", "LONG", "FLOAT", "DOUBLE", "CHAR", "INSTANT")
}
_CLASS_TEXT: Final = {
    "map": "MapTypeInfo",
    "list": "ListTypeInfo",
    "object_array": "ObjectArrayTypeInfo",
    "basic_array": "BasicArrayTypeInfo",
    "primitive_array": "PrimitiveArrayTypeInfo",
    "optional": "OptionalTypeInfo",
    "tuple": "TupleTypeInfo",
    "row": "RowTypeInfo",
    "sql_date": "DateTypeInfo",
    "sql_time": "TimeTypeInfo",
    "sql_timestamp": "TimestampTypeInfo",
    "pickled": "PickledByteArrayTypeInfo",
}


def _cannot(stored: _Description, declared: _Description) -> Incompatible:
    before, after = type_text(stored), type_text(declared)
    if before == after:  # a class of the same name, but a dataclass before and a named tuple now
        before, after = (f"the {one['kind'].replace('_', ' ')} {type_text(one)}" for one in (stored, declared))
    return Incompatible(f"{before} cannot become {after}")


def _inside(found: Compatibility) -> Compatibility:
    """The result for an outer type that differs from the stored one, from the result for the inner type."""
    return Convert() if isinstance(found, Same) else found


def _basic(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    old, new = stored["name"], declared["name"]
    if old in _INTEGERS and new in _INTEGERS and _INTEGERS.index(old) < _INTEGERS.index(new):
        return Convert()
    if (old, new) in (("FLOAT", "DOUBLE"), ("CHAR", "STRING")):
        return Convert()
    if old in _INTEGERS[:3] and new in _FLOATS:
        return Convert(float)
    return _cannot(stored, declared)


def _sequence(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    if stored["kind"] == "primitive_array" and stored["element"] == _BYTE:
        return _cannot(stored, declared)  # its values are bytes; those of other arrays are lists
    found = compatibility(stored["element"], declared["element"], is_key=is_key)
    if isinstance(found, Incompatible):
        return Incompatible(f"element: {found.reason}")
    if isinstance(found, Same) or found.apply is None:
        return _inside(found)
    each = _nullable(found.apply)
    return Convert(lambda values: [each(value) for value in values], found.check)


def _optional(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    return _inside(compatibility(stored["element"], declared["element"], is_key=is_key))


def _map(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    parts = _parts(
        {"key": (stored["key"], declared["key"]), "value": (stored["value"], declared["value"])}, {"key"}, is_key
    )
    if isinstance(parts, Incompatible):
        return parts
    key, value = (_nullable(parts[0].get(name)) for name in ("key", "value"))
    apply = (lambda items: {key(k): value(v) for k, v in items.items()}) if parts[0] else None
    return Convert(apply, parts[1])


def _tuple(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    old, new = stored["types"], declared["types"]
    if len(old) != len(new):
        return Incompatible(f"{type_text(stored)} has {len(old)} fields, {type_text(declared)} has {len(new)}")
    parts = _parts(dict(enumerate(zip(old, new, strict=True))), set(), is_key)
    if isinstance(parts, Incompatible):
        return parts
    converters, check = parts
    each = [_nullable(converters.get(i)) for i in range(len(new))]
    apply = (lambda value: tuple(f(v) for f, v in zip(each, value, strict=True))) if converters else None
    return Convert(apply, check)


def _row(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    old_names, new_names = stored.get("names"), declared.get("names")
    if old_names is None or new_names is None:
        if (old_names is None) != (new_names is None):
            return _cannot(stored, declared)
        found = _tuple(stored, declared, is_key)
        if isinstance(found, Convert) and found.apply is not None:
            fields = found.apply
            return Convert(lambda row: _with_values(row, list(fields(row))), found.check)
        return found
    old, new = dict(zip(old_names, stored["types"], strict=True)), dict(zip(new_names, declared["types"], strict=True))
    if is_key and old_names != new_names:
        return Incompatible(f"a key has the fields {old_names} and cannot have {new_names}")
    if (problem := replaced_fields(old, new)) is not None:
        return Incompatible(problem)
    parts = _parts({name: (old[name], new[name]) for name in new if name in old}, set(), is_key)
    if isinstance(parts, Incompatible):
        return parts
    converters, check = parts
    if old_names == new_names and not converters:
        return Convert(check=check)

    def convert(row: Any) -> Any:
        values = dict(zip(old_names, row, strict=True))
        kept = [_nullable(converters.get(name))(values.get(name)) for name in new_names]
        return _with_values(row, kept, new_names)

    return Convert(convert, check)


def _with_values(row: Row, values: list[Any], names: list[str] | None = None) -> Row:
    made = Row.of_kind(row.get_row_kind(), *values)
    if names is not None:
        made.set_field_names(names)
    return made


def _class(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    if stored["class"] != declared["class"]:
        return Incompatible(f"{stored['class']} cannot become {declared['class']}")
    old, new = stored["fields"], declared["fields"]
    if is_key and list(old) != list(new):
        return Incompatible(f"a key has the fields {list(old)} and cannot have {list(new)}")
    if (problem := replaced_fields(old, new)) is not None:
        return Incompatible(problem)
    without = [name for name in new if name not in old and name not in declared.get("defaults", ())]
    if without:
        return Incompatible(f"{declared['class']} has a new field {without[0]!r}, which needs a default")
    parts = _parts({name: (old[name], new[name]) for name in new if name in old}, set(), is_key)
    if isinstance(parts, Incompatible):
        return parts
    converters, check = parts
    if not converters:  # added and removed fields are handled when values are decoded
        return Convert(check=check)

    def convert(value: Any) -> Any:
        changed = {name: f(getattr(value, name)) for name, f in converters.items() if getattr(value, name) is not None}
        if not dataclasses.is_dataclass(value):
            return value._replace(**changed)
        for name, made in changed.items():
            object.__setattr__(value, name, made)
        return value

    return Convert(convert, check)


def _enum(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    if stored["class"] != declared["class"]:
        return Incompatible(f"{stored['class']} cannot become {declared['class']}")
    gone = [name for name in stored["members"] if name not in declared["members"]]
    if gone:
        return Incompatible(f"{declared['class']} no longer has the member {gone[0]!r}")
    return Convert()


def _parts(
    pairs: Mapping[Any, tuple[_Description, _Description]], keys: set[str], is_key: bool
) -> tuple[dict[Any, Converter], bool] | Incompatible:
    """The converters of those parts that need one, and whether values must be checked."""
    converters: dict[Any, Converter] = {}
    check = False
    for name, (stored, declared) in pairs.items():
        found = compatibility(stored, declared, is_key=is_key or name in keys)
        if isinstance(found, Incompatible):
            return Incompatible(f"{name if isinstance(name, str) else f'field {name}'}: {found.reason}")
        if isinstance(found, Convert):
            check = check or found.check
            if found.apply is not None:
                converters[name] = found.apply
    return converters, check


def _nullable(convert: Converter | None) -> Converter:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _fixed(stored: _Description, declared: _Description, is_key: bool) -> Compatibility:
    return _cannot(stored, declared)


_RULES: Final[dict[str, Callable[[_Description, _Description, bool], Compatibility]]] = {
    "basic": _basic,
    "list": _sequence,
    "object_array": _sequence,
    "basic_array": _sequence,
    "primitive_array": _sequence,
    "optional": _optional,
    "map": _map,
    "tuple": _tuple,
    "row": _row,
    "dataclass": _class,
    "named_tuple": _class,
    "enum": _enum,
}
