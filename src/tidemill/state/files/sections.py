"""Converts rows of Python values to the columns of a section, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.common.calls import is_interrupt
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.errors import (
    InvalidKeyError,
    SerializationError,
    StateError,
    StateMigrationError,
    TidemillError,
    TypeMismatchError,
)
from tidemill.state.codecs.class_names import Loading, class_name
from tidemill.state.codecs.column_codecs import ColumnCodec, codec_for, decode_column, encode_column
from tidemill.state.codecs.normal_form import NormalForm
from tidemill.state.codecs.plain_values import as_data, plain_loading
from tidemill.state.codecs.serializers import (
    Convert,
    Incompatible,
    StateTypes,
    compatibility,
    parse_type_snapshot,
    type_text,
)
from tidemill.state.codecs.ttl import Stamped, StampedTypeInfo
from tidemill.state.files.rows import Rows
from tidemill.state.files.section_kinds import TIMER, SectionKind, section_kind
from tidemill.state.files.state_file import GROUP_COLUMN, Section
from tidemill.state.files.ttl_declared import SCHEMA_KEY, DeclaredTtl, stored_ttl
from tidemill.state.files.ttl_rows import fit_times
from tidemill.state.keys.canonical_key import SIMPLE_TYPES, canonical_keys
from tidemill.state.keys.key_groups import GroupCache

#: A program's own migrations of a state, by the text of the type that they accept.
Migrations = Mapping[str, Callable[[Any], Any]]

#: The key in a section's schema for the name by which a state is queried, and whether expired entries are returned.
QUERYABLE: Final = "queryable"

#: Types of keys whose hash is part of the format and never changes.
_STEADY: Final = SIMPLE_TYPES | {float, Decimal, complex}


@dataclass(frozen=True)
class StateShape:
    """How the entries of one state are laid out in columns.

    ``kind`` is that of its sections. ``types`` are the declared ones, None if nothing is declared (in a merge).
    ``schema`` is stored in every section: plain JSON data, whose ``types`` is the snapshot of the types. ``ttl`` is the
    time to live of the entries, if they have one. ``migrations`` are the program's own, by the text of the type that
    they accept.
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
    def of(
        cls,
        descriptor: StateDescriptor,
        stored_as: SectionKind,
        types: StateTypes,
        ttl: DeclaredTtl | None = None,
    ) -> StateShape:
        """The shape of a state whose values, or elements, are of declared types; with times if it has a time to live.

        :func:`tidemill.state.keyed.kinds.shape_of` returns the shape for a descriptor.
        """
        stored = types.value if ttl is None else StampedTypeInfo(types.value, ttl)
        user_key = None if types.user_key is None else codec_for(types.user_key)
        codec = stored_as.value_codec(codec_for(stored))
        shape = cls(stored_as.name, codec_for(types.key), codec, user_key, ttl=ttl)._typed(types)
        if descriptor.queryable_name is not None:
            shown_expired = shape.ttl is not None and shape.ttl.return_expired
            described = {"name": descriptor.queryable_name, "expired": shown_expired}
            shape = replace(shape, schema={**shape.schema, QUERYABLE: described})
        return replace(shape, migrations=_migrations(descriptor, shape)) if descriptor.migrations else shape

    def with_key(self, key_type: TypeInformation | None) -> StateShape:
        """The shape of timers for keys of this type."""
        return replace(self, key=codec_for(key_type))._typed(StateTypes(TIMER.name, key_type, Types.LONG()))

    @property
    def stored_type(self) -> TypeInformation | None:
        """The type of the stored values (for a list: elements), with the time of last access if they have one."""
        if self.types is None or self.ttl is None:
            return None if self.types is None else self.types.value
        return StampedTypeInfo(self.types.value, self.ttl)

    def _typed(self, types: StateTypes) -> StateShape:
        return replace(self, types=types, schema={**self.schema, "types": types.snapshot()})


