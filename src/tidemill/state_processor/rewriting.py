"""Changes to the sections of state files, applied one after the other: removed rows, replaced values."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import pyarrow as pa

from tidemill.common.typeinfo import Types
from tidemill.errors import SerializationError, StateError
from tidemill.python_versions import add_note
from tidemill.state.codecs.class_names import Loading
from tidemill.state.codecs.column_codecs import (
    ColumnCodec,
    codec_for,
    codec_from_description,
    column_description,
    decode_column,
    encode_column,
)
from tidemill.state.codecs.ttl import Stamped, StampedTypeInfo
from tidemill.state.files.rows import APPEND, PUT
from tidemill.state.files.section_kinds import section_kind
from tidemill.state.files.state_file import Section
from tidemill.state.files.ttl_declared import stored_ttl
from tidemill.state.keys.canonical_key import canonical_key, canonical_keys
from tidemill.state.operator.operator_state import is_operator_state
from tidemill.state_processor.key_types import check_key

__all__ = ["KeyDeletion", "Rewrite", "map_values"]

log = logging.getLogger(__name__)

#: The maximum number of keys shown in an error.
_SHOWN: Final = 10

#: Rows that have a value; all other rows delete.
_WITH_VALUE: Final = frozenset({PUT, APPEND})
#: Maps a section to its replacement, or to None if no rows remain. The second argument defines how it may be read.
Rewrite = Callable[[Section, Loading], Section | None]


class KeyDeletion:
    """Removes the rows of some keys from states and timers, and records which keys were found."""

    def __init__(self, uid: str, keys: Collection[Any] | Callable[[Any], bool], *, missing_ok: bool) -> None:
        self.uid = uid
        # configuration
        self._rule = keys if callable(keys) else None
        self._chosen = frozenset() if callable(keys) else frozenset([canonical_key(key) for key in _collection(keys)])
        self._missing_ok = missing_ok
        # transient
        self._found: set[Any] = set()
        self._kinds: set[type] = set()
        self._types: Any = None

    def __call__(self, section: Section, loading: Loading) -> Section | None:
        """The section without the keys; None if no rows remain."""
        if is_operator_state(section):
            return section
        self._types = section.schema.get("types", self._types)
        keys = _keys(section, loading)
        self._kinds.update(map(type, keys))
        unwanted = self._rule or self._chosen.__contains__
        kept = []
        for key in keys:
            gone = unwanted(key)
            kept.append(not gone)
            if gone:
                self._found.add(key)
        if all(kept):
            return section
        return _with_table(section, section.table.filter(pa.array(kept))) if any(kept) else None

    def check(self) -> None:
        """Raise :class:`StateError` for keys to delete that do not exist, unless ``missing_ok`` is set."""
        where = f"the operator with uid {self.uid!r}"
        if self._rule is not None:
            if not self._found:
                log.warning("delete_keys() of %s deleted nothing: its function returned true for no key", where)
            return
        missing = sorted(self._chosen - self._found, key=repr)
        for key in missing:
            check_key(self._types, key, self.uid)
        if not missing:
            return
        text = f"{len(missing)} of {len(self._chosen)} keys have no state in {where}: {_listed(missing)}"
        if not self._missing_ok:
            kinds = ", ".join(sorted(kind.__name__ for kind in self._kinds))
            stored = f"Its keys are of type {kinds}." if kinds else "It has no keys at all."
            raise StateError(
                f"{text}. {stored} A key that is a tuple must be in a list: [('a', 1)]. If keys may be missing, call "
                "delete_keys() with missing_ok=True"
            )
        log.warning("delete_keys(): %s", text)


def _collection(keys: Any) -> Collection[Any]:
    if isinstance(keys, (str, bytes, bytearray)) or not isinstance(keys, Iterable):
        raise TypeError(
            f"delete_keys() needs a collection of keys, or a function of a key, not {keys!r}: write [{keys!r}] to "
            "delete this one key"
        )
    return list(keys)


def _listed(keys: list[Any]) -> str:
    more = len(keys) - _SHOWN
    return ", ".join(map(repr, keys[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


def map_values(state: str, function: Callable[[Any, Any], Any]) -> Rewrite:
    """Replaces each value of a keyed state with ``function(key, value)``; the type stays the same."""

    def replaced(key: Any, value: Any) -> Any:
        if isinstance(value, Stamped):
            return Stamped(changed_value(key, value.value), value.time)
        return changed_value(key, value)

    def changed_value(key: Any, value: Any) -> Any:
        result = function(key, value)
        if result is None and value is not None:
            raise StateError(
                f"the function returned None for the value {value!r} of key {key!r}. It must return the new value, or "
                "the old one to keep it; delete_keys() removes keys"
            )
        return result

    def rewrite(section: Section, loading: Loading) -> Section:
        if section.state != state or is_operator_state(section):
            return section
        index = section.table.schema.get_field_index("value")
        stored = section.table.schema.field(index)
        values = _values(section, "value", loading)
        rows = zip(section.table.column("op").to_pylist(), _keys(section, loading), values, strict=True)
        where = _where(section)
        try:
            if section_kind(section.kind).in_lists:
                changed = [
                    [replaced(key, element) for element in elements] if op in _WITH_VALUE else None
                    for op, key, elements in rows
                ]
            else:
                changed = [replaced(key, value) if op in _WITH_VALUE else None for op, key, value in rows]
        except Exception as error:
            add_note(error, f"raised by the function that transforms {where}")
            raise
        try:
            field, array = encode_column("value", _codec(section, stored, loading), changed)
        except SerializationError as error:
            raise StateError(
                f"{where} cannot be changed, the function must return values of the same type: {error}"
            ) from error
        return _with_table(section, section.table.set_column(index, field, array))

    return rewrite


def _codec(section: Section, stored: Any, loading: Loading) -> ColumnCodec:
    """The codec for the new values of a section: the previous one, or one for the new values if they are undeclared."""
    if '"kind": "pickled"' not in json.dumps(section.schema.get("types", {}).get("value")):
        return codec_from_description(column_description(stored), loading=loading)
    undeclared = Types.PICKLED_BYTE_ARRAY()
    codec = codec_for(undeclared if stored_ttl(section.schema) is None else StampedTypeInfo(undeclared))
    return section_kind(section.kind).value_codec(codec)


def _keys(section: Section, loading: Loading) -> list[Any]:
    return canonical_keys(_values(section, "key", loading))


def _values(section: Section, column: str, loading: Loading) -> list[Any]:
    """A column as Python values; values that may not be unpickled are rejected."""
    index = section.table.schema.get_field_index(column)
    try:
        return decode_column(section.table.schema.field(index), section.table.column(index), loading=loading)
    except SerializationError as error:
        if loading.allow_pickle:
            raise
        raise SerializationError(
            f"{_where(section)} cannot be changed: {error}. If you trust the author of the savepoint, open it with "
            "allow_pickle=True"
        ) from error


def _where(section: Section) -> str:
    return f"state {section.state!r} of the operator with uid {section.operator!r}"


def _with_table(section: Section, table: Any) -> Section:
    return Section(section.operator, section.state, section.kind, section.schema, table)
