"""Columnar batches as the payload of parcels: one Arrow IPC stream with one batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from tidemill.runtime.batch.columns import ColumnBatch, RecordShape

#: Keys of the schema's metadata.
_SHAPE: Final = b"tidemill.shape"
_KEY: Final = b"tidemill.key"
_MARKS: Final = b"tidemill.marks"
#: The last column, if any record has a timestamp.
_TIMES: Final = "tidemill.times"

#: Positions in a parcel, with the watermark that the channel reached before the record at that position.
Marks = Sequence[tuple[int, int]]


def can_follow(batch: ColumnBatch, first: ColumnBatch) -> bool:
    """Whether two batches can be sent in one parcel."""
    return (
        batch.shape is first.shape
        and batch.key == first.key
        and (batch.columns.schema is first.columns.schema or batch.columns.schema.equals(first.columns.schema))
    )


def encode_columns(batches: Sequence[ColumnBatch], marks: Marks) -> bytes:
    """Encode batches that can follow each other."""
    first = batches[0]
    arrays = _joined([batch.columns for batch in batches])
    names = list(first.columns.schema.names)
    fields = list(first.columns.schema)
    if any(batch.times is not None for batch in batches):
        times = [pa.nulls(len(batch), pa.int64()) if batch.times is None else batch.times for batch in batches]
        arrays.append(pa.concat_arrays(times) if len(times) > 1 else times[0])
        fields.append(pa.field(_TIMES, pa.int64()))
        names.append(_TIMES)
    metadata = {_SHAPE: first.shape.value.encode()}
    if first.key is not None:
        metadata[_KEY] = str(first.key).encode()
    if marks:
        metadata[_MARKS] = json.dumps(marks).encode()
    schema = pa.schema(fields, metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_columns(data: bytes | memoryview) -> tuple[ColumnBatch, Marks]:
    """Decode a parcel. Its columns refer to the memory of ``data``."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        metadata = reader.schema.metadata
        columns = reader.read_next_batch().replace_schema_metadata(None)
    times = None
    if columns.num_columns and columns.schema.names[-1] == _TIMES:
        times = columns.column(columns.num_columns - 1)
        columns = columns.remove_column(columns.num_columns - 1)
    key = metadata.get(_KEY)
    marks = [(position, watermark) for position, watermark in json.loads(metadata.get(_MARKS, b"[]"))]
    return ColumnBatch(columns, RecordShape(metadata[_SHAPE].decode()), times, None if key is None else int(key)), marks


def _joined(batches: Sequence[pa.RecordBatch]) -> list[pa.Array]:
    """Return the columns of all batches, one after the other."""
    if len(batches) == 1:
        return list(batches[0].columns)
    return list(pa.concat_batches(batches).columns)
