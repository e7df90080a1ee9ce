"""State files: the durable form of keyed state, with many sections in one immutable file.

A **section** contains the entries of one state of one operator as a table with a column ``key_group`` (uint16), sorted
by that column. The file, all integers little endian::

    header   16 bytes   magic b"TMSTATE\\0", u16 version = 1, 6 zero bytes
    blocks              one after the other, each a complete Arrow IPC *stream* (schema, record batches, end); a section
                                                is one block, or several if it is large, each with the next rows
    footer              JSON (UTF-8), the index, see below
    trailer  16 bytes   u32 length of the footer, u32 crc32 of (footer + those 4 length bytes), magic b"TMSTATE\\0"

The index::

    {"v": 1, "sections": [{
        "operator": uid, "state": name, "kind": kind, "schema": {...}, "rows": n, "first": group, "last": group,
        "groups": [g, ...],                           the groups that occur, ascending
        "starts": [row, ...],                         the row of the section at which each of them starts
        "blocks": [[offset, length, crc32, rows], ...]}]}

To read everything: check both magics, the version and the footer's crc; then check each block's crc32 and pass its
bytes to any Arrow implementation. To read some key groups: ``groups`` and ``starts`` determine the rows, ``blocks`` the
byte ranges. The encoding of a column is stored in the metadata of its field
(:mod:`tidemill.state.codecs.column_codecs`). Blocks follow each other without gaps from byte 16 to the footer, and
every byte of the file is covered by a checksum or compared.

The same sections produce the same bytes (with the same version of Arrow).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import CorruptFileError, SerializationError
from tidemill.state.files.state_file_index import (
    HEADER,
    Block,
    IndexedSection,
    RangeReader,
    as_reader,
    encode_index,
    read_index,
)
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP, KeyGroup

__all__ = [
    "GROUP_COLUMN",
    "RangeReader",
    "Section",
    "SectionIndexEntry",
    "decode_sections",
    "encode_sections",
    "read_block",
    "read_index",
]

GROUP_COLUMN = "key_group"

# A block is the unit that a reader of a few groups must fetch and check. 4 MB take about 50 ms from storage with 100
# MB/s; the schema that each block repeats (1 KB) is negligible at this size.
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Section:
    """The entries of one state of one operator. ``schema`` is plain JSON data that a restoring job needs."""

    operator: str
    state: str
    kind: str
    schema: dict[str, Any]
    table: Any


@dataclass(frozen=True)
class SectionIndexEntry:
    """Describes one section of a state file; for an empty section ``first_group`` is 0 and ``last_group`` is -1."""

    operator: str
    state: str
    first_group: KeyGroup
    last_group: KeyGroup
    rows: int


def encode_sections(
    sections: Iterable[Section], *, compression: str | None = None, block_bytes: int = _BLOCK_BYTES
) -> tuple[bytes, list[SectionIndexEntry]]:
    """The bytes of a state file with these sections, in order, and an index entry for each of them.

    A table need not be sorted by key group; rows of one group keep their order. ``compression`` is None, "lz4" or
    "zstd" (Arrow's buffer compression). Raises :class:`SerializationError` if a table has no uint16 ``key_group``.
    """
    parts: list[Any] = [HEADER]
    at = len(HEADER)
    index: list[IndexedSection] = []
    options = pa.ipc.IpcWriteOptions(compression=compression)
    for section in sections:
        table, groups = _sorted(section)
        blocks: list[Block] = []
        for rows in _cut(table, block_bytes):
            data = _stream(rows, options)
            blocks.append(Block(at, len(data), zlib.crc32(data), rows.num_rows))
            parts.append(data)
            at += len(data)
        present, starts = np.unique(groups, return_index=True)
        index.append(
            IndexedSection(
                section.operator,
                section.state,
                section.kind,
                section.schema,
                table.num_rows,
                present.tolist(),
                starts.tolist(),
                blocks,
            )
        )
    parts.append(encode_index(index))
    return b"".join(parts), [SectionIndexEntry(s.operator, s.state, s.first, s.last, s.rows) for s in index]


def decode_sections(
    data: bytes | memoryview | RangeReader,
    name: str,
    operators: set[str] | None = None,
    first_group: KeyGroup = FIRST_GROUP,
    last_group: KeyGroup = LAST_GROUP,
    states: set[str] | None = None,
) -> Iterator[Section]:
    """The sections of a state file with their rows of the key groups ``first_group`` to ``last_group``, in file order.

    ``operators`` and ``states`` restrict the result (None: all). Sections without matching rows are left out. ``data``
    is the whole file, or a range reader, from which only the needed ranges are fetched. ``name`` is used in errors.
    Raises :class:`CorruptFileError` if a byte is damaged or missing: for the index before anything is returned, for a
    section before that section is returned.
    """
    reader = as_reader(data)
    for section in read_index(reader, name):
        if operators is not None and section.operator not in operators:
            continue
        if states is not None and section.state not in states:
            continue
        first, last = section.rows_of(first_group, last_group)
        if first < last:
            table = _read_rows(reader, name, section, first, last)
            yield Section(section.operator, section.state, section.kind, section.schema, table)


def _sorted(section: Section) -> tuple[Any, Any]:
    """The table sorted by key group, and its key groups."""
    table = section.table
    where = f"the table of state '{section.state}' of operator '{section.operator}'"
    at = table.schema.get_field_index(GROUP_COLUMN)
    if at < 0 or table.schema.field(at).type != pa.uint16() or table.column(at).null_count:
        raise SerializationError(f"{where} needs a column '{GROUP_COLUMN}' of type uint16 without nulls")
    groups = table.column(at).to_numpy()
    if groups.size and (groups[:-1] > groups[1:]).any():
        order = np.argsort(groups, kind="stable")
        return table.take(pa.array(order)), groups[order]
    return table, groups


def _cut(table: Any, block_bytes: int) -> Iterator[Any]:
    size = table.nbytes
    if size <= block_bytes or table.num_rows <= 1:
        yield table
        return
    rows = max(1, table.num_rows * block_bytes // size)
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _stream(table: Any, options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read_rows(reader: RangeReader, name: str, section: IndexedSection, first: int, last: int) -> Any:
    """The rows ``first`` up to but excluding ``last`` of a section, from the blocks that contain them, in one read."""
    wanted: list[Block] = []
    skipped = start = 0
    for block in section.blocks:
        end = start + block.rows
        if end <= first:
            skipped = end
        elif start < last:
            wanted.append(block)
        start = end
    offset = wanted[0].offset
    data = memoryview(reader.read(offset, wanted[-1].offset + wanted[-1].length - offset))
    fetched = RangeReader(lambda at, length: data[at - offset : at - offset + length], reader.size)
    tables = [read_block(fetched, name, block) for block in wanted]
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if first == skipped and last - first == table.num_rows:
        return table
    return table.slice(first - skipped, last - first)


def read_block(reader: RangeReader, name: str, block: Block) -> Any:
    """The rows of one block as a table. Raises :class:`CorruptFileError` if a byte of it is damaged or missing."""
    data = memoryview(reader.read(block.offset, block.length))
    if len(data) != block.length:
        raise CorruptFileError(f"{name}: {block.length} bytes expected at offset {block.offset}, got {len(data)}")
    if zlib.crc32(data) != block.crc:
        raise CorruptFileError(f"{name}: the block at offset {block.offset} does not match its checksum")
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            table = stream.read_all()
        table.validate(full=True)  # offsets in a forged file could point anywhere
        groups = table.schema.field(GROUP_COLUMN).type
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise CorruptFileError(f"{name}: the block at offset {block.offset} is not an Arrow stream: {error}") from error
    if table.num_rows != block.rows or groups != pa.uint16():
        raise CorruptFileError(f"{name}: the block at offset {block.offset} does not match its index entry")
    return table
