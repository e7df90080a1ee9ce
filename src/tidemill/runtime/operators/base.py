"""The interface of operators, and the context that describes their place in the job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.datastream.program.specs import GUARDED
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

#: What an error says about a record at which a function raises, if the operator supports error policies.
_ADVICE: Final = (
    "To go on without such records, set an error policy on the operator: .on_error(ErrorPolicy.skip()), or "
    ".on_error(ErrorPolicy.side_output(tag)) to keep them"
)
_GUARDED: Final = frozenset(kind.__name__ for kind in GUARDED)


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
    #: ``pipeline.strict-types``.
    strict_types: bool = False
    #: Whether the input of the chain's source is reassigned to subtasks in each epoch (:class:`ClockOf`). Event time
    #: then advances by strands, and the time of the source is known only when the input of the epoch has been read.
    dealt: bool = False
    #: The columns that the engine reads for a source; None for a source that reads its splits itself.
    input_schema: pa.Schema | None = None

    @property
    def where(self) -> str:
        """The operator, as named in error messages."""
        return f"operator {self.plan.name!r} (uid {self.plan.uid}, subtask {self.subtask + 1} of {self.parallelism})"


class Operator:
    """One operator instance of one subtask.

    For each epoch, the task calls ``begin_epoch``, then ``process`` and ``watermark`` any number of times, then
    ``end_epoch``. ``end_input`` is called once, before the last ``end_epoch`` of a bounded job. ``open`` and ``close``
    are called once per instance, which exists for many epochs on a warm worker. For operators with operator state,
    ``initialize_state`` is called before ``open``, and ``snapshot_state`` after each ``end_epoch``; they must not emit
    records in these calls.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.context = context
        self.output = context.output
        self.current_watermark = MIN_TIME
        self.processing_time = 0
        #: The number of records received since the last report.
        self.records_in = 0
        #: The number of records of columnar batches that became Python objects here since the last report.
        self.objects_made = 0
        #: The place in the job that log records of this instance contain.
        self.log_place: LogPlace | None = None

    @property
    def changes_input(self) -> bool:
        """Whether user code receives the input records, and may change them."""
        return True

    @property
    def takes_columns(self) -> bool:
        """Whether columnar batches are processed as columns. All other operators turn them into objects."""
        return self.context.plan.takes_columns

    @property
    def record_timestamp(self) -> int | None:
        """The event time of the current record or timer, for keyed state that needs it."""
        return None

    def initialize_state(self, restored: int | None) -> None:
        """Initialize operator state; ``restored`` is the epoch from which the job resumes."""
        states = self.context.operator_state
        if states is not None:
            for function in self.checkpointed():
                self.tell("initialize_state", initialize, function, states, FunctionContext(self.context), restored)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        """Update operator state at the end of an epoch."""
        states = self.context.operator_state
        if states is not None:
            for function in self.checkpointed():
                self.tell("snapshot_state", snapshot, function, states, checkpoint_id, timestamp)

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify functions that an epoch in which this instance took part is committed."""
        for function in self.checkpointed():
            if listens(function):
                self.tell("notify_checkpoint_complete", function.notify_checkpoint_complete, checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify functions that an epoch in which this instance took part is discarded. The instance is then closed."""
        for function in self.checkpointed():
            if listens(function):
                self.tell("notify_checkpoint_aborted", function.notify_checkpoint_aborted, checkpoint_id)

    def checkpointed(self) -> list[Any]:
        """Return the user functions that may take part in checkpoints."""
        return self.functions()

    def tell(self, method: str, call: Callable[..., None], *arguments: Any) -> None:
        """Call a method of a user function. Errors name this operator."""
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
        """Return the user functions that are opened and closed."""
        return []

    def begin_epoch(self, processing_time: int) -> None:
        """Begin a new epoch, which has one processing time."""
        self.processing_time = processing_time

    def process(self, batch: Batch, input_index: int) -> None:
        """Process one batch of one input."""
        raise NotImplementedError

    def watermark(self, watermark: int) -> None:
        """Advance event time: fire what is due, then pass the watermark on."""
        self.current_watermark = watermark
        self.output.watermark(watermark)

    def watermark_status(self, idle: bool) -> None:
        """Pass on that all inputs are idle, or that one is active again. The clock does not change."""
        self.output.watermark_status(idle)

    def progress(self, strand: Strand, watermark: int) -> None:
        """Pass on the strand of the following records, and its watermark. The clock does not change."""
        self.output.progress(strand, watermark)

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """Pass on the final state of the partitions of the source, when the input of the epoch has been read."""
        self.output.partition_ends(ends)

    def restore_time(self, state: Any) -> None:
        """Before an epoch: restore the result of :meth:`time_state` after the last committed epoch."""

    def time_state(self) -> Any:
        """Return what watermark generators need in the next epoch in addition to their watermark, as JSON data."""
        return None

    def idle_from(self) -> int | None:
        """Return the processing time at which an epoch is needed even without records: for idleness, or for a sink."""
        return None

    def end_keys(self) -> None:
        """BATCH mode: the input of some keys is complete. Emit their last results; their state is then discarded."""

    def end_input(self) -> None:
        """Called at the end of all input."""

    def end_epoch(self) -> None:
        """Called at the barrier: all input of this epoch has been processed."""

    @property
    def evaluating(self) -> Any:
        """The argument of the function that a timer called, if it is more than the timer itself."""
        return None

    def settle(self) -> None:
        """Called after a guarded call has succeeded: write state that the operator itself buffers."""

    def abandon(self) -> None:
        """Called when a call that raised is undone: discard what it left in the operator itself."""

    def pass_over(self, time: int, key: Any, namespace: Any, by_event_time: bool) -> None:
        """Called after a timer raised and was undone: do what must be done at that time without the function."""

    def failed(
        self, error: BaseException, *, method: str = "", record: Any = None, with_record: bool = False, **more: Any
    ) -> TidemillError:
        """Return the error to raise for an exception of a user function."""
        where = f"{method}() of {self.context.where}" if method else self.context.where
        details = {"record": record, **more} if with_record else more
        plan = self.context.plan
        site = FailureSite(plan.name, plan.uid, self.context.subtask)
        advice = _ADVICE if with_record and plan.spec_kind in _GUARDED else ""
        return user_error(where, error, line=plan.user_line, site=site, advice=advice, **details)

    def failed_at(
        self, values: Sequence[Any], error: BaseException, position: int, *, method: str = ""
    ) -> TidemillError:
        """Return the error to raise for an exception of a user function at one of several records."""
        return self.failed(error, method=method, record=values[position], with_record=True)


def method_of(function: Any, name: str) -> Callable[..., Any]:
    """Return the method of a function object, or the plain callable itself."""
    method = getattr(function, name, None)
    if method is not None:
        found: Callable[..., Any] = method
        return found
    if callable(function):
        plain: Callable[..., Any] = function
        return plain
    raise TidemillError(f"{function!r} is neither callable nor has a method {name}()")


class FunctionContext(RuntimeContext):
    """The runtime context of user functions, based on the context of their operator."""

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
