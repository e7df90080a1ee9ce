"""Parcels: headers, order, ties, records that are split, records of all kinds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.errors import SerializationError, TidemillError
from tidemill.runtime.exchange.parcels import (
    HEADER_SIZE,
    Header,
    ParcelKind,
    decode_records,
    encode_records,
    in_order,
    order_of,
    split,
    watermark_bucket,
)

ATTEMPT = bytes(range(16))
MIN_TIME, MAX_TIME = -(2**63), 2**63 - 1


def header(kind: ParcelKind = ParcelKind.DATA, **fields: Any) -> Header:
    values: dict[str, Any] = {
        "level": 1,
        "edge": 0,
        "target": 0,
        "sender": 0,
        "seq": 0,
        "watermark": MIN_TIME,
        "attempt": ATTEMPT,
    }
    return Header(kind, **{**values, **fields})


def sort_as_the_engine(parcels: list[bytes], base: int) -> list[bytes]:
    """By the sort key alone: ties come in any order."""
    mixed = random.Random(3).sample(parcels, len(parcels))
    return sorted(mixed, key=lambda parcel: order_of(Header.unpack(parcel), base))


def test_a_header_is_its_bytes() -> None:
    one = header(ParcelKind.END, level=65535, edge=7, target=2**32 - 1, sender=5, seq=9, watermark=MAX_TIME)
    assert len(one.pack()) == HEADER_SIZE
    assert Header.unpack(one.pack() + b"payload") == one


def test_the_list_of_strands_comes_before_all_else() -> None:
    first = header(watermark=MIN_TIME, strand=0).pack()
    parcels = [
        header(ParcelKind.END, seq=1).pack(),
        first,
        header(ParcelKind.OPEN, sender=9, watermark=MAX_TIME).pack(),
    ]
    read = [one.kind for one, _ in in_order(sort_as_the_engine(parcels, 0), 0)]
    assert read == [ParcelKind.OPEN, ParcelKind.DATA, ParcelKind.END]


def test_strands_of_one_sender_are_channels_of_their_own() -> None:
    parcels = [header(strand=strand, seq=seq, watermark=seq).pack() for strand in range(3) for seq in range(4)]
    read = [(one.strand, one.seq) for one, _ in in_order(sort_as_the_engine(parcels, 0), 0)]
    assert [seq for _, seq in read] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3, "side by side"
    assert len({order_of(Header.unpack(parcel), 0) for parcel in parcels}) == len(parcels), "and no ties to settle"


def test_another_version_is_refused() -> None:
    with pytest.raises(TidemillError, match=r"format version 9.*same version of Tidemill"):
        Header.unpack(b"\x09" + header().pack()[1:])


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(MIN_TIME, MAX_TIME), st.integers(MIN_TIME, MAX_TIME), st.integers(MIN_TIME, MAX_TIME))
def test_the_bucket_never_falls_as_the_watermark_rises(base: int, one: int, two: int) -> None:
    low, high = sorted((one, two))
    assert 0 <= watermark_bucket(low, base) <= watermark_bucket(high, base) <= 255


CHANNEL = st.lists(st.integers(0, 10**6), max_size=40)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(CHANNEL, min_size=1, max_size=4), st.integers(0, 10**6))
def test_every_channel_is_read_in_the_order_it_was_sent(channels: list[list[int]], base: int) -> None:
    parcels = []
    for sender, advances in enumerate(channels):
        watermark = base
        for seq, advance in enumerate(advances):
            watermark += advance
            parcels.append(header(sender=sender, seq=seq, watermark=watermark).pack())
        parcels.append(header(ParcelKind.END, sender=sender, seq=len(advances), watermark=watermark).pack())
    read = [one for one, _ in in_order(sort_as_the_engine(parcels, base), base)]
    assert len(read) == len(parcels)
    for sender, advances in enumerate(channels):
        of_channel = [one for one in read if one.sender == sender]
        assert [one.seq for one in of_channel] == list(range(len(advances) + 1))
        assert of_channel[-1].kind is ParcelKind.END
    assert [one.kind for one in read] == sorted(one.kind for one in read)


def test_order_is_kept_where_the_bits_of_the_sort_key_end() -> None:
    """More parcels than the sort key counts, more senders than it tells apart, in one watermark bucket."""
    parcels = [header(sender=sender, seq=seq).pack() for sender in (0, 2048, 4096) for seq in range(4090, 4110)]
    read = [one for one, _ in in_order(sort_as_the_engine(parcels, MIN_TIME), MIN_TIME)]
    for sender in (0, 2048, 4096):
        assert [one.seq for one in read if one.sender == sender] == list(range(4090, 4110))


def test_ties_are_settled_the_same_way_each_time() -> None:
    parcels = [header(edge=edge, sender=sender).pack() for edge in range(3) for sender in (0, 2048)]
    orders = set()
    for seed in range(10):
        mixed = random.Random(seed).sample(parcels, len(parcels))
        orders.add(tuple((one.edge, one.sender) for one, _ in in_order(mixed, MIN_TIME)))
    assert len(orders) == 1


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000, 12345])
def test_a_large_parcel_is_split_and_put_together(size: int) -> None:
    payload = random.Random(size).randbytes(size)
    parts = list(split(header(seq=3), payload, 100))
    assert len(parts) == max(1, -(-size // 100))
    assert all(len(part) <= HEADER_SIZE + 100 for part in parts)
    ((one, again),) = in_order(sort_as_the_engine(parts, MIN_TIME), MIN_TIME)
    assert bytes(again) == payload
    assert one.seq == 3


def test_split_parcels_of_several_channels_do_not_mix() -> None:
    payloads = {sender: bytes([sender]) * 1000 for sender in range(4)}
    parts = [part for sender, payload in payloads.items() for part in split(header(sender=sender), payload, 64)]
    read = {one.sender: bytes(payload) for one, payload in in_order(sort_as_the_engine(parts, MIN_TIME), MIN_TIME)}
    assert read == payloads


def test_parts_grow_where_their_number_would_not_fit() -> None:
    parts = list(split(header(), bytes(200_000), 1))
    assert len(parts) <= 0xFFFF
    ((_, payload),) = in_order(parts, MIN_TIME)
    assert len(payload) == 200_000


class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and other.x == self.x

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1, "a", None, 2.5, b"x", True],
        [("a", 1), ("b", [1, {"x": ()}])],
        [Point(1), Point(2)],
        [(Point(1), 1), (Point(2), 2)],
        [{1, 2}, frozenset({3})],
        [2**100, -(2**100)],
        # Without its memo, CPython's pickler takes 50 frozensets beside each other for nested ones.
        [(number, frozenset({number})) for number in range(60)],
        [{"tags": [frozenset({number}), frozenset()]} for number in range(60)],
    ],
)
def test_records_survive(values: list[Any]) -> None:
    stamps: list[int] = list(range(len(values)))
    assert decode_records(encode_records(values, stamps, None, [(1, 5)])) == (values, stamps, None, [(1, 5)])


def test_a_record_that_contains_itself_survives() -> None:
    record: list[Any] = [1]
    record.append(record)
    (again,), _, _, _ = decode_records(encode_records([record], None, None, None))
    assert again[1] is again


def test_a_class_of_a_function_survives() -> None:
    class Local:
        x = 7

    (again,), _, _, _ = decode_records(encode_records([Local()], None, None, None))
    assert again.x == 7


def test_what_cannot_be_pickled_is_reported() -> None:
    with pytest.raises(SerializationError, match=r"type generator cannot be sent.*must be picklable"):
        encode_records([(n for n in range(3))], None, None, None)


@pytest.mark.parametrize("kind", list(ParcelKind))
def test_a_header_says_whether_the_sender_is_idle(kind: ParcelKind) -> None:
    for idle in (True, False):
        header = Header(kind, 1, 2, 3, 4, 5, 6, b"a" * 16, idle=idle)
        assert Header.unpack(header.pack()) == header
