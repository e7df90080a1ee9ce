"""Pages of a state: some entries at a time, of one committed epoch, without reading all that come before.

A place in a state is a range of key groups, about a megabyte of it, and a number of entries in there. Within one epoch
it always means the same, so a page is followed by the next one whoever asks, and nothing is kept in between.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidemill.errors import InvalidKeyError
from tidemill.ops.rest.errors import BadRequestError
from tidemill.state.codecs.plain_values import json_text
from tidemill.state.keys.key_groups import key_group_of
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo

__all__ = ["PagePosition", "entries_of_key", "key_from", "operator_page", "page_from", "shown"]

#: About how much of the files is read at a time.
_CHUNK: Final = 1 << 20
#: A page ends when it has taken so long, also if it is not full.
_SECONDS: Final = 2.0
#: What is shown of one value, in characters of JSON.
_LONGEST: Final = 16_384


@dataclass(frozen=True)
class PagePosition:
    """A place in a state of an epoch: behind it is what was not shown yet.

    >>> PagePosition.of("7-32-5"), str(PagePosition(7, 32, 5))
    (PagePosition(epoch=7, group=32, entry=5), '7-32-5')
    """

    epoch: int
    group: int = 0
    entry: int = 0

    @classmethod
    def of(cls, text: str) -> PagePosition:
        """The place that a page named as ``next``."""
        return cls(*map(int, text.split("-")))

    def __str__(self) -> str:
        return f"{self.epoch}-{self.group}-{self.entry}"


def page_from(
    reader: SavepointReader, operator: OperatorInfo, state: StateInfo, place: PagePosition, limit: int
) -> tuple[list[dict[str, Any]], PagePosition | None]:
    """At most ``limit`` entries from a place on, and the place behind them; None if there are no more."""
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
    """As :func:`page_from`, for operator state, which is small."""
    table = reader.operator_state(operator.uid, state.name)
    rows = table.slice(place.entry, limit)
    behind = place.entry + len(rows)
    return list(_rows(rows)), PagePosition(reader.epoch, 0, behind) if behind < len(table) else None


def key_from(text: str) -> Any:
    """A key from JSON; text may stand without quotes where it is nothing else.

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
    """What a state has for a key: in all namespaces, and for map state all entries."""
    try:
        group = key_group_of(key, operator.max_parallelism)
    except InvalidKeyError as error:
        raise BadRequestError(f"key: {error}") from error
    wanted = shown(key)
    table = reader.keyed_state(operator.uid, state.name, key_groups=(group, group))
    return [row for row in _rows(table) if row["key"] == wanted]


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    texts = {field.name for field in table.schema if (field.metadata or {}).get(b"tidemill.shown") == b"json"}
    for row in table.to_pylist():
        yield {
            name: json.loads(value) if name in texts and value is not None else shown(value)
            for name, value in row.items()
        }


def shown(value: Any) -> Any:
    """A value as JSON, tuples as lists; one that is very long as the beginning of its text."""
    text = json_text(_with_tuples(value))
    if text is None:
        return None
    return json.loads(text) if len(text) <= _LONGEST else {"$truncated": text[:_LONGEST]}


def _with_tuples(value: Any) -> Any:
    """A value of a table with its tuples as such: there they have fields, ``f0`` and so on."""
    if isinstance(value, dict):
        made = {name: _with_tuples(item) for name, item in value.items()}
        is_tuple = list(made) == [f"f{position}" for position in range(len(made))]
        return list(made.values()) if is_tuple and made else made
    return list(map(_with_tuples, value)) if isinstance(value, list) else value


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
