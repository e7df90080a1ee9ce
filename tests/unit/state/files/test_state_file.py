"""State files: what was written is read, whole or by key groups; damage is seen before a value is used."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.checkpoint.model import SectionInfo
from tidemill.errors import CorruptFileError, SerializationError
from tidemill.state.codecs.column_codecs import AnyCodec, decode_column, encode_column
from tidemill.state.files.state_file import (
    RangeReader,
    Section,
    SectionIndexEntry,
    decode_sections,
    encode_sections,
    read_index,
)
from tidemill.state.keys.key_groups import KeyGroup

NAME = "chk/7-0.state"


def section(groups: list[int], operator: str = "op", state: str = "count", values: list[Any] | None = None) -> Section:
    keys_field, keys = encode_column("key", AnyCodec(), [f"key-{i}" for i in range(len(groups))])
    values_field, column = encode_column("value", AnyCodec(), list(range(len(groups))) if values is None else values)
    table = pa.Table.from_arrays(
        [pa.array(groups, pa.uint16()), keys, column],
        schema=pa.schema([pa.field("key_group", pa.uint16()), keys_field, values_field]),
    )
    return Section(operator, state, "value", {"value": {"kind": "basic"}, "ttl": None}, table)


def rows(found: Section) -> list[tuple[Any, ...]]:
    """The rows as Python values."""
    table = found.table
    columns = [decode_column(table.schema.field(name), table.column(name)) for name in table.schema.names[1:]]
    return list(zip(table.column("key_group").to_pylist(), *columns, strict=True))


def by_group(found: Section) -> list[tuple[Any, ...]]:
    return sorted(rows(found), key=lambda row: row[0])


def test_sections_come_back_in_order_and_sorted_by_group() -> None:
    written = [section([5, 1, 5, 0]), section([3], state="other"), section([], operator="empty"), section([9, 9], "b")]
    data, index = encode_sections(written)
    assert index == [
        SectionIndexEntry("op", "count", KeyGroup(0), KeyGroup(5), 4),
        SectionIndexEntry("op", "other", KeyGroup(3), KeyGroup(3), 1),
        SectionIndexEntry("empty", "count", KeyGroup(0), KeyGroup(-1), 0),
        SectionIndexEntry("b", "count", KeyGroup(9), KeyGroup(9), 2),
    ]
    read = list(decode_sections(data, NAME))
    assert [(s.operator, s.state, s.kind, s.schema) for s in read] == [
        (s.operator, s.state, s.kind, s.schema) for s in written if s.table.num_rows
    ]
    assert [rows(s) for s in read] == [by_group(s) for s in written if s.table.num_rows]
    assert rows(read[0]) == [(0, "key-3", 3), (1, "key-1", 1), (5, "key-0", 0), (5, "key-2", 2)]
    assert [s.operator for s in decode_sections(data, NAME, operators={"b", "unknown"})] == ["b"]
    assert not list(decode_sections(*encode_sections([])[:1], NAME))


def test_the_index_entry_has_what_a_manifest_needs() -> None:
    assert [f.name for f in fields(SectionIndexEntry)] == [f.name for f in fields(SectionInfo)]


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=3),
    st.integers(0, 42),
    st.integers(0, 42),
    st.sampled_from([None, "lz4", "zstd"]),
    st.sampled_from([1, 100, 1 << 20]),
)
def test_reading_some_groups_equals_filtering(
    groups: list[list[int]], first: int, last: int, compression: str | None, block_bytes: int
) -> None:
    written = [section(g, state=str(i)) for i, g in enumerate(groups)]
    data, _ = encode_sections(written, compression=compression, block_bytes=block_bytes)
    expected = {s.state: [row for row in by_group(s) if first <= row[0] <= last] for s in written}
    read = list(decode_sections(data, NAME, None, KeyGroup(first), KeyGroup(last)))
    assert {s.state: rows(s) for s in read} == {state: kept for state, kept in expected.items() if kept}


def test_a_reader_of_ranges_fetches_only_what_it_needs() -> None:
    many = 50_000
    written = [section(sorted(i % 128 for i in range(many)), state="big"), section([1], state="small")]
    data, _ = encode_sections(written, block_bytes=100_000)
    fetched: list[int] = []

    def read(offset: int, length: int) -> bytes:
        fetched.append(length)
        return data[offset : offset + length]

    (found,) = decode_sections(RangeReader(read, len(data)), NAME, {"op"}, KeyGroup(64), KeyGroup(65))
    assert rows(found) == [row for row in rows(written[0]) if 64 <= row[0] <= 65]
    assert sum(fetched) < len(data) / 4
    assert len(fetched) == 3  # the end, the beginning, and the blocks in one
    assert len(read_index(data, NAME)[0].blocks) > 10


def test_a_footer_larger_than_the_first_read() -> None:
    written = [section([i], operator=f"operator-{i:04}", state="s" * 100) for i in range(400)]
    data, _ = encode_sections(written)
    (found,) = decode_sections(data, NAME, {"operator-0123"})
    assert rows(found) == [(123, "key-0", 0)]


def test_the_same_sections_give_the_same_bytes() -> None:
    values = [{"a": [1, None]}, {"b": []}, None]
    for compression in (None, "lz4", "zstd"):
        one, _ = encode_sections([section([3, 2, 1], values=values)], compression=compression)
        two, _ = encode_sections([section([3, 2, 1], values=values)], compression=compression)
        assert one == two


def test_every_flipped_bit_is_seen() -> None:
    data, _ = encode_sections([section([1, 2]), section([3], state="b")])
    for at in range(len(data)):
        for bit in (1, 128):
            damaged = bytearray(data)
            damaged[at] ^= bit
            with pytest.raises(CorruptFileError, match=r"chk/7-0\.state: .*(offset|bytes)"):
                list(decode_sections(bytes(damaged), NAME))


def test_every_truncation_and_extension_is_seen() -> None:
    data, _ = encode_sections([section([1, 2])], compression="lz4")
    for length in range(len(data)):
        with pytest.raises(CorruptFileError, match=r"chk/7-0\.state"):
            list(decode_sections(data[:length], NAME))
    for extra in (data + b"\0", b"\0" + data, data + data):
        with pytest.raises(CorruptFileError):
            list(decode_sections(extra, NAME))


def test_damage_is_seen_before_the_section_is_returned() -> None:
    data, _ = encode_sections([section([1]), section([2], state="b")])
    second = read_index(data, NAME)[1].blocks[0]
    damaged = bytearray(data)
    damaged[second.offset + 10] ^= 1
    found = decode_sections(bytes(damaged), NAME)
    assert rows(next(found)) == [(1, "key-0", 0)]
    with pytest.raises(CorruptFileError, match=f"offset {second.offset} does not match its checksum"):
        next(found)


def test_a_reader_that_returns_too_little() -> None:
    data, _ = encode_sections([section([1])])
    with pytest.raises(CorruptFileError, match="expected at offset 0, got"):
        list(decode_sections(RangeReader(lambda offset, length: data[offset : offset + length - 1], len(data)), NAME))


def forged(change: Any) -> bytes:
    """A file whose index was changed, with checksums that match."""
    data, _ = encode_sections([section([1, 2])])
    length = struct.unpack_from("<I", data, len(data) - 16)[0]
    index = json.loads(data[-16 - length : -16])
    changed = change(index)
    footer = json.dumps(index if changed is None else changed).encode()
    size = struct.pack("<I", len(footer))
    crc = zlib.crc32(footer + size)
    return data[: -16 - length] + footer + size + struct.pack("<I", crc) + b"TMSTATE\0"


@pytest.mark.parametrize(
    "change",
    [
        lambda index: [],
        lambda index: {},
        lambda index: {"v": 2, "sections": []},
        lambda index: {"v": 1, "sections": []},
        lambda index: index["sections"][0].pop("rows"),
        lambda index: index["sections"][0].update(rows=3),
        lambda index: index["sections"][0].update(rows=10**12),
        lambda index: index["sections"][0].update(groups=[2, 1]),
        lambda index: index["sections"][0].update(groups=[1]),
        lambda index: index["sections"][0].update(groups=None),
        lambda index: index["sections"][0].update(starts=[0, 5]),
        lambda index: index["sections"][0].update(starts=[1, 1]),
        lambda index: index["sections"][0].update(blocks=[]),
        lambda index: index["sections"][0]["blocks"][0].__setitem__(0, 0),
        lambda index: index["sections"][0]["blocks"][0].__setitem__(1, 10**15),
        lambda index: index["sections"][0]["blocks"][0].__setitem__(2, 7),
    ],
)
def test_an_index_that_lies_is_seen(change: Any) -> None:
    def silent(index: Any) -> Any:
        changed = change(index)
        return changed if isinstance(changed, (dict, list)) else None

    with pytest.raises(CorruptFileError, match=r"chk/7-0\.state: .*offset"):
        list(decode_sections(forged(silent), NAME))


def test_blocks_that_are_no_arrow_streams() -> None:
    data, _ = encode_sections([section([1, 2])])
    (block,) = read_index(data, NAME)[0].blocks
    rng = np.random.default_rng(7)
    for _ in range(300):
        damaged = bytearray(data)
        at = block.offset + int(rng.integers(block.length))
        damaged[at] ^= int(rng.integers(1, 256))
        crc = zlib.crc32(damaged[block.offset : block.offset + block.length])

        def change(index: Any, crc: int = crc) -> None:
            index["sections"][0]["blocks"][0][2] = crc

        tail = forged(change)[block.offset + block.length :]
        try:
            for found in decode_sections(bytes(damaged[: block.offset + block.length]) + tail, NAME):
                rows(found)
        except (CorruptFileError, SerializationError):
            continue


def test_tables_need_a_key_group() -> None:
    for column in (pa.array([1], pa.int64()), pa.array([None], pa.uint16())):
        bad = Section("op", "count", "value", {}, pa.table({"key_group": column}))
        with pytest.raises(
            SerializationError, match="'count' of operator 'op' needs a column 'key_group' of type uint16"
        ):
            encode_sections([bad])
    with pytest.raises(SerializationError, match="'key_group'"):
        encode_sections([Section("op", "count", "value", {}, pa.table({"key": [1]}))])
    with pytest.raises(SerializationError, match="plain JSON"):
        encode_sections([Section("op", "count", "value", {"x": object()}, section([1]).table)])


def test_chunked_and_sliced_tables() -> None:
    whole = section([4, 3, 2, 1, 0])
    parts = pa.concat_tables([whole.table.slice(1, 2), whole.table.slice(4, 1), whole.table.slice(0, 1)])
    data, _ = encode_sections([Section("op", "count", "value", {}, parts)])
    (found,) = decode_sections(memoryview(data), NAME)
    assert [row[0] for row in rows(found)] == [0, 2, 3, 4]


def test_the_documented_layout() -> None:
    """A stranger's reader, from the docstring alone."""
    data, _ = encode_sections([section([2, 1])])
    assert data[:8] == data[-8:] == b"TMSTATE\0"
    assert struct.unpack("<H6x", data[8:16]) == (1,)
    length, crc = struct.unpack("<II", data[-16:-8])
    footer = data[-16 - length : -16]
    assert zlib.crc32(footer + data[-16:-12]) == crc
    (entry,) = json.loads(footer)["sections"]
    assert (entry["groups"], entry["starts"], entry["rows"], entry["first"], entry["last"]) == ([1, 2], [0, 1], 2, 1, 2)
    ((offset, size, checksum, count),) = entry["blocks"]
    assert (offset, count, zlib.crc32(data[offset : offset + size])) == (16, 2, checksum)
    table = pa.ipc.open_stream(data[offset : offset + size]).read_all()
    assert table.to_pydict() == {"key_group": [1, 2], "key": ["key-1", "key-0"], "value": [1, 0]}
