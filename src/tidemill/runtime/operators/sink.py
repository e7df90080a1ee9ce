"""The sink operator: passes batches to the sink's writer, and collects its committables at the barrier."""

from __future__ import annotations

from typing import Any, Final

from tidemill.connectors.sinks import SinkWriter, StatefulSinkWriter, SupportsWriterState, WriterContext
from tidemill.datastream.functions.state import ListState
from tidemill.datastream.functions.state_descriptors import ListStateDescriptor
from tidemill.datastream.program.specs import SinkSpec
from tidemill.faults import reach
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.base import FunctionContext, Operator, OperatorContext

#: The state of a sink's writers; Flink's name for it.
WRITER_STATE: Final = "writer_raw_states"


class SinkOperator(Operator):
    """Writes the records of one subtask."""

    def __init__(self, spec: SinkSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._sink = spec.sink
        self._writer_state: ListState[Any] | None = None
        self.committables: tuple[bytes, ...] = ()

    @property
    def changes_input(self) -> bool:
        # Built-in writers do not change records; a function, or a user-defined sink, may.
        return hasattr(self._sink, "function") or not type(self._sink).__module__.startswith("tidemill.")

    def initialize_state(self, restored: int | None) -> None:
        sink, place = self._sink, (self.context.subtask, self.context.parallelism)
        states = self.context.operator_state
        if isinstance(sink, SupportsWriterState) and states is not None:
            self._writer_state = states.get_list_state(ListStateDescriptor(WRITER_STATE, sink.get_writer_state_type()))
        try:
            if isinstance(sink, SupportsWriterState) and self._writer_state is not None and restored is not None:
                writer: SinkWriter = sink.restore_writer(*place, list(self._writer_state.get()))
            else:
                writer = sink.create_writer(*place)
        except BaseException as error:
            method = "create_writer" if restored is None else "restore_writer"
            raise self.failed(error, method=method) from error
        self._writer = writer
        super().initialize_state(restored)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        if self._writer_state is not None:
            self.tell("snapshot_state", self._keep_writer_state, self._writer_state, checkpoint_id)

    def _keep_writer_state(self, state: ListState[Any], checkpoint_id: int) -> None:
        if not isinstance(self._writer, StatefulSinkWriter):
            raise TypeError(
                f"the sink supports writer state, but its writer is a {type(self._writer).__name__}, "
                "not a StatefulSinkWriter"
            )
        state.update(list(self._writer.snapshot_state(checkpoint_id)))

    def checkpointed(self) -> list[Any]:
        # The writer opens and closes the function of a FunctionSink. Its state is stored by this operator.
        return [getattr(self._sink, "function", None)]

    def open(self) -> None:
        try:
            self._writer.open(FunctionContext(self.context))
        except BaseException as error:
            raise self.failed(error, method="open") from error

    def close(self) -> None:
        self.tell("close", self._writer.close)

    def start_writing(self, context: WriterContext) -> None:
        """Begin an epoch of the writer."""
        self.committables = ()
        self.tell("begin_epoch", self._writer.begin_epoch, context)

    def process(self, batch: Batch, input_index: int) -> None:
        try:
            if isinstance(batch, ColumnBatch) and self._writer.write_columns(batch.columns, batch.times):
                return
            self._writer.write(batch.values, batch.timestamps)
        except BaseException as error:
            raise self.failed(error, method="write") from error

    def watermark(self, watermark: int) -> None:
        super().watermark(watermark)
        self.tell("write_watermark", self._writer.write_watermark, watermark)

    def idle_from(self) -> int | None:
        return self._writer.due()

    def end_epoch(self) -> None:
        reach("sink.precommit.before")
        try:
            self.committables = tuple(self._writer.prepare_commit())
        except BaseException as error:
            raise self.failed(error, method="prepare_commit") from error
        reach("sink.precommit.after")
