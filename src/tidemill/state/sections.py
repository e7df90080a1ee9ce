"""Between tables and files: rows of Python values as the columns of a section, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from tidemill.errors import SerializationError, StateError, StateMigrationError, TypeMismatchError
from tidemill.state.canonical_key import canonical_keys
from tidemill.state.class_names import Loading
from tidemill.state.codec_ttl import Stamped, StampedTypeInfo, plain_type
from tidemill.state.column_codecs import ColumnCodec, ListCodec, codec_for, decode_column, encode_column
from tidemill.state.key_groups import GroupCache
from tidemill.state.plain_values import plain_loading, shown
from tidemill.state.rows import Rows
from tidemill.state.serializers import Convert, Incompatible, StateTypes, compatibility, parse_snapshot, type_text
from tidemill.state.state_file import Section
from tidemill.state.ttl_declared import SCHEMA_KEY, DeclaredTtl, stored_ttl
from tidemill.state.ttl_rows import fit_times

#: A program's own migrations of a state, by the text of the type that they take values of.
Migrations = Mapping[str, Callable[[Any], Any]]

#: Where a section's schema holds the name that a state is queried by, and whether its expired entries are shown.
QUERYABLE: Final = "queryable"

_KINDS = {"value": "value", "reducing": "value", "aggregating": "value", "list": "list", "map": "map"}


@dataclass(frozen=True)
class StateShape:
    """How the entries of one state are laid out in columns.

    ``types`` are the declared ones, None where nothing is declared (a merge). ``schema`` goes into every section: plain
    JSON data, of which ``types`` is their snapshot. ``ttl`` is the time to live of the entries, if they have one.
    ``migrations`` are the program's own, by the text of the type that they take values of.
    """

    kind: str
    key: ColumnCodec
    value: ColumnCodec
    user_key: ColumnCodec | None = None
    types: StateTypes | None = None
    schema: dict[str, Any] = field(default_factory=dict, hash=False)
    ttl: DeclaredTtl | None = None
    migrations: Migrations = field(default_factory=dict, hash=False, compare=False)

    @classmethod
    def of(cls, descriptor: StateDescriptor, key_type: TypeInformation | None) -> StateShape:
        """The shape a descriptor asks for."""
        shape = cls._of(descriptor, key_type)
        if descriptor.queryable_name is not None:
            shown_expired = shape.ttl is not None and shape.ttl.return_expired
            described = {"name": descriptor.queryable_name, "expired": shown_expired}
            shape = replace(shape, schema={**shape.schema, QUERYABLE: described})
        return replace(shape, migrations=_migrations(descriptor, shape)) if descriptor.migrations else shape

    @classmethod
    def _of(cls, descriptor: StateDescriptor, key_type: TypeInformation | None) -> StateShape:
        key = codec_for(key_type)
        if isinstance(descriptor, MapStateDescriptor):
            value, user_key = descriptor.value_type_info, descriptor.key_type_info
            types = StateTypes("map", key_type, plain_type(value), user_key)
            return cls("map", key, codec_for(value), codec_for(user_key), ttl=_ttl_of(value))._typed(types)
        if isinstance(descriptor, ListStateDescriptor):
            value = descriptor.elem_type_info
            types = StateTypes("list", key_type, plain_type(value))
            return cls("list", key, ListCodec(codec_for(value)), ttl=_ttl_of(value))._typed(types)
        value = descriptor.type_info
        types = StateTypes(descriptor.kind, key_type, plain_type(value))
        return cls(_KINDS[descriptor.kind], key, codec_for(value), ttl=_ttl_of(value))._typed(types)

    def with_key(self, key_type: TypeInformation | None) -> StateShape:
        """The shape of timers for keys of a type."""
        return replace(self, key=codec_for(key_type))._typed(StateTypes("timer", key_type, Types.LONG()))

    @property
    def stored_type(self) -> TypeInformation | None:
        """The type of what is stored: a value (of a list: an element), with its time of last access if it has one."""
        if self.types is None or self.ttl is None:
            return None if self.types is None else self.types.value
        return StampedTypeInfo(self.types.value, self.ttl)

    def _typed(self, types: StateTypes) -> StateShape:
        return replace(self, types=types, schema={**self.schema, "types": types.snapshot()})


#: Shape of timers: the value is their time.
TIMER_SHAPE = StateShape("timer", codec_for(None), codec_for(None))


def write_rows(operator: str, state: str, shape: StateShape, rows: Rows, group_of: GroupCache, where: str) -> Section:
    """Rows as a section. Raises :class:`SerializationError` that names the operator and the state."""
    try:
        columns = [_group_column(rows, group_of), encode_column("key", shape.key, rows.keys)]
        if any(name is not None for name in rows.namespaces):
            columns.append(encode_column("namespace", codec_for(None), rows.namespaces))
        columns.append(_op_column(rows))
        if shape.kind == "map":
            columns.append(encode_column("user_key", shape.user_key or codec_for(None), rows.user_keys))
        columns.append(encode_column("value", shape.value, rows.values))
    except SerializationError as error:
        raise SerializationError(f"state {state!r} of {where} cannot be stored: {error}") from error
    schema = pa.schema([field for field, _ in columns])
    table = pa.Table.from_arrays([array for _, array in columns], schema=schema)
    described = shape.schema if shape.ttl is None else {**shape.schema, SCHEMA_KEY: shape.ttl.describe()}
    return Section(operator, state, shape.kind, described, table)


def check_types(section: Section, shape: StateShape, where: str) -> dict[str, Convert]:
    """What must be done to the stored values of each column before a program with these declared types can use them.

    Looks at the types alone, not at any value. Raises :class:`StateMigrationError` that names both types if
    they do not fit.
    """
    if shape.types is None:
        return {}
    return type_changes(section, shape.types.snapshot(), where, shape.migrations)


def type_changes(
    section: Section, declared: dict[str, Any] | None, where: str, migrations: Migrations | None = None
) -> dict[str, Convert]:
    """As :func:`check_types`, for types that are known by their snapshot only."""
    changes = {}
    # Operator state is stored under a name with a prefix.
    name = section.state.partition(":")[2] if "operator_state" in section.schema else section.state
    stored, wanted = parse_snapshot(section.schema.get("types")), parse_snapshot(declared)
    for column in stored.keys() & wanted.keys():
        own = migrations.get(type_text(stored[column])) if migrations and column == "value" else None
        if own is not None:
            what = f"{where}: the migration of state {name!r} from {type_text(stored[column])}"
            changes[column] = Convert(_migrating(own, what), check=True, migration=True)
            continue
        found = compatibility(stored[column], wanted[column], is_key=column != "value")
        if isinstance(found, Incompatible):
            raise StateMigrationError(
                f"{where}: state {name!r} "
                f"{refusal(column, type_text(stored[column]), type_text(wanted[column]), found.reason)}"
            )
        if isinstance(found, Convert) and (found.apply is not None or found.check):
            changes[column] = found
    return changes


def refusal(column: str, stored: str, declared: str, reason: str) -> str:
    """Why a state cannot be restored: the stored and the declared type of a column side by side, and what to do."""
    what = {"key": "keys", "user_key": "map keys", "value": "values"}[column]
    own = ", register a migration with migrate_from() of its descriptor" if column == "value" else ""
    return (
        f"is stored with {what} of another type than the program declares, and they cannot be converted: {reason}\n"
        f"    stored:   {stored}\n    declared: {declared}\n"
        f"Declare the stored type again{own}, or give the state another name to start it empty"
    )


def read_rows(
    section: Section,
    shape: StateShape | None = None,
    as_types: dict[str, Any] | None = None,
    loading: Loading | None = None,
) -> Rows:
    """The rows of a section. ``loading`` says what reading may do; without it the section is trusted.

    A shape lends the classes of its declared types, where the file names some, and values stored with other types are
    converted to those of the shape, or of the snapshot ``as_types``. Raises :class:`StateError` where they cannot be.
    With a shape, values have a time of last access if the state it stands for has a time to live, and only then.
    """
    table = section.table
    declared = {} if shape is None else {"key": shape.key, "value": shape.value, "user_key": shape.user_key}
    where = f"operator with uid {section.operator}"
    changes = type_changes(section, as_types, where) if shape is None else check_types(section, shape, where)
    columns: dict[str, Any] = {}
    for name in ("key", "namespace", "user_key", "value"):
        index = table.schema.get_field_index(name)
        if index >= 0:
            # The class that a migration takes values of may be gone, or be another by now.
            plain = plain_loading(allow_pickle=True) if name in changes and changes[name].migration else None
            columns[name] = decode_column(
                table.schema.field(index), table.column(index), declared=declared.get(name), loading=plain or loading
            )
    for name, change in changes.items():
        declared_type = None if shape is None or shape.types is None else shape.types.of(name)
        try:
            columns[name] = _changed(
                columns[name], change, declared_type, is_list=section.kind == "list" and name == "value"
            )
        except TypeMismatchError as error:
            if change.migration:
                raise StateError(
                    f"{where}: the migration of state {section.state!r} returned a value that is not of the type the "
                    f"program declares for it: {error}"
                ) from error
            raise StateError(
                f"{where}: state {section.state!r} holds a value that is not of the type the program now declares for "
                f"it: {error} Give the state another name, or declare no type"
            ) from error
    codes = table.column("op").to_numpy()
    ops = codes.tolist() if codes.any() else []
    if shape is not None:
        stored, wanted = stored_ttl(section.schema), None if shape.ttl is None else shape.ttl.describe()
        columns["value"] = fit_times(columns["value"], ops, stored, wanted, is_list=section.kind == "list")
    return Rows(
        keys=canonical_keys(columns["key"]),
        namespaces=columns.get("namespace", []),
        ops=ops,
        user_keys=canonical_keys(columns.get("user_key", [])),
        values=columns["value"],
    )


def _changed(values: list[Any], change: Convert, declared: TypeInformation | None, *, is_list: bool) -> list[Any]:
    if is_list:
        return [items and _changed(items, change, declared, is_list=False) for items in values]
    if any(isinstance(value, Stamped) for value in values):
        inner = [value and value.value for value in values]
        changed = _changed(inner, change, declared, is_list=False)
        return [old and Stamped(new, old.time) for old, new in zip(values, changed, strict=True)]
    if change.apply is not None:
        apply = change.apply
        values = [value if value is None else apply(value) for value in values]
    if change.check and declared is not None:
        declared.validator()([value for value in values if value is not None])
    return values


def _migrating(function: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    def migrate(value: Any) -> Any:
        value = shown(value)
        try:
            return function(value)
        except Exception as error:
            raise StateError(f"{what} failed with {type(error).__name__}: {error}; the value was {value!r}") from error

    return migrate


def _migrations(descriptor: StateDescriptor, shape: StateShape) -> Migrations:
    """The migrations of a descriptor by the text of the type they take."""
    found = {}
    declared = "" if shape.types is None else type_text(shape.types.value.describe())
    for stored, function in descriptor.migrations:
        text = stored if isinstance(stored, str) else type_text(stored.describe())
        if text == declared:
            raise StateError(
                f"state {descriptor.name!r}: a migration from {text} to the same type would be done to new values too. "
                "Give the state another name, and copy what the old one holds"
            )
        found[text] = function
    return found


def _ttl_of(value_type: TypeInformation) -> DeclaredTtl | None:
    return value_type.ttl if isinstance(value_type, StampedTypeInfo) else None


def _group_column(rows: Rows, group_of: GroupCache) -> tuple[Any, Any]:
    groups = np.array(group_of.groups(rows.keys), dtype=np.uint16)
    return pa.field("key_group", pa.uint16(), nullable=False), pa.array(groups)


def _op_column(rows: Rows) -> tuple[Any, Any]:
    ops = np.zeros(len(rows.keys), dtype=np.uint8)
    if rows.ops:
        ops[:] = rows.ops
    return pa.field("op", pa.uint8(), nullable=False), pa.array(ops)
