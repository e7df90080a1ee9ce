"""The DataFrames of Spark sources, and several streams of different schema as one.

A Structured Streaming query has one plan, so several streaming sources become one frame: a column that names the source
and one struct column per source, all but one of them null in a row. Each partition comes from one source; a worker
takes the columns apart again and hands each source's rows to the chain that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.pandas.types import to_arrow_schema

from tidemill.datastream.connectors.kafka.source import KafkaSource
from tidemill.datastream.connectors.spark.type_mapping import schema_of
from tidemill.datastream.sources import DataFrameSource, FormatSource, Source
from tidemill.errors import GraphError
from tidemill.spark.kafka import kafka_frame

#: The column that says which source a row of a combined frame is from.
SOURCE_COLUMN: Final = "tidemill_source"

#: Whether Spark sends offsets of 64 bits with strings and bytes.
_LARGE_TYPES: Final = "spark.sql.execution.arrow.useLargeVarTypes"

#: What a record of a watched directory is taken to weigh when the bound of an epoch is turned into bytes.
_RECORD_BYTES: Final = 100

#: The option by which each format bounds a batch, and how it follows from the bound in records.
_FILE_FORMATS: Final = frozenset({"text", "csv", "json", "parquet", "orc"})


def frame_of(session: SparkSession, source: Source, max_records: int, *, resuming: bool = False) -> DataFrame:
    """The DataFrame a source stands for; an unbounded one takes at most about ``max_records`` per batch.

    With ``resuming`` Spark has a position for it: where it would begin is of no matter.
    """
    frame = _loaded(session, source, max_records, resuming=resuming)
    schema_of(frame.schema)  # refuses types that have no counterpart here: their bytes would be taken for numbers
    missing = [name for name in getattr(source, "partition_by", ()) if name not in frame.columns]
    if missing:
        raise GraphError(
            f"a source is partitioned by {', '.join(missing)}, but its columns are {', '.join(frame.columns)}: "
            "partition_by names columns of the DataFrame"
        )
    return frame


def _loaded(session: SparkSession, source: Source, max_records: int, *, resuming: bool) -> DataFrame:
    if isinstance(source, KafkaSource):
        return kafka_frame(session, source, max_records, resuming=resuming)
    if isinstance(source, DataFrameSource):
        frame: DataFrame = source.dataframe
        return frame
    if not isinstance(source, FormatSource):
        raise GraphError(f"{type(source).__name__} is not a source that Spark can read")
    options = dict(source.options)
    charset = options.pop("encoding", "UTF-8") if source.format == "text" else None
    reader: Any = session.read
    if not source.bounded:
        reader = session.readStream
        options = {**batch_bound(source.format, options, max_records), **options}
    reader = reader.format(source.format).options(**options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    paths: Any = [source.path, *source.more_paths] if source.more_paths else source.path
    loaded: DataFrame = reader.load(paths) if source.path is not None else reader.load()
    return loaded if charset is None else _decoded(loaded, charset)


def _decoded(lines: DataFrame, charset: str) -> DataFrame:
    """Text in a character set. Spark's text format hands the bytes of lines on as they are, whatever they mean."""
    name = lines.columns[0]
    line = F.col(f"`{name}`")
    text = F.make_valid_utf8(line) if charset == "UTF-8" else F.decode(line.cast("binary"), charset)
    return lines.withColumn(name, text)


def batch_bound(format_name: str, options: Mapping[str, str], max_records: int) -> dict[str, str]:
    """The reader option that bounds a batch, unless the program has set one itself."""
    given = {name.lower() for name in options}
    if format_name in _FILE_FORMATS and not given & {"maxfilespertrigger", "maxbytespertrigger"}:
        return {"maxBytesPerTrigger": str(max_records * _RECORD_BYTES)}
    if format_name == "kafka" and not given & {"maxoffsetspertrigger", "minoffsetspertrigger"}:
        return {"maxOffsetsPerTrigger": str(max_records)}
    return {}


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
