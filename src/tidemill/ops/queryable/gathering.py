"""Collects the rows of many keys for one answer. Each block is accessed once, and rows of one schema are combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from tidemill.ops.queryable.answer import AnswerPart, PartSchema, Place
from tidemill.ops.queryable.blocks import IndexedBlock

__all__ = ["Gathering"]

#: Maximum size of an answer for several keys. Keys that do not fit are omitted, and must be requested separately.
_MOST_BYTES: Final = 4 << 20


class Gathering:
    """The rows of some keys, collected for an answer."""

    def __init__(self, *, several: bool) -> None:
        # configuration
        self._several = several
        # transient
        #: The requested rows of each block.
        self._rows: dict[IndexedBlock, list[int]] = {}
        #: For each key, the positions of its rows in the lists above.
        self._spans: list[list[tuple[IndexedBlock, int, int]] | None] = []
        self._bytes = 0

    def add(self, found: Sequence[tuple[IndexedBlock, list[int]]]) -> None:
        """Add the rows of the next key, oldest first."""
        size = sum(block.size_of(rows) for block, rows in found)
        if self._several and self._bytes + size > _MOST_BYTES:
            self._spans.append(None)
            return
        self._bytes += size
        spans = []
        for block, rows in found:
            wanted = self._rows.setdefault(block, [])
            spans.append((block, len(wanted), len(rows)))
            wanted += rows
        self._spans.append(spans)

    def parts(self) -> tuple[tuple[AnswerPart, ...], tuple[Place | None, ...]]:
        """Return all rows, one part for each schema, and the place of each key in them."""
        by_schema: dict[bytes, tuple[PartSchema, list[pa.RecordBatch]]] = {}
        moved: dict[IndexedBlock, tuple[int, int]] = {}
        sizes: dict[bytes, int] = {}
        for block, rows in self._rows.items():
            schema, batches = by_schema.setdefault(block.schema.id, (block.schema, []))
            before = sizes.get(schema.id, 0)
            moved[block] = (list(by_schema).index(schema.id), before)
            batches.append(block.take(rows))
            sizes[schema.id] = before + len(rows)
        parts = tuple(AnswerPart(schema, _joined(batches)) for schema, batches in by_schema.values())
        return parts, tuple(_place(spans, moved) for spans in self._spans)


def _place(
    spans: list[tuple[IndexedBlock, int, int]] | None, moved: dict[IndexedBlock, tuple[int, int]]
) -> Place | None:
    if spans is None:
        return None
    return tuple((moved[block][0], moved[block][1] + first, count) for block, first, count in spans)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
