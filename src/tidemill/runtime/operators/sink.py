"""The sink operator: hands batches to the sink's writer, and at the barrier collects what is to be committed."""

from __future__ import annotations

from typing import Any

from tidemill.datastream.sinks import WriterContext
from tidemill.datastream.specs import SinkSpec
from tidemill.faults import reach
from tidemill.runtime.operators.base import FunctionContext, Operator, OperatorContext
from tidemill.runtime.records import Batch


class SinkOperator(Operator):
    """Writes the records of one subtask."""

    def __init__(self, spec: SinkSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._sink = spec.sink
        self.committables: tuple[bytes, ...] = ()

    def initialize_state(self, restored: int | None) -> None:
        try:
            self._writer = self._sink.create_writer(self.context.subtask, self.context.parallelism)
        except Exception as error:
            raise self.failed(error, method="create_writer") from error
        super().initialize_state(restored)

    def checkpointed(self) -> list[Any]:
        # The writer opens and closes the function of a FunctionSink; its state is ours to keep.
        return [getattr(self._sink, "function", None)]

    def open(self) -> None:
        try:
            self._writer.open(FunctionContext(self.context))
        except Exception as error:
            raise self.failed(error, method="open") from error

    def close(self) -> None:
        self._writer.close()

    def start_writing(self, context: WriterContext) -> None:
        """Tell the writer whose epoch begins."""
        self.committables = ()
        self._writer.begin_epoch(context)

    def process(self, batch: Batch, input_index: int) -> None:
        try:
            self._writer.write(batch.values, batch.timestamps)
        except Exception as error:
            raise self.failed(error, method="write") from error

    def watermark(self, watermark: int) -> None:
        super().watermark(watermark)
        self._writer.write_watermark(watermark)

    def end_epoch(self) -> None:
        reach("sink.precommit.before")
        try:
            self.committables = tuple(self._writer.prepare_commit())
        except Exception as error:
            raise self.failed(error, method="prepare_commit") from error
        reach("sink.precommit.after")
