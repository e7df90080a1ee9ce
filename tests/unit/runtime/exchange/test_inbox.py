"""The inbox: the clock over all channels, batches between marks, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.errors import TidemillError
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.exchange.inbox import Inbox, IncompleteInputError
from tidemill.runtime.exchange.parcels import Header, ParcelKind, encode_records, split
from tidemill.runtime.time.input_clock import Channel

MIN_TIME = -(2**63)
ONE, TWO = b"1" * 16, b"2" * 16


def data(
    values: list[Any], *, edge: int = 0, sender: int = 0, seq: int = 0, watermark: int = MIN_TIME, **more: Any
) -> bytes:
    header = Header(ParcelKind.DATA, 1, edge, 0, sender, seq, watermark, more.get("attempt", ONE))
    return header.pack() + encode_records(values, more.get("timestamps"), more.get("keys"), more.get("marks"))


def end(sent: int, *, edge: int = 0, sender: int = 0, watermark: int = MIN_TIME, attempt: bytes = ONE) -> bytes:
    return Header(ParcelKind.END, 1, edge, 0, sender, sent, watermark, attempt).pack()


class Reader:
    """An inbox that writes down the calls it gets, in order."""

    def __init__(self, senders: dict[int, int], clock: int = MIN_TIME) -> None:
        self.events: list[Any] = []
        self.inbox = Inbox(senders, MIN_TIME, clock, self._batch, self.events.append)

    def _batch(self, edge: int, batch: Batch) -> None:
        self.events.append((edge, batch.values, batch.timestamps, batch.keys))

    def read(self, *parcels: bytes) -> list[Any]:
        self.counts = list(self.inbox.read(parcels))
        return self.events


def test_batches_come_between_the_marks() -> None:
    reader = Reader({0: 1})
    parcel = data(["a", "b", "c"], watermark=1, timestamps=[1, 2, 3], keys=["x", "y", "z"], marks=[(1, 5), (3, 9)])
    assert reader.read(parcel, end(1, watermark=9)) == [
        1,
        (0, ["a"], [1], ["x"]),
        5,
        (0, ["b", "c"], [2, 3], ["y", "z"]),
        9,
    ]
    assert reader.counts == [3]


def test_a_silent_channel_is_closed_by_its_end() -> None:
    reader = Reader({0: 2})
    events = reader.read(data(["a"], marks=[(1, 7)]), end(1, watermark=7), end(0, sender=1, watermark=4))
    assert events == [(0, ["a"], None, None), 4]


def test_several_edges() -> None:
    reader = Reader({0: 1, 3: 1})
    events = reader.read(data([1], edge=3), data([2]), end(1), end(1, edge=3))
    assert events == [(0, [2], None, None), (3, [1], None, None)]
    assert reader.inbox.attempts == {Channel(0, 0): ONE, Channel(3, 0): ONE}


def test_a_sender_that_did_not_finish_is_a_consequence() -> None:
    with pytest.raises(IncompleteInputError, match="subtask 1 of edge 0 did not finish"):
        Reader({0: 2}).read(data([1]), end(1))


def test_a_lost_parcel_is_noticed() -> None:
    with pytest.raises(TidemillError, match="announced 2 parcels, but 1 arrived"):
        Reader({0: 1}).read(data([1]), end(2))


def test_a_lost_part_of_a_split_parcel_is_noticed() -> None:
    header = Header(ParcelKind.DATA, 1, 0, 0, 0, 0, MIN_TIME, ONE)
    parts = list(split(header, encode_records([b"x" * 1000], None, None, None), 100))
    for missing in (0, 5, len(parts) - 1):
        kept = parts[:missing] + parts[missing + 1 :]
        with pytest.raises(TidemillError, match=r"is missing|announced 1 parcels, but 0"):
            Reader({0: 1}).read(*kept, end(1))


def test_parcels_of_two_attempts_are_not_mixed() -> None:
    with pytest.raises(TidemillError, match="two attempts were mixed"):
        Reader({0: 1}).read(data([1]), data([2], seq=1, attempt=TWO), end(2))


def test_an_unknown_channel_is_refused() -> None:
    with pytest.raises(TidemillError, match="unknown channel"):
        Reader({0: 1}).read(data([1], sender=4))


def idle(seq: int, *, sender: int, watermark: int, is_idle: bool = True) -> bytes:
    header = Header(ParcelKind.DATA, 1, 0, 0, sender, seq, watermark, ONE, idle=is_idle)
    return header.pack() + encode_records([], None, None, None)


def test_the_status_of_channels_travels_in_band() -> None:
    events: list[Any] = []
    inbox = Inbox(
        {0: 2},
        MIN_TIME,
        MIN_TIME,
        lambda edge, batch: events.append(batch.values),
        events.append,
        lambda is_idle: events.append("idle" if is_idle else "active"),
    )
    parcels = [
        idle(0, sender=0, watermark=3),
        idle(0, sender=1, watermark=8),
        idle(1, sender=0, watermark=9, is_idle=False),
        data(["a"], sender=0, seq=2, watermark=10),
        end(3, sender=0, watermark=12),
        Header(ParcelKind.END, 1, 0, 0, 1, 1, 8, ONE, idle=True).pack(),
    ]
    assert list(inbox.read(parcels)) == [0, 0, 0, 1]
    assert events == [8, "idle", "active", 9, 10, ["a"], 12]


def test_a_source_without_strands_has_the_time_of_its_furthest_sender() -> None:
    events: list[Any] = []
    inbox = Inbox(
        {0: 3, 1: 1}, MIN_TIME, MIN_TIME, lambda edge, batch: events.append(batch.values), events.append, dealt=[0]
    )
    parcels = [
        data(["a"], edge=0, sender=0, watermark=1),
        end(1, edge=0, sender=0, watermark=20),
        end(0, edge=0, sender=1, watermark=30),
        end(0, edge=0, sender=2, watermark=1),
        end(0, edge=1, watermark=25),
    ]
    list(inbox.read(parcels))
    assert events[-1] == 25, "the other edge is slower than the furthest of the first"
    assert ["a"] in events
    assert events.index(["a"]) < events.index(25)
