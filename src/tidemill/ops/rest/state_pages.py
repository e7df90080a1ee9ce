"""Pages of a state: some entries at a time, of one committed epoch, without reading all previous entries.

A position consists of the first key group of a range of about one megabyte, and a number of entries in that range.
Within one epoch a position always has the same meaning, so the server keeps no data between the requests for two pages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidemill.checkpoint.model import Epoch
from tidemill.errors import InvalidKeyError
from tidemill.ops.rest.errors import BadRequestError
from tidemill.state.codecs.plain_values import json_text
from tidemill.state.keys.key_groups import key_group_of
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo

__all__ = ["PagePosition", "entries_of_key", "json_value", "key_from", "operator_page", "page_from"]

#: Approximate number of bytes of the files to read at a time.
_CHUNK: Final = 1 << 20
#: A page ends after this many seconds, even if it is not full.
_SECONDS: Final = 2.0
#: Maximum length of a displayed value, in characters of JSON.
_LONGEST: Final = 16_384


@dataclass(frozen=True)
class PagePosition:
    """A position in a state of an epoch: the first entry that has not been returned yet.

    >>> PagePosition.of("7-32-5"), str(PagePosition(7, 32, 5))
    (PagePosition(epoch=7, group=32, entry=5), '7-32-5')
    """

    epoch: Epoch
    group: int = 0
    entry: int = 0

    @classmethod
    def of(cls, text: str) -> PagePosition:
        """Parse the position that a page returned as ``next``."""
        epoch, group, entry = map(int, text.split("-"))
        return cls(Epoch(epoch), group, entry)

    def __str__(self) -> str:
        return f"{self.epoch}-{self.group}-{self.entry}"


def page_from(
    reader: SavepointReader, operator: OperatorInfo, state: StateInfo, place: PagePosition, limit: int
) -> tuple[list[dict[str, Any]], PagePosition | None]:
    """Return at most ``limit`` entries from a position, and the next position, or None if there are no more entries."""
    groups = operator.max_parallelism
    width = max(1, min(groups, groups * _CHUNK // max(1, state.bytes)))
    until = time.monotonic() + _SECONDS
    found: list[dict[str, Any]] = []
    group, skip = place.group, place.entry
    while group < groups:
        last = min(group + width, groups) - 1
        table = reader.keyed_state(operator.uid, state.name, key_groups=(group, last))
        rows = table.slice(skip, limit - len(found))
        found += _rows(rows)
        if skip + len(rows) < len(table):
            return found, PagePosition(reader.epoch, group, skip + len(rows))
        group, skip = last + 1, 0
        if len(found) == limit or time.monotonic() > until:
            break
    return found, PagePosition(reader.epoch, group) if group < groups else None


def operator_page(
    reader: SavepointReader, operator: OperatorInfo, state: StateInfo, place: PagePosition, limit: int
) -> tuple[list[dict[str, Any]], PagePosition | None]:
    """Like :func:`page_from`, for operator state, which is small."""
    table = reader.operator_state(operator.uid, state.name)
    rows = table.slice(place.entry, limit)
    behind = place.entry + len(rows)
    return list(_rows(rows)), PagePosition(reader.epoch, 0, behind) if behind < len(table) else None


def key_from(text: str) -> Any:
    """Parse a key from JSON. A string may be unquoted if it is not valid JSON.

    >>> key_from("17"), key_from('"17"'), key_from("alice"), key_from('["a", 1]')
    (17, '17', 'alice', ('a', 1))
    """
    try:
        return _frozen(json.loads(text))
    except ValueError:
        return text
    except RecursionError:
        raise BadRequestError("key: it is nested too deeply") from None


def entries_of_key(reader: SavepointReader, operator: OperatorInfo, state: StateInfo, key: Any) -> list[dict[str, Any]]:
    """Return the entries of a key in all namespaces, and for map state all map entries."""
    try:
        group = key_group_of(key, operator.max_parallelism)
    except InvalidKeyError as error:
        raise BadRequestError(f"key: {error}") from error
    wanted = json_value(key)
    table = reader.keyed_state(operator.uid, state.name, key_groups=(group, group))
    return [row for row in _rows(table) if row["key"] == wanted]


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    texts = {field.name for field in table.schema if (field.metadata or {}).get(b"tidemill.shown") == b"json"}
    for row in table.to_pylist():
        yield {
            name: json.loads(value) if name in texts and value is not None else json_value(value)
            for name, value in row.items()
        }


def json_value(value: Any) -> Any:
    """Convert a value to JSON values, tuples to lists. A very long value is truncated to the start of its text."""
    text = json_text(_with_tuples(value))
    if text is None:
        return None
    return json.loads(text) if len(text) <= _LONGEST else {"$truncated": text[:_LONGEST]}


def _with_tuples(value: Any) -> Any:
    """Restore the tuples in a value of a table, where they are structs with the fields ``f0``, ``f1`` and so on."""
    if isinstance(value, dict):
        made = {name: _with_tuples(item) for name, item in value.items()}
        is_tuple = list(made) == [f"f{position}" for position in range(len(made))]
        return list(made.values()) if is_tuple and made else made
    return list(map(_with_tuples, value)) if isinstance(value, list) else value


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
