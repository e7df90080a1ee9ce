"""Rows of a state in a store: what stands where.

A row is the state's two bytes, the key group in two bytes, the key, the namespace, and what comes after: nothing for a
value, the user key for an entry of a map, a growing number of 8 bytes for a piece of a list. So the rows of a key
group, of a key, and of one map or list stand together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidemill.state.codecs.tagged_reader import TaggedReader
from tidemill.state.codecs.tagged_writer import TaggedWriter
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.keys.key_groups import GroupCache
from tidemill.state.rocksdb.key_encoding import NONE_KEY, decode_key, encode_key, is_exact
from tidemill.state.rocksdb.value_encoding import with_original, without_original

#: Where the key stands in a row.
KEY_AT = 4


class RowPlace(NamedTuple):
    """What a row is about; ``rest`` is where the part after the namespace begins."""

    key: Any
    namespace: Any
    rest: int


class RowMaker:
    """Makes the rows of one state."""

    def __init__(self, prefix: bytes, group_of: GroupCache) -> None:
        self.prefix = prefix
        self._group_of = group_of
        self._heads: dict[int, bytes] = {}

    def group_of(self, key: Any) -> int:
        """The key group of a key."""
        return self._group_of[key]

    def row(self, key: Any, namespace: bytes = NONE_KEY) -> bytes:
        """The row of a key in an encoded namespace, or what its rows begin with."""
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
    """What a row is about, as far as its bytes say; see :func:`original_of`."""
    key, at = decode_key(row, KEY_AT)
    if row[at] == NONE_KEY[0]:
        return RowPlace(key, None, at + 1)
    namespace, at = decode_key(row, at)
    return RowPlace(key, namespace, at)


def remember_original(data: bytes, key: Any, namespace: Any = None, user_key: Any = None) -> bytes:
    """An entry with the original of its keys, if their bytes do not say all of them."""
    if is_exact(key) and (namespace is None or is_exact(namespace)) and (user_key is None or is_exact(user_key)):
        return data
    return with_original(data, TaggedWriter().dumps((key, namespace, user_key)))


def original_of(data: bytes) -> tuple[Any, Any, Any] | None:
    """The key, namespace and user key of an entry, if it remembers them."""
    original, _ = without_original(data)
    if not original:
        return None
    key, namespace, user_key = TaggedReader().loads(original)
    return canonical_key(key), namespace, user_key
