"""Several streams of different schema as one DataFrame, and the Arrow schema of a DataFrame.

A Structured Streaming query has one plan, so several streaming sources become one frame: a column that names the source
and one struct column per source, all but one of them null in a row. Each partition comes from one source; a worker
takes the columns apart again and hands each source's rows to the chain that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.pandas.types import to_arrow_schema

from tidemill.errors import GraphError

#: The column that says which source a row of a combined frame is from.
SOURCE_COLUMN: Final = "tidemill_source"

#: Whether Spark sends offsets of 64 bits with strings and bytes.
_LARGE_TYPES: Final = "spark.sql.execution.arrow.useLargeVarTypes"


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The schema of the Arrow batches that Spark makes of a frame.

    Moments are the same bytes in any zone. Here they are in UTC, and not in the session's zone: in Python the two hours
    that daylight saving makes of one are equal.
    """
    large = str(frame.sparkSession.conf.get(_LARGE_TYPES, "false")) == "true"
    return to_arrow_schema(frame.schema, timezone="UTC", prefers_large_types=large)


def combine(frames: Mapping[int, DataFrame]) -> DataFrame:
    """Several frames as one, each row marked with the number of its source."""
    if len(frames) == 1:
        return next(iter(frames.values()))
    combined: DataFrame | None = None
    for number, frame in frames.items():
        columns = [F.lit(number).alias(SOURCE_COLUMN)]
        for other, schema in ((other, source.schema) for other, source in frames.items()):
            if other == number:
                columns.append(F.struct(*[F.col(f"`{name}`") for name in frame.columns]).alias(f"s{other}"))
            else:
                columns.append(F.lit(None).cast(schema).alias(f"s{other}"))
        marked = frame.select(*columns)
        combined = marked if combined is None else combined.union(marked)
    if combined is None:
        raise GraphError("there is no Spark source to combine")
    return combined


def take_apart(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """The rows of combined batches by source, in order, as batches of the source's own columns."""
    by_source: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        marks = batch.column(SOURCE_COLUMN)
        for number in marks.unique().to_pylist():
            rows = batch if len(marks.unique()) == 1 else batch.filter(pc.equal(marks, number))
            struct = rows.column(f"s{number}")
            columns = struct.flatten()
            names = [struct.type.field(index).name for index in range(struct.type.num_fields)]
            by_source.setdefault(number, []).append(pa.RecordBatch.from_arrays(columns, names=names))
    return by_source
