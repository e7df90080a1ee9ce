"""Combines several streams with different schemas into one DataFrame, and returns the Arrow schema of a DataFrame.

A Structured Streaming query has one plan, so several streaming sources become one frame: a column that identifies the
source and one struct column per source, all but one of them null in a row. Each partition comes from one source. A
worker separates the columns again and passes the rows of each source to the chain that reads it.
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

#: The column that identifies the source of a row in a combined frame.
SOURCE_COLUMN: Final = "tidemill_source"

#: The setting that makes Spark use 64-bit offsets for strings and bytes.
_LARGE_TYPES: Final = "spark.sql.execution.arrow.useLargeVarTypes"


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the schema of the Arrow batches that Spark creates from a frame.

    Timestamps are the same bytes in any zone. The schema uses UTC and not the session's zone, because in Python the two
    hours that a daylight saving change maps to the same local time would compare equal.
    """
    large = str(frame.sparkSession.conf.get(_LARGE_TYPES, "false")) == "true"
    return to_arrow_schema(frame.schema, timezone="UTC", prefers_large_types=large)


def combine(frames: Mapping[int, DataFrame]) -> DataFrame:
    """Combine several frames into one, with the number of its source in each row."""
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


def split_by_source(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """Split combined batches by source: the rows of each source in order, as batches of the source's own columns."""
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