#: The shape of timers: the value is their time.
TIMER_SHAPE = StateShape(TIMER.name, codec_for(None), codec_for(None))


def write_rows(
    operator: str,
    state: str,
    shape: StateShape,
    rows: Rows,
    group_of: GroupCache,
    where: str,
    form: NormalForm | None = None,
) -> Section:
    """Rows as a section. Values that cannot be stored as they are, are converted if they have a ``form``.

    Raises :class:`SerializationError` that names the operator and the state.
    """
    try:
        columns = [_group_column(rows, group_of), encode_column("key", shape.key, rows.keys)]
        if any(name is not None for name in rows.namespaces):
            columns.append(encode_column("namespace", codec_for(None), rows.namespaces))
        columns.append(_op_column(rows))
        if section_kind(shape.kind).has_user_keys:
            columns.append(encode_column("user_key", shape.user_key or codec_for(None), rows.user_keys))
        columns.append(_value_column(shape, rows.values, form))
    except SerializationError as error:
        raise SerializationError(f"state {state!r} of {where} cannot be stored: {error}") from error
    except BaseException as error:  # of the class of a value: __getstate__, a property
        if is_interrupt(error) or isinstance(error, (TidemillError, MemoryError)):
            raise
        raise SerializationError(
            f"state {state!r} of {where} cannot be stored: a value raised {type(error).__name__}"
        ) from error
    schema = pa.schema([field for field, _ in columns])
    table = pa.Table.from_arrays([array for _, array in columns], schema=schema)
    described = shape.schema if shape.ttl is None else {**shape.schema, SCHEMA_KEY: shape.ttl.describe()}
    return Section(operator, state, shape.kind, described, table)


def _value_column(shape: StateShape, values: list[Any], form: NormalForm | None) -> tuple[Any, Any]:
    try:
        return encode_column("value", shape.value, values)
    except SerializationError:
        if form is None:
            raise
    if section_kind(shape.kind).in_lists:
        storable: list[Any] = [None if elements is None else form.storable(elements) for elements in values]
    else:
        storable = form.storable(values)
    return encode_column("value", shape.value, storable)


def check_types(section: Section, shape: StateShape, where: str) -> dict[str, Convert]:
    """The conversions that the stored values of each column need before a program with these types can use them.

    Compares the types only; reads no values. Raises :class:`StateMigrationError` that names both types if they are
    incompatible.
    """
    if shape.types is None:
        return {}
    return type_changes(section, shape.types.snapshot(), where, shape.migrations)


def type_changes(
    section: Section, declared: dict[str, Any] | None, where: str, migrations: Migrations | None = None
) -> dict[str, Convert]:
    """Like :func:`check_types`, for types of which only the snapshot is known."""
    changes = {}
    # Operator state is stored under a name with a prefix.
    name = section.state.partition(":")[2] if "operator_state" in section.schema else section.state
    stored, wanted = parse_type_snapshot(section.schema.get("types")), parse_type_snapshot(declared)
    if "key" in wanted:
        stored = with_unknown_key(stored)
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
                f"{type_refusal(name, column, type_text(stored[column]), type_text(wanted[column]), found.reason)}"
            )
        if isinstance(found, Convert) and (found.apply is not None or found.check):
            changes[column] = found
    return changes


def with_unknown_key(stored: dict[str, Any]) -> dict[str, Any]:
    """Stored types in which keys without a declared type get one that must be checked against the declared type."""
    return stored if "key" in stored else {**stored, "key": Types.PICKLED_BYTE_ARRAY().describe()}


#: Prefixes of the names of states that operators register themselves, such as windows and rolling aggregates.
_OF_OPERATORS: Final = ("_", "window-", "merging-window-")


def start_empty(name: str) -> str:
    """What to change in a program so that a state starts empty: functions can rename theirs, operators cannot."""
    return "give the operator another uid" if name.startswith(_OF_OPERATORS) else "give the state another name"


