"""Reads files, or any other input that a Spark format supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from tidemill.connectors.sources import FormatSource
from tidemill.spark.files.file_frames import decode_lines
from tidemill.spark.frames.source_reader import SourceReader

__all__ = ["FormatReader"]

#: The formats whose files the driver lists. The contents of a path are specific to the format for all others.
_FILE_FORMATS: Final = frozenset({"text", "csv", "json", "parquet", "orc", "xml", "avro", "binaryfile"})


class FormatReader(SourceReader[FormatSource]):
    """Reads with ``spark.read``, or with ``spark.readStream`` for an unbounded source."""

    def load(self, session: SparkSession, max_records: int, *, resuming: bool) -> DataFrame:
        source = self.source
        options = dict(source.options)
        charset = options.pop("encoding", "UTF-8") if source.format == "text" else None
        reader: Any = session.read
        if not source.bounded:
            reader = session.readStream
            options = {**_batch_bound(source.format, options, max_records), **options}
        reader = reader.format(source.format).options(**options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        paths: Any = [source.path, *source.more_paths] if source.more_paths else source.path
        loaded: DataFrame = reader.load(paths) if source.path is not None else reader.load()
        return loaded if charset is None else decode_lines(loaded, charset)

    @property
    def files(self) -> FormatSource:
        return self.source

    @property
    def watches(self) -> bool:
        source = self.source
        return not source.bounded and source.path is not None and source.format.lower() in _FILE_FORMATS


def _batch_bound(format_name: str, options: Mapping[str, str], max_records: int) -> dict[str, str]:
    """Return the option that limits the size of a batch, unless the program has set one itself."""
    given = {name.lower() for name in options}
    if format_name == "kafka" and not given & {"maxoffsetspertrigger", "minoffsetspertrigger"}:
        return {"maxOffsetsPerTrigger": str(max_records)}
    return {}
