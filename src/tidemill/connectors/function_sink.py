"""A sink that calls a user's SinkFunction."""

from __future__ import annotations

import time
from typing import Any, Final

from tidemill.common.calls import note_record
from tidemill.connectors.sinks import Sink, SinkWriter, WriterContext
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.basic import SinkFunction

__all__ = ["FunctionSink"]

_NO_WATERMARK: Final = -(1 << 63)


class FunctionSink(Sink):
    """Calls ``invoke`` for each record, at least once."""

    guarantee = "at-least-once"

    def __init__(self, function: SinkFunction) -> None:
        self.function = function

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that calls the function."""
        return _FunctionWriter(self.function)


class RecordContext(SinkFunction.Context):
    """The context of ``invoke``. One object is reused for all records; the writer sets the fields."""

    def __init__(self) -> None:
        self.record_timestamp: int | None = None
        self.processing_time: int | None = None
        self.watermark = _NO_WATERMARK

    def timestamp(self) -> int | None:
        return self.record_timestamp

    def current_processing_time(self) -> int:
        return int(time.time() * 1000) if self.processing_time is None else self.processing_time

    def current_watermark(self) -> int:
        return self.watermark


class _FunctionWriter(SinkWriter):
    def __init__(self, function: SinkFunction) -> None:
        self._function = function
        self._context = RecordContext()

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def begin_epoch(self, context: WriterContext) -> None:
        self._context.processing_time = context.processing_time

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        invoke, context = self._function.invoke, self._context
        remaining = iter(values)
        try:
            if timestamps is None:
                context.record_timestamp = None
                for value in remaining:
                    invoke(value, context)
            else:
                for value, context.record_timestamp in zip(remaining, timestamps, strict=True):
                    invoke(value, context)
        except BaseException as error:
            note_record(error, values, remaining)
            raise

    def write_watermark(self, watermark: int) -> None:
        self._context.watermark = watermark

    def close(self) -> None:
        self._function.close()