def type_refusal(name: str, column: str, stored: str, declared: str, reason: str) -> str:
    """The reason why a state cannot be restored: the stored and the declared type of a column, and what to do."""
    what = {"key": "keys", "user_key": "map keys", "value": "values"}[column]
    own = ", register a migration with migrate_from() of its descriptor" if column == "value" else ""
    if name.startswith(_OF_OPERATORS):
        own = ""
    elif own and stored == declared:  # the class is of another kind, and a migration needs a name for it
        own = ", give the class another name and register a migration with migrate_from() of the descriptor"
    return (
        f"is stored with {what} of another type than the program declares, and they cannot be converted: {reason}\n"
        f"    stored:   {stored}\n    declared: {declared}\n"
        f"Declare the stored type again{own}, or {start_empty(name)} to start it empty"
    )


def read_rows(
    section: Section,
    shape: StateShape | None = None,
    as_types: dict[str, Any] | None = None,
    loading: Loading | None = None,
    group_of: GroupCache | None = None,
) -> Rows:
    """The rows of a section. ``loading`` defines what reading may do; without it the section is trusted.

    A shape provides the classes of its declared types, if the file names some, and values stored with other types are
    converted to those of the shape, or of the snapshot ``as_types``. With ``group_of``, the keys must still belong to
    the key groups in which they are stored. With a shape, values have a time of last access if, and only if, its state
    has a time to live.

    Raises :class:`StateMigrationError` for stored values that cannot be used, or that cannot be read with a shape: the
    files are intact, so a retry would fail in the same way.
    """
    where = f"operator with uid {section.operator}"
    in_lists = section_kind(section.kind).in_lists
    changes = type_changes(section, as_types, where) if shape is None else check_types(section, shape, where)
    try:
        columns = _decoded(section, shape, changes, loading)
    except SerializationError as error:
        if shape is None:
            raise
        raise StateMigrationError(f"{where}: state {section.state!r} cannot be restored: {error}") from error
    for name, change in changes.items():
        declared_type = None if shape is None or shape.types is None else shape.types.of(name)
        try:
            columns[name] = _changed(columns[name], change, declared_type, in_lists=in_lists and name == "value")
        except TypeMismatchError as error:
            raise StateMigrationError(f"{where}: {_misfit(section.state, name, change, error)}") from error
    if group_of is not None:
        _check_groups(section, columns["key"], group_of, where)
    table = section.table
    codes = table.column("op").to_numpy()
    ops = codes.tolist() if codes.any() else []
    if shape is not None:
        stored, wanted = stored_ttl(section.schema), None if shape.ttl is None else shape.ttl.describe()
        columns["value"] = fit_times(columns["value"], ops, stored, wanted, in_lists=in_lists)
    return Rows(
        keys=canonical_keys(columns["key"]),
        namespaces=columns.get("namespace", []),
        ops=ops,
        user_keys=canonical_keys(columns.get("user_key", [])),
        values=columns["value"],
    )


def _decoded(
    section: Section, shape: StateShape | None, changes: Mapping[str, Convert], loading: Loading | None
) -> dict[str, list[Any]]:
    """The columns of a section as Python values."""
    schema = section.table.schema
    declared = {} if shape is None else {"key": shape.key, "value": shape.value, "user_key": shape.user_key}
    columns: dict[str, list[Any]] = {}
    for name in ("key", "namespace", "user_key", "value"):
        index = schema.get_field_index(name)
        if index < 0:
            continue
        codec = declared.get(name)
        chosen = loading
        if name in changes and changes[name].migration:
            # The class whose values a migration accepts may no longer exist, or may have changed.
            chosen = plain_loading(allow_pickle=True)
        elif loading is None and name in ("key", "user_key"):
            chosen = Loading(classes=codec.classes() if codec else {}, keys=True)
        columns[name] = decode_column(schema.field(index), section.table.column(index), declared=codec, loading=chosen)
    return columns


