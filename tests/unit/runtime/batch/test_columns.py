"""Columnar batches: the same records to the same targets as Python objects would go."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.common.typeinfo import Types
from tidemill.common.types import Row
from tidemill.datastream.program.key_selectors import FieldSelector, PositionSelector
from tidemill.datastream.program.transformations import Partitioning, PartitionKind
from tidemill.runtime.batch.columns import (
    FILE_COLUMN,
    ColumnBatch,
    RecordShape,
    rows_by_file,
    rows_by_partition,
)
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.runtime.exchange.column_parcels import decode_columns, encode_columns
from tidemill.runtime.exchange.column_routes import key_column
from tidemill.runtime.exchange.inbox import Inbox
from tidemill.runtime.exchange.parcels import Header, ParcelKind, order_of
from tidemill.runtime.exchange.routes import route_for
from tidemill.runtime.exchange.sender import EdgeSender

TARGETS = 3


def batch_of(
    rows: list[tuple[Any, ...]], kinds: list[pa.DataType], shape: RecordShape = RecordShape.TUPLE
) -> ColumnBatch:
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    return ColumnBatch(pa.RecordBatch.from_arrays(columns, names=["k", "v"][: len(kinds)]), shape)


def sent(batches: list[Batch], selector: Any, size: int = 1 << 20) -> dict[int, list[tuple[Header, bytes]]]:
    """What a sender ships for these batches, by target."""
    shipped: dict[int, list[tuple[Header, bytes]]] = {target: [] for target in range(TARGETS)}
    sender = EdgeSender(
        edge=0,
        origin="source",
        route=route_for(Partitioning(PartitionKind.KEY_GROUP, selector), "op", 0, 1, TARGETS, 128),
        broadcast=False,
        sender=0,
        level=1,
        partitions=list(range(TARGETS)),
        parcel_size=size,
    )
    sender.begin_epoch(
        b"a" * 16, MIN_TIME, "seed", lambda header, parcel: shipped[header.target].append((header, parcel))
    )
    for batch in batches:
        sender.send(batch)
    sender.finish()
    return shipped


def received(parcels: list[tuple[Header, bytes]]) -> tuple[list[Any], list[Any]]:
    """Records and keys as the receiver sees them; keys are None where it has to take them from the records."""
    values: list[Any] = []
    keys: list[Any] = []

    def take(edge: int, batch: Batch) -> None:
        values.extend(batch.values)
        keys.extend(batch.keys or [None] * len(batch.values))

    inbox = Inbox({0: 1}, MIN_TIME, MIN_TIME, take, lambda watermark: None)
    ordered = sorted(parcels, key=lambda item: order_of(item[0], MIN_TIME))
    assert sum(inbox.read(parcel for _, parcel in ordered)) == len(values)
    return values, keys


@settings(deadline=None)  # the first use of Arrow takes its time
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9)), max_size=60))
def test_rows_go_where_their_records_would_go(rows: list[tuple[int, int]]) -> None:
    columnar = sent([batch_of(rows, [pa.int64(), pa.int64()])], PositionSelector(0))
    plain = sent([Batch(list(rows))], PositionSelector(0))
    for target in range(TARGETS):
        values, keys = received(columnar[target])
        assert values == received(plain[target])[0]
        assert keys == [value[0] for value in values]


def test_keys_can_be_text_and_rows_can_have_names() -> None:
    rows = [(f"user{i % 7}", i) for i in range(100)]
    columnar = sent([batch_of(rows, [pa.string(), pa.int64()], RecordShape.ROW)], FieldSelector("k"))
    found = [record for target in range(TARGETS) for record in received(columnar[target])[0]]
    assert sorted(found, key=lambda row: row.v) == [Row(k=key, v=value) for key, value in rows]
    assert all(
        header.kind in (ParcelKind.COLUMNS, ParcelKind.END) for parcels in columnar.values() for header, _ in parcels
    )


@pytest.mark.parametrize(
    ("rows", "kinds", "shape", "selector"),
    [
        ([(1.5, 1), (float("nan"), 2)], [pa.float64(), pa.int64()], RecordShape.TUPLE, PositionSelector(0)),  # NaN
        ([(1, 1)], [pa.int64(), pa.int64()], RecordShape.TUPLE, PositionSelector(5)),  # no such column
        ([(1, 1)], [pa.int64(), pa.int64()], RecordShape.TUPLE, FieldSelector("k")),  # tuples have no such names
        (
            [(1, 1)],
            [pa.int64(), pa.int64()],
            RecordShape.TUPLE,
            lambda row: row[0],
        ),  # the user's function needs objects
        ([(1,)], [pa.int64()], RecordShape.SINGLE, PositionSelector(0)),  # the record is the number itself
    ],
)
def test_what_only_python_can_decide_is_left_to_it(
    rows: list[tuple[Any, ...]], kinds: list[pa.DataType], shape: RecordShape, selector: Any
) -> None:
    assert key_column(batch_of(rows, kinds, shape), selector) is None


def test_columns_and_objects_of_one_channel_arrive_in_the_order_they_were_sent() -> None:
    kinds = [pa.int64(), pa.int64()]
    batches: list[Batch] = []
    for number in range(12):
        rows = [(1, number)]
        batches.append(batch_of(rows, kinds) if number % 2 else Batch(list(rows)))
    target = next(iter(t for t, parcels in sent(batches, PositionSelector(0)).items() if len(parcels) > 1))
    values, _ = received(sent(batches, PositionSelector(0))[target])
    assert values == [(1, number) for number in range(12)]


def test_a_parcel_of_columns_is_bounded_too() -> None:
    rows = [(i, i) for i in range(10_000)]
    shipped = sent([batch_of(rows, [pa.int64(), pa.int64()]) for _ in range(4)], PositionSelector(0), size=50_000)
    sizes = [len(parcel) for parcels in shipped.values() for _, parcel in parcels]
    assert max(sizes) < 3 * 50_000
    assert sum(len(received(parcels)[0]) for parcels in shipped.values()) == 40_000


def test_values_are_created_on_demand() -> None:
    batch = batch_of([(1, 2), (3, 4)], [pa.int64(), pa.int64()])
    assert len(batch) == 2
    assert batch.values == [(1, 2), (3, 4)]
    assert batch.where([False, True]).values == [(3, 4)]


def test_shapes_follow_the_declared_type() -> None:
    assert RecordShape.of(Types.TUPLE([Types.LONG()])) is RecordShape.TUPLE
    assert RecordShape.of(Types.ROW([Types.LONG()])) is RecordShape.ROW
    assert RecordShape.of(None) is RecordShape.ROW
    assert RecordShape.of(Types.STRING()) is RecordShape.SINGLE


def test_round_trip_of_nested_values() -> None:
    column = pa.array([{"a": 1}, None], pa.map_(pa.string(), pa.int64()))
    rows = pa.RecordBatch.from_arrays([pa.array([7, 8]), column], names=["k", "m"])
    batch, marks = decode_columns(encode_columns([ColumnBatch(rows, RecordShape.TUPLE, key=0)], [(1, 5)]))
    assert marks == [(1, 5)]
    assert batch.values == [(7, {"a": 1}), (8, None)]
    assert batch.keys == [7, 8]


def test_rows_by_partition_keep_their_order() -> None:
    rows = pa.RecordBatch.from_pydict({"topic": ["t", "t", None, "t"], "part": [1, 2, 1, 1], "n": [1, 2, 3, 4]})
    found = {name: part.column("n").to_pylist() for name, part in rows_by_partition(rows, ("topic", "part"))}
    assert found == {"t/1": [1, 4], "t/2": [2], "null/1": [3]}
    whole = rows_by_partition(rows.slice(0, 1), ("part",))
    assert [(name, part.num_rows) for name, part in whole] == [("1", 1)]


def test_rows_by_file() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2, 3, 4], FILE_COLUMN: [7, 7, None, 7]})
    found = [(file, part.to_pydict()) for file, part in rows_by_file(rows)]
    assert found == [(7, {"a": [1, 2]}), (None, {"a": [3]}), (7, {"a": [4]})]
    plain = rows.drop_columns([FILE_COLUMN])
    assert rows_by_file(plain) == [(None, plain)]
