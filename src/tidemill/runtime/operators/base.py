"""What every operator has in common, and what it is told about its place in the job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.errors import FailureSite, StateError, TidemillError
from tidemill.graph.plan import OperatorPlan
from tidemill.metrics import MetricGroup
from tidemill.runtime.batch.failures import user_error
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.runtime.observe.log_place import LogPlace
from tidemill.runtime.observe.metrics import OperatorMetrics
from tidemill.runtime.operators.checkpointed import initialize, listens, snapshot
from tidemill.runtime.operators.output import Output
from tidemill.runtime.time.strands import PartitionEnd, Strand
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.keys.key_groups import Subtask
from tidemill.state.operator.operator_state import OperatorStateBackend


@dataclass
class OperatorContext:
    """The place of an operator instance: which subtask of which operator, with which state and output."""

    plan: OperatorPlan
    subtask: Subtask
    parallelism: int
    attempt_number: int
    output: Output
    metrics: OperatorMetrics
    backend: KeyedStateBackend | None = None
    operator_state: OperatorStateBackend | None = None
    job_parameters: dict[str, str] = field(default_factory=dict)
    runtime_mode: str = "STREAMING"
    periodic_watermarks: bool = True
    #: Whether the input of the chain's source is dealt out anew in each epoch (:class:`ClockOf`), so that time goes on
    #: by strands, and is that of the source only when the epoch's input has been read.
    dealt: bool = False
    #: The columns of what Spark reads for a source; None for a source that reads its splits itself.
    input_schema: pa.Schema | None = None

    @property
    def where(self) -> str:
        """The operator as an error message names it."""
        return f"operator {self.plan.name!r} (uid {self.plan.uid}, subtask {self.subtask + 1} of {self.parallelism})"


class Operator:
    """One operator instance of one subtask.

    The task calls, for an epoch: ``begin_epoch``, then any number of ``process`` and ``watermark``, then ``end_epoch``;
    ``end_input`` comes once before the last ``end_epoch`` of a bounded job. ``open`` and ``close`` frame the instance's
    life, which spans many epochs on a warm worker. Operators with operator state are told ``initialize_state`` before
    ``open``, and ``snapshot_state`` after each ``end_epoch``; they emit nothing then.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.context = context
        self.output = context.output
        self.current_watermark = MIN_TIME
        self.processing_time = 0
        #: Records that came in since the last report.
        self.records_in = 0
        #: What log records of this instance say of where they come from.
        self.log_place: LogPlace | None = None

    @property
    def changes_input(self) -> bool:
        """Whether user code is handed the records that come in, and may change them."""
        return True

    @property
    def record_timestamp(self) -> int | None:
        """The event time of what is being processed, where keyed state must know it."""
        return None

    def initialize_state(self, restored: int | None) -> None:
        """Set up operator state; ``restored`` is the epoch the job goes on from."""
        states = self.context.operator_state
        if states is not None:
            for function in self.checkpointed():
                self.tell("initialize_state", initialize, function, states, FunctionContext(self.context), restored)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        """The epoch is over: bring operator state up to date."""
        states = self.context.operator_state
        if states is not None:
            for function in self.checkpointed():
                self.tell("snapshot_state", snapshot, function, states, checkpoint_id, timestamp)

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """An epoch that this instance took part in is committed."""
        for function in self.checkpointed():
            if listens(function):
                self.tell("notify_checkpoint_complete", function.notify_checkpoint_complete, checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """What this instance did in an epoch does not count; it is closed next."""
        for function in self.checkpointed():
            if listens(function):
                self.tell("notify_checkpoint_aborted", function.notify_checkpoint_aborted, checkpoint_id)

    def checkpointed(self) -> list[Any]:
        """The user functions that may take part in checkpoints."""
        return self.functions()

    def tell(self, method: str, call: Callable[..., None], *arguments: Any) -> None:
        """Call a method of a user function, whose errors name this operator."""
        try:
            call(*arguments)
        except BaseException as error:
            raise self.failed(error, method=method) from error

    def open(self) -> None:
        """Open the user function."""
        for function in self.functions():
            opener = getattr(function, "open", None)
            if opener is not None:
                self.tell("open", opener, FunctionContext(self.context))

    def close(self) -> None:
        """Close the user function."""
        for function in self.functions():
            closer = getattr(function, "close", None)
            if closer is not None:
                self.tell("close", closer)

    def functions(self) -> list[Any]:
        """The user functions with a life cycle."""
        return []

    def begin_epoch(self, processing_time: int) -> None:
        """A new epoch begins; its processing time is fixed."""
        self.processing_time = processing_time

    def process(self, batch: Batch, input_index: int) -> None:
        """Take one batch of one input."""
        raise NotImplementedError

    def watermark(self, watermark: int) -> None:
        """Event time has moved on: fire what is due, then tell the consumers."""
        self.current_watermark = watermark
        self.output.watermark(watermark)

    def watermark_status(self, idle: bool) -> None:
        """All inputs are idle, or one is active again: tell the consumers. The clock stays as it is."""
        self.output.watermark_status(idle)

    def progress(self, strand: Strand, watermark: int) -> None:
        """What follows is of this strand, whose time is this: tell the consumers. The clock stays as it is."""
        self.output.progress(strand, watermark)

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """The input of the epoch has been read: tell the consumers what the partitions of the source have come to."""
        self.output.partition_ends(ends)

    def restore_time(self, state: Any) -> None:
        """Before an epoch: go on with what :meth:`time_state` gave after the last committed one, None if nothing."""

    def time_state(self) -> Any:
        """What makers of watermarks must know in the next epoch beside their watermark, as plain JSON data."""
        return None

    def idle_from(self) -> int | None:
        """The processing time at which something is due if no record comes: an input will be idle, a sink has work."""
        return None

    def end_keys(self) -> None:
        """BATCH mode: the input of some keys is complete. Emit their last results; their state is forgotten next."""

    def end_input(self) -> None:
        """No record will ever come again."""

    def end_epoch(self) -> None:
        """The barrier: everything of this epoch has been processed."""

    @property
    def evaluating(self) -> Any:
        """What the function was called with for a timer, where it is more than the timer itself."""
        return None

    def settle(self) -> None:
        """A call that can be taken back has succeeded: write what the operator itself holds of state."""

    def abandon(self) -> None:
        """A call that raised is taken back: forget what it left in the operator itself."""

    def pass_over(self, time: int, key: Any, namespace: Any, by_event_time: bool) -> None:
        """A timer raised, and what it did was taken back: do what must be done at that time without the function."""

    def failed(
        self, error: BaseException, *, method: str = "", record: Any = None, with_record: bool = False, **more: Any
    ) -> TidemillError:
        """The error to raise for what a user function raised."""
        where = f"{method}() of {self.context.where}" if method else self.context.where
        details = {"record": record, **more} if with_record else more
        plan = self.context.plan
        site = FailureSite(plan.name, plan.uid, self.context.subtask)
        return user_error(where, error, line=plan.user_line, site=site, **details)

    def failed_at(
        self, values: Sequence[Any], error: BaseException, position: int, *, method: str = ""
    ) -> TidemillError:
        """The error to raise for what a user function raised at one record of several."""
        return self.failed(error, method=method, record=values[position], with_record=True)


def method_of(function: Any, name: str) -> Callable[..., Any]:
    """The method of a function object, or the plain callable itself."""
    method = getattr(function, name, None)
    if method is not None:
        found: Callable[..., Any] = method
        return found
    if callable(function):
        plain: Callable[..., Any] = function
        return plain
    raise TidemillError(f"{function!r} is neither callable nor has a method {name}()")


class FunctionContext(RuntimeContext):
    """RuntimeContext over an operator's context."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_task_name(self) -> str:
        return self._context.plan.name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.plan.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask

    def get_attempt_number(self) -> int:
        return self._context.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        context = self._context
        return f"{context.plan.name} ({context.subtask + 1}/{context.parallelism})"

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._context.metrics.group

    def _keyed_state(self, state_descriptor: StateDescriptor) -> Any:
        if self._context.backend is None:
            raise StateError(
                f"{self._context.where} asked for keyed state {state_descriptor.name!r}, but its input is not keyed: "
                "call key_by() before it"
            )
        return self._context.backend.keyed_state(state_descriptor)