def _misfit(state: str, column: str, change: Convert, error: TypeMismatchError) -> str:
    if change.migration:
        return (
            f"the migration of state {state!r} returned a value that is not of the type the program declares for it: "
            f"{error}"
        )
    if column == "key":
        return (
            f"state {state!r} is stored for keys that are not of the type the program now declares for them, so they "
            f"would never be found: {error} Declare the actual type of the keys, or none, or give the operator another "
            "uid to start it empty"
        )
    own = "" if state.startswith(_OF_OPERATORS) else "Register a migration with migrate_from() of its descriptor, or "
    text = f"{own}declare no type, or {start_empty(state)} to start it empty"
    return (
        f"state {state!r} contains a value that is not of the type the program now declares for it: {error} "
        f"{text[0].upper()}{text[1:]}"
    )


def _check_groups(section: Section, keys: list[Any], group_of: GroupCache, where: str) -> None:
    """Raise unless the keys hash to the key groups in which they are stored.

    The hash of a built-in type never changes. That of a class may change with the fields that take part in comparisons.
    """
    if _STEADY.issuperset(map(type, keys)):
        return
    stored = section.table.column(GROUP_COLUMN).to_numpy()
    try:
        now = np.array(group_of.groups(canonical_keys(keys)))
    except InvalidKeyError as error:
        raise StateMigrationError(f"{where}: state {section.state!r} has keys that are now invalid: {error}") from error
    moved = (stored != now).nonzero()[0]
    if len(moved):
        key = keys[moved[0]]
        raise StateMigrationError(
            f"{where}: the keys of state {section.state!r} do not hash as they did when they were stored, and would "
            f"not be found: {key!r:.200} is stored in key group {stored[moved[0]]} and belongs to {now[moved[0]]} now. "
            f"Did {class_name(type(key))}, or a class inside it, change which fields are compared? Change it back, or "
            "give the operator another uid to start it empty"
        )


def _changed(values: list[Any], change: Convert, declared: TypeInformation | None, *, in_lists: bool) -> list[Any]:
    if in_lists:
        return [items and _changed(items, change, declared, in_lists=False) for items in values]
    if any(isinstance(value, Stamped) for value in values):
        inner = [value and value.value for value in values]
        changed = _changed(inner, change, declared, in_lists=False)
        return [old and Stamped(new, old.time) for old, new in zip(values, changed, strict=True)]
    if change.apply is not None:
        apply = change.apply
        values = [value if value is None else apply(value) for value in values]
    if change.check and declared is not None:
        declared.validator()([value for value in values if value is not None])
    return values


def _migrating(function: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    def migrate(value: Any) -> Any:
        value = as_data(value)
        try:
            return function(value)
        except Exception as error:
            raise StateMigrationError(
                f"{what} failed with {type(error).__name__}: {error}; the value was {value!r}"
            ) from error

    return migrate


def _migrations(descriptor: StateDescriptor, shape: StateShape) -> Migrations:
    """The migrations of a descriptor, by the text of the type that they accept."""
    found = {}
    declared = "" if shape.types is None else type_text(shape.types.value.describe())
    for stored, function in descriptor.migrations:
        text = stored if isinstance(stored, str) else type_text(stored.describe())
        if text == declared:
            raise StateError(
                f"state {descriptor.name!r}: a migration from {text} to the same type would apply to new values too. "
                "Give the state another name, and copy the content of the old one"
            )
        found[text] = function
    return found


def _group_column(rows: Rows, group_of: GroupCache) -> tuple[Any, Any]:
    groups = np.array(group_of.groups(rows.keys), dtype=np.uint16)
    return pa.field("key_group", pa.uint16(), nullable=False), pa.array(groups)


def _op_column(rows: Rows) -> tuple[Any, Any]:
    ops = np.zeros(len(rows.keys), dtype=np.uint8)
    if rows.ops:
        ops[:] = rows.ops
    return pa.field("op", pa.uint8(), nullable=False), pa.array(ops)
