"""Columns cross every kind of exchange as records would: same targets, order, keys, timestamps and watermarks."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.common.typeinfo import Types
from tidemill.datastream.program.key_selectors import PositionSelector
from tidemill.datastream.program.transformations import Partitioning, PartitionKind
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.runtime.exchange.inbox import Inbox
from tidemill.runtime.exchange.parcels import Header, ParcelKind, order_of
from tidemill.runtime.exchange.routes import route_for
from tidemill.runtime.exchange.sender import EdgeSender
from tidemill.state.keys.canonical_key import canonical_keys

TARGETS = 3
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - Arrow returns times without a zone for a column without one
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.text(max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=3)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "decimal": (pa.decimal128(10, 2), st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 100)),
    "time": (pa.timestamp("us"), st.integers(0, 10**15).map(lambda n: _EPOCH + dt.timedelta(microseconds=n))),
}


@st.composite
def sent_things(draw: st.DrawFn, nulls: bool) -> tuple[str, list[Any]]:
    """Batches of (key, number) with or without timestamps, and watermarks between them."""
    name = draw(st.sampled_from(sorted(KINDS)))
    key = KINDS[name][1] | st.none() if nulls else KINDS[name][1]
    rows = st.lists(st.tuples(key, st.integers(0, 99)), min_size=1, max_size=12)
    batches = st.tuples(rows, st.booleans(), st.integers(0, 50))
    return name, draw(st.lists(batches | st.integers(0, 1000), max_size=8))


def batch_of(name: str, as_columns: bool, rows: list[Any], stamped: bool, time: int) -> Batch:
    times = [time + place for place in range(len(rows))] if stamped else None
    if not as_columns:
        return Batch(list(rows), times)
    arrays = [pa.array([row[0] for row in rows], KINDS[name][0]), pa.array([row[1] for row in rows], pa.int64())]
    columns = pa.RecordBatch.from_arrays(arrays, names=["k", "n"])
    return ColumnBatch(columns, RecordShape.TUPLE, None if times is None else pa.array(times, pa.int64()))


def exchanged(
    partitioning: Partitioning, name: str, things: list[Any], as_columns: list[bool], *, size: int = 1 << 20
) -> tuple[dict[int, list[Any]], set[ParcelKind]]:
    """What each target receives: records with timestamps and keys, and watermarks, in order."""
    broadcast = partitioning.kind is PartitionKind.BROADCAST
    shipped: dict[int, list[tuple[Header, bytes]]] = {target: [] for target in range(TARGETS)}
    sender = EdgeSender(
        edge=0,
        origin="source",
        route=route_for(partitioning, "op", 0, 1, TARGETS, 128),
        broadcast=broadcast,
        sender=0,
        level=1,
        partitions=list(range(TARGETS)),
        parcel_size=size,
    )
    sender.begin_epoch(b"a" * 16, MIN_TIME, "seed", lambda header, data: shipped[header.target].append((header, data)))
    highest = MIN_TIME
    for thing, columnar in zip(things, as_columns, strict=True):
        if isinstance(thing, int):
            highest = max(highest, thing)
            sender.watermark(highest)
        else:
            sender.send(batch_of(name, columnar, *thing))
    sender.finish()
    keyed = partitioning.kind is PartitionKind.KEY_GROUP
    return (
        {target: read(parcels, keyed) for target, parcels in shipped.items()},
        {header.kind for parcels in shipped.values() for header, _ in parcels},
    )


def read(parcels: list[tuple[Header, bytes]], keyed: bool) -> list[Any]:
    events: list[Any] = []

    def take(edge: int, batch: Batch) -> None:
        found = batch.keys if batch.keys is not None else [value[0] for value in batch.values] if keyed else None
        keys: list[Any] = [None] * len(batch) if found is None else canonical_keys(found)
        stamps: list[Any] = [None] * len(batch) if batch.timestamps is None else [*batch.timestamps]
        events.extend(zip(batch.values, stamps, keys, strict=True))

    inbox = Inbox({0: 1}, MIN_TIME, MIN_TIME, take, events.append)
    ordered = sorted(parcels, key=lambda item: order_of(item[0], MIN_TIME))
    for _ in inbox.read(data for _, data in ordered):
        pass
    return events


PARTITIONINGS = [
    Partitioning(PartitionKind.KEY_GROUP, PositionSelector(0)),
    Partitioning(PartitionKind.REBALANCE),
    Partitioning(PartitionKind.RESCALE),
    Partitioning(PartitionKind.SHUFFLE),
    Partitioning(PartitionKind.GLOBAL),
    Partitioning(PartitionKind.BROADCAST),
    Partitioning(PartitionKind.FORWARD),
]


@pytest.mark.parametrize("partitioning", PARTITIONINGS, ids=lambda one: one.kind.name)
@given(sent_things(nulls=False), st.data())
def test_columns_arrive_as_their_records_would(
    partitioning: Partitioning, sent: tuple[str, list[Any]], data: st.DataObject
) -> None:
    name, things = sent
    as_columns = data.draw(st.lists(st.booleans(), min_size=len(things), max_size=len(things)))
    expected, _ = exchanged(partitioning, name, things, [False] * len(things))
    found, _ = exchanged(partitioning, name, things, as_columns)
    assert found == expected
    in_small_parcels, _ = exchanged(partitioning, name, things, as_columns, size=300)
    assert in_small_parcels == expected


@pytest.mark.parametrize("partitioning", PARTITIONINGS, ids=lambda one: one.kind.name)
def test_columns_stay_columns_and_watermarks_do_not_divide_them(partitioning: Partitioning) -> None:
    things = [([(key, key) for key in range(100)], True, 5), 3, ([(7, 7)], True, 9), 4]
    _, kinds = exchanged(partitioning, "int", things, [True] * len(things))
    assert kinds == {ParcelKind.COLUMNS, ParcelKind.END}
    counts = [
        sum(1 for event in events if isinstance(event, tuple))
        for events in exchanged(partitioning, "int", things, [True] * 4)[0].values()
    ]
    assert sum(counts) == (303 if partitioning.kind is PartitionKind.BROADCAST else 101)


def test_a_declared_type_of_keys_decides_their_form() -> None:
    partitioning = Partitioning(PartitionKind.KEY_GROUP, PositionSelector(0), key_type=Types.LONG())
    rows = [(Decimal("1.50"), 1), (Decimal("1.00"), 2)]
    found, kinds = exchanged(partitioning, "decimal", [(rows, False, 0)], [True])
    assert ParcelKind.COLUMNS not in kinds
    assert len([events for events in found.values() if events]) == 1  # both have key 1
