"""The kinds of sections: what one row of a state file represents, and how the rows of a key are combined.

Several kinds of state share one kind of section: reducing and aggregating state are stored like values
(:mod:`tidemill.state.keyed.kinds`). The names and their meaning are part of the file format.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tidemill.errors import SerializationError
from tidemill.state.codecs.column_codecs import ColumnCodec, ListCodec
from tidemill.state.codecs.ttl import Stamped
from tidemill.state.files.rows import APPEND, CLEAR, Rows

__all__ = ["LIST", "MAP", "SECTION_KINDS", "TIMER", "VALUE", "SectionKind", "section_kind"]

_USER_KEY: Final = "user_key"


@dataclass(frozen=True)
class SectionKind:
    """One kind of section.

    ``entry_column`` is the column that distinguishes the entries of one key; None if a key has a single entry. With
    ``in_lists`` the value of a row is a list of elements, and later rows may append to it. ``value_name`` is the name
    shown instead of ``value`` when state is read as data.
    """

    name: str
    entry_column: str | None = None
    in_lists: bool = False
    value_name: str = "value"

    @cached_property
    def has_user_keys(self) -> bool:
        """Whether a row is one entry of a map, with its own key."""
        return self.entry_column == _USER_KEY

    @cached_property
    def is_single(self) -> bool:
        """Whether a key has a single row, so that only the last row is valid."""
        return self.entry_column is None and not self.in_lists

    @cached_property
    def rows_are_entries(self) -> bool:
        """Whether a row is a complete entry; for a list or a map it is only a part."""
        return not (self.in_lists or self.has_user_keys)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The columns that a program fills, in order, with their names when state is read as data."""
        return {"key": "key", "namespace": "namespace", _USER_KEY: "map_key", "value": self.value_name}

    def value_codec(self, codec: ColumnCodec) -> ColumnCodec:
        """The codec of the column ``value``, from the codec of a single value; a list has several values."""
        return ListCodec(codec) if self.in_lists else codec

    def settles(self, ops: Collection[int]) -> bool:
        """Whether rows with these operations replace all older rows of their key."""
        return CLEAR in ops if self.has_user_keys else any(op != APPEND for op in ops)

    def content(self, rows: Rows) -> Any:
        """The combined content of the rows of one key, merged and without deletes: a value, a list or a dict."""
        if self.in_lists:
            return [_without_time(item) for items in rows.values for item in items or ()]
        if self.has_user_keys:
            return {key: _without_time(value) for key, value in zip(rows.user_keys, rows.values, strict=True)}
        return _without_time(rows.values[0])


VALUE: Final = SectionKind("value")
LIST: Final = SectionKind("list", in_lists=True)
MAP: Final = SectionKind("map", entry_column=_USER_KEY)
#: Timers are stored like state; their value is the time.
TIMER: Final = SectionKind("timer", entry_column="value", value_name="timestamp")

SECTION_KINDS: Final[dict[str, SectionKind]] = {kind.name: kind for kind in (VALUE, LIST, MAP, TIMER)}


def section_kind(name: str) -> SectionKind:
    """The kind of a section by its stored name. Raises :class:`SerializationError` if it is unknown.

    >>> section_kind("list").in_lists
    True
    """
    found = SECTION_KINDS.get(name)
    if found is None:
        raise SerializationError(
            f"a section is of kind {name!r}, which this version cannot read; it supports {', '.join(SECTION_KINDS)}. "
            "Was it written by a newer version?"
        )
    return found


def _without_time(value: Any) -> Any:
    return value.value if isinstance(value, Stamped) else value
