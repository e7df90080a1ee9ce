"""Finds the rows of a key in a block of a state file. Keys are in plain form; nothing is unpickled or imported."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np

from tidemill.common.time import Instant
from tidemill.errors import SerializationError
from tidemill.state.codecs.class_names import class_name
from tidemill.state.codecs.column_codecs import METADATA_KEY, codec_from_description, column_description
from tidemill.state.codecs.plain_values import PlainObject, plain_loading
from tidemill.state.keys.canonical_key import canonical_keys

__all__ = ["KeyIndex", "comparable_key", "key_index"]

#: Up to this number of keys, a dict of all keys is used: a lookup takes 0.1 us, and a key 150 bytes. The changes of an
#: epoch usually have fewer keys. For more keys, only hashes are kept, and keys are decoded one by one: a lookup takes
#: 5 us, and a key 12 bytes.
_MOST_IN_DICT: Final = 20_000
_DICT_BYTES: Final = 150


class KeyIndex(Protocol):
    """The rows of each key. ``nbytes`` is the approximate size of the index."""

    nbytes: int

    def rows_of(self, key: Any) -> list[int]:
        """Return the rows of a key in order; empty if there are none."""
        ...


class _DictIndex:
    def __init__(self, keys: list[Any], rows: list[int]) -> None:
        self._rows: dict[Any, int | list[int]] = dict(zip(keys, rows, strict=True))
        if len(self._rows) != len(rows):  # lists and maps may have several rows per key
            several: dict[Any, list[int]] = {}
            for key, row in zip(keys, rows, strict=True):
                several.setdefault(key, []).append(row)
            self._rows.update(several)
        self.nbytes = _DICT_BYTES * len(rows)

    def rows_of(self, key: Any) -> list[int]:
        found = self._rows.get(key)
        if found is None:
            return []
        return found if isinstance(found, list) else [found]


class _SortedIndex:
    """Rows in the order of the hashes of their keys, which are specific to this process."""

    def __init__(self, keys: list[Any], rows: list[int], column: _KeyColumn) -> None:
        hashes = np.array([hash(key) for key in keys], np.int64)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._rows = np.array(rows, np.int32)[order]
        self._column = column
        self.nbytes = self._hashes.nbytes + self._rows.nbytes

    def rows_of(self, key: Any) -> list[int]:
        wanted = np.int64(hash(key))
        at = int(self._hashes.searchsorted(wanted))
        found = []
        while at < len(self._hashes) and self._hashes[at] == wanted:
            row = int(self._rows[at])
            stored = self._column.key(row)
            if stored is key or stored == key:
                found.append(row)
            at += 1
        return found


class _KeyColumn:
    """The keys of a table."""

    def __init__(self, table: Any) -> None:
        field = table.schema.field("key")
        self._column = table.column("key").combine_chunks()
        self._codec = _plain_codec(field)
        #: Whether keys may be or contain instants.
        self._instants = b'"instant"' in field.metadata[METADATA_KEY]

    def keys(self) -> list[Any]:
        return self._comparable(_decoded(self._codec, self._column, "key"))

    def key(self, row: int) -> Any:
        return self._comparable(_decoded(self._codec, self._column.slice(row, 1), "key"))[0]

    def _comparable(self, keys: list[Any]) -> list[Any]:
        found = canonical_keys(keys)
        return [comparable_key(key) for key in found] if self._instants else found


def key_index(table: Any) -> KeyIndex:
    """Create the index of a block, without the rows of namespaces (windows): as in Flink, they cannot be queried.

    Raises :class:`SerializationError` for keys that do not match their description.
    """
    column = _KeyColumn(table)
    keys = column.keys()
    rows = list(range(len(keys)))
    if "namespace" in table.schema.names:
        codec = _plain_codec(table.schema.field("namespace"))
        spaces = _decoded(codec, table.column("namespace").combine_chunks(), "namespace")
        rows = [row for row in rows if spaces[row] is None]
        keys = [keys[row] for row in rows]
    return _DictIndex(keys, rows) if len(rows) <= _MOST_IN_DICT else _SortedIndex(keys, rows, column)


def comparable_key(key: Any) -> Any:
    """Convert a key in plain form, so that an :class:`Instant` is represented like any other dataclass.

    Whether a key without a declared type is stored as an instant or as an object depends on the other keys in its
    column.
    """
    if type(key) is Instant:
        return PlainObject(class_name(Instant), (("seconds", key.seconds), ("nanos", key.nanos)))
    return tuple([comparable_key(element) for element in key]) if type(key) is tuple else key


def _plain_codec(field: Any) -> Any:
    return codec_from_description(column_description(field), loading=plain_loading(allow_pickle=False))


def _decoded(codec: Any, array: Any, name: str) -> list[Any]:
    try:
        values: list[Any] = codec.decode(array)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SerializationError(f"column {name!r} does not match its description: {error!r}") from error
    return values
