"""The layout of the rows of a state in a store.

A row consists of the state's two bytes, the key group in two bytes, the key, the namespace, and a suffix: nothing for a
value, the user key for an entry of a map, a growing number of 8 bytes for a piece of a list. So the rows of a key
group, of a key, and of one map or list are contiguous.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidemill.state.codecs.tagged_reader import TaggedReader
from tidemill.state.codecs.tagged_writer import TaggedWriter
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.keys.key_groups import GroupCache, KeyGroup
from tidemill.state.rocksdb.key_encoding import NONE_KEY, decode_key, encode_key, is_exact
from tidemill.state.rocksdb.value_encoding import with_original, without_original

#: The offset of the key in a row.
KEY_AT = 4


class RowPlace(NamedTuple):
    """The key and namespace of a row; ``rest`` is the offset of the part after the namespace."""

    key: Any
    namespace: Any
    rest: int


class RowMaker:
    """Creates the rows of one state."""

    def __init__(self, prefix: bytes, group_of: GroupCache) -> None:
        self.prefix = prefix
        self._group_of = group_of
        self._heads: dict[KeyGroup, bytes] = {}

    def group_of(self, key: Any) -> KeyGroup:
        """The key group of a key."""
        return self._group_of[key]

    def row(self, key: Any, namespace: bytes = NONE_KEY) -> bytes:
        """The row of a key in an encoded namespace, or the prefix of its rows."""
        group = self._group_of[key]
        head = self._heads.get(group)
        if head is None:
            head = self._heads[group] = self.prefix + group.to_bytes(2, "big")
        return head + encode_key(key) + namespace

    def rows(self, keys: list[Any]) -> list[bytes]:
        """The rows of several keys, without namespace."""
        heads, found = self._heads, []
        for key, group in zip(keys, map(self._group_of.__getitem__, keys), strict=True):
            head = heads.get(group)
            if head is None:
                head = heads[group] = self.prefix + group.to_bytes(2, "big")
            found.append(head + encode_key(key) + NONE_KEY)
        return found


def place_of(row: bytes) -> RowPlace:
    """The key and namespace of a row, as far as its bytes determine them; see :func:`original_of`."""
    key, at = decode_key(row, KEY_AT)
    if row[at] == NONE_KEY[0]:
        return RowPlace(key, None, at + 1)
    namespace, at = decode_key(row, at)
    return RowPlace(key, namespace, at)


def remember_original(data: bytes, key: Any, namespace: Any = None, user_key: Any = None) -> bytes:
    """An entry with the originals of its keys, if their bytes do not fully determine them."""
    if is_exact(key) and (namespace is None or is_exact(namespace)) and (user_key is None or is_exact(user_key)):
        return data
    return with_original(data, TaggedWriter().dumps((key, namespace, user_key)))


def original_of(data: bytes) -> tuple[Any, Any, Any] | None:
    """The key, namespace and user key of an entry, if it contains their originals."""
    original, _ = without_original(data)
    if not original:
        return None
    key, namespace, user_key = TaggedReader().loads(original)
    return canonical_key(key), namespace, user_key
