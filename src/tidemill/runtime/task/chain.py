"""A chain in one subtask: its operator instances, connected to each other and to the outgoing exchanges."""

from __future__ import annotations

import pickle
import sys
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidemill.checkpoint.model import Epoch
from tidemill.checkpoint.storage.storages import Storage
from tidemill.connectors.sinks import WriterContext
from tidemill.connectors.sources import ClockOf
from tidemill.datastream.program.transformations import Partitioning
from tidemill.errors import StateMigrationError
from tidemill.graph.plan import ChainPlan, ExchangeEdge, OperatorPlan
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.emitted import Emissions
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.runtime.exchange.sender import EdgeSender
from tidemill.runtime.observe.key_sampler import KeySampler
from tidemill.runtime.observe.log_place import PLACE, LogPlace, at
from tidemill.runtime.observe.metrics import OperatorMetrics
from tidemill.runtime.operators.base import FunctionContext, Operator, OperatorContext
from tidemill.runtime.operators.factory import build_operator
from tidemill.runtime.operators.output import Output, Receiver
from tidemill.runtime.operators.sink import SinkOperator
from tidemill.runtime.operators.source import SourceOperator
from tidemill.runtime.operators.timestamps import TimestampsOperator
from tidemill.runtime.task.operator_kinds import TIMED, lost_timers
from tidemill.runtime.task.sink_log import StoredSinkLog
from tidemill.runtime.time.strands import PartitionEnd, Strand
from tidemill.state.backends import BackendChoice
from tidemill.state.files.state_file import Section
from tidemill.state.keyed.backend import BackendPlace, KeyedStateBackend, StateVersion
from tidemill.state.keys.key_groups import KeyGroupRange, Subtask
from tidemill.state.operator.operator_state import OperatorStateBackend, is_operator_state

#: Nested calls outside the chain and in user functions: as many as Python allows by default.
_CALLS_OF_A_TASK: Final = 1000
#: An upper bound: an operator with an error policy that emits to side outputs needs seven nested calls.
_CALLS_PER_OPERATOR: Final = 10


@dataclass(frozen=True)
class ChainSettings:
    """Settings that all chains of a job share."""

    job_parameters: dict[str, str] = field(default_factory=dict)
    runtime_mode: str = "STREAMING"
    attempt_number: int = 0
    job_id: str = "job"
    backend: BackendChoice = field(default_factory=BackendChoice)
    #: Whether generators emit periodic watermarks after each batch. False if the auto-watermark interval is 0.
    periodic_watermarks: bool = True
    #: Whether keys are sampled to find the hottest ones.
    hot_keys: bool = True
    #: Whether objects are passed on without a copy, even if other code has references to them.
    object_reuse: bool = False
    #: ``pipeline.strict-types``.
    strict_types: bool = False
    #: Whether the engine can run an epoch again if that is required (:class:`UnsteadyOutputError`).
    runs_again: bool = True
    #: Identifies one start of a program: the code may change before the next start.
    program: str = field(default_factory=lambda: uuid.uuid4().hex)


class Port:
    """A placeholder for the sender of an edge, which is created when the parallelism of the consumer is known."""

    def __init__(self, origin: Operator) -> None:
        self.sender: EdgeSender | None = None
        self._origin = origin

    def send(self, batch: Batch) -> None:
        if isinstance(batch, ColumnBatch):
            batch.reader = self._origin
        if self.sender is not None:
            self.sender.send(batch)

    def watermark(self, watermark: int) -> None:
        if self.sender is not None:
            self.sender.watermark(watermark)

    def watermark_status(self, idle: bool) -> None:
        if self.sender is not None:
            self.sender.watermark_status(idle)

    def progress(self, strand: Strand, watermark: int) -> None:
        if self.sender is not None:
            self.sender.progress(strand, watermark)

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        if self.sender is not None:
            self.sender.partition_ends(ends)

    def finish(self) -> None:
        if self.sender is not None:
            self.sender.finish()


class Chain:
    """The operator instances of one subtask.

    A chain lives as long as its worker, and as long as each of its attempts is committed.
    """

    def __init__(
        self,
        plan: ChainPlan,
        out_edges: dict[int, list[tuple[int, str | None]]],
        subtask: Subtask,
        parallelism: int,
        settings: ChainSettings,
        schema: pa.Schema | None = None,
    ) -> None:
        """``out_edges`` maps an operator position to the (edge id, side output) of the exchanges that leave it."""
        # configuration
        self.plan = plan
        self.subtask = subtask
        self.parallelism = parallelism
        self.ports: dict[int, Port] = {}
        self._is_batch = settings.runtime_mode == "BATCH"
        # transient
        self.operators: list[Operator] = []
        self.key_sampler = KeySampler() if plan.head.keyed and settings.hot_keys else None
        self.backends: list[KeyedStateBackend] = []
        self.operator_states: list[OperatorStateBackend] = []
        self._opened: list[Operator] = []
        self._snapshotted: int | None = None
        self._to_announce: int | None = None
        self._partitionings: dict[int, Partitioning] = {}
        _make_room(len(plan.operators))
        for operator in plan.operators:
            self.operators.append(self._build(operator, settings, schema))
        for built in self.operators:
            if built.context.backend is not None:
                built.context.backend.time = built
        for link in plan.links:
            target = self.operators[link.target]
            self.operators[link.source].output.connect(
                _into(target, link.input_index),
                _time_into(target),
                link.side_output,
                target.watermark_status,
                target,
                changes=target.changes_input,
            )
        for position, edges in out_edges.items():
            for edge, side_output in edges:
                port = self.ports[edge] = Port(self.operators[position])
                output = self.operators[position].output
                output.connect(port.send, port.watermark, side_output, port.watermark_status, port, changes=False)
        if isinstance(self.head, SourceOperator):
            for other in self.operators:
                if isinstance(other, TimestampsOperator):
                    self.head.feed(other)

    def partitioning(self, edge: ExchangeEdge) -> Partitioning:
        """The partitioner of an edge into or out of this chain, unpickled and opened once."""
        found = self._partitionings.get(edge.id)
        if found is None:
            found = self._partitionings[edge.id] = pickle.loads(edge.partitioner)
            for function in (found.selector, found.custom):
                opener = getattr(function, "open", None)
                if opener is not None:
                    self.operators[0].tell("open", opener, FunctionContext(self.operators[0].context))
        return found

    @property
    def head(self) -> Operator:
        return self.operators[0]

    def states(self) -> Sequence[KeyedStateBackend | OperatorStateBackend]:
        """All state of the chain: keyed state and operator state."""
        return [*self.backends, *self.operator_states]

    def look_at(self, uids: Collection[str]) -> None:
        """Inspect the records that these operators emit one by one from now on."""
        for operator in self.operators:
            if operator.context.plan.uid in uids:
                operator.output.emissions.pin()

    def place_logs(self, job: str, epoch: Epoch) -> None:
        """Set the log place of all operators for an epoch. The head's is active first."""
        for operator in self.operators:
            plan = operator.context.plan
            operator.log_place = LogPlace(job, epoch, plan.name, plan.uid, self.subtask)
        PLACE.set(self.head.log_place)

    def _in_turn(self, *, backwards: bool = False) -> Iterator[Operator]:
        """Yield one operator after the other, with its log place active."""
        for operator in reversed(self.operators) if backwards else self.operators:
            PLACE.set(operator.log_place)
            yield operator
        PLACE.set(self.head.log_place)

    def open(self, restored: int | None = None) -> None:
        """Open all operators, last first, as Flink does: a consumer is ready before its producer.

        ``restored`` is the epoch the job resumes from, None for a new job.
        """
        for operator in self._in_turn(backwards=True):
            operator.initialize_state(restored)
            operator.open()
            self._opened.append(operator)

    def close(self, *, forget: bool = False) -> None:
        """Close all operators that were opened, and the state; with ``forget``, remove its files on local disk."""
        try:
            self._close_functions()
        finally:
            for backend in self.backends:
                backend.close(forget=forget)

    def _close_functions(self) -> None:
        opened, self._opened = self._opened, []
        if opened:
            with ExitStack() as closing:  # closes all, even if one raises; the head, pushed last, is closed first
                for partitioning in self._partitionings.values():
                    for function in (partitioning.selector, partitioning.custom):
                        closer = getattr(function, "close", None)
                        if closer is not None:
                            closing.callback(self.operators[0].tell, "close", closer)
                for operator in opened:
                    closing.callback(_close, operator)

    def restore_watermarks(self, watermark: int, marks: Mapping[str, int]) -> None:
        """Set all clocks to the committed watermarks: ``watermark`` of the head, ``marks`` of watermark generators."""
        self.head.current_watermark = watermark
        for link in self.plan.links:  # producers come before consumers
            operator = self.operators[link.target]
            if isinstance(operator, TimestampsOperator):
                operator.current_watermark = marks.get(operator.context.plan.uid, MIN_TIME)
            else:
                operator.current_watermark = self.operators[link.source].current_watermark

    def restore_times(self, times: Mapping[str, Any]) -> None:
        """Restore the state of operators that generate watermarks, by uid. The clocks must be set."""
        for operator in self.operators:
            operator.restore_time(times.get(operator.context.plan.uid))

    def know_partitions(self, times: Mapping[str, Sequence[Any]]) -> None:
        """Set the watermark generator states of all subtasks, by uid: any subtask may read any partition."""
        for operator in self.operators:
            if isinstance(operator, (SourceOperator, TimestampsOperator)):
                operator.know_partitions(times.get(operator.context.plan.uid, ()))

    def times(self) -> dict[str, Any]:
        """The state of operators that generate watermarks for the next epoch, by uid."""
        states = {operator.context.plan.uid: operator.time_state() for operator in self.operators}
        return {uid: state for uid, state in states.items() if state is not None}

    def set_processing_time(self, clock: int) -> None:
        """Set the processing time of all operators, without firing timers."""
        for operator in self.operators:
            operator.processing_time = clock

    def marks(self) -> dict[str, int]:
        """The clocks of operators after the head that generate watermarks, by uid."""
        return {
            operator.context.plan.uid: operator.current_watermark
            for operator in self.operators[1:]
            if isinstance(operator, TimestampsOperator)
        }

    def begin_epoch(self, clock: int, writer: dict[str, Any], storage: Storage | None = None) -> None:
        """Start an epoch: prepare states, clocks and writers, and fire processing-time timers that are due.

        ``writer`` contains the fields of the sinks' :class:`WriterContext` that describe the epoch. ``storage`` is
        where sinks may keep files until their commit.

        Functions are first notified that the previous epoch is committed, if this chain ran it.
        """
        if self._to_announce is not None:
            committed, self._to_announce = self._to_announce, None
            for operator in self._in_turn():
                operator.checkpoint_complete(committed)
        self.set_processing_time(clock)
        if self.key_sampler is not None:
            self.key_sampler.begin_epoch()
        for backend in self.states():
            backend.begin_epoch()
        for operator in self.operators:
            if isinstance(operator, SinkOperator):
                operator.start_writing(
                    WriterContext(
                        operator_uid=operator.context.plan.uid,
                        subtask=self.subtask,
                        parallelism=self.parallelism,
                        log=None if storage is None else StoredSinkLog(storage, operator.context.plan.uid),
                        **writer,
                    )
                )
        for operator in self._in_turn():
            operator.begin_epoch(clock)

    def process_keys(self, batches: list[tuple[int, Batch]]) -> None:
        """BATCH mode: process the complete input of some keys, as (input, records), then discard their state."""
        for input_index, batch in batches:
            self.head.process(batch, input_index)
        self.head.end_keys()
        for backend in self.backends:
            backend.discard()

    def end_input(self) -> None:
        """Notify all operators that the input of the job has ended."""
        for operator in self._in_turn():
            operator.end_input()

    def end_epoch(self) -> None:
        """Run the barrier through the operators, in the direction of the data."""
        for operator in self._in_turn():
            operator.end_epoch()

    def snapshot_state(self, epoch: Epoch, clock: int) -> None:
        """Let functions update their operator state after the barrier. In BATCH mode there is nothing to do."""
        if self._is_batch:
            return
        self._snapshotted = epoch
        for operator in self._in_turn():
            operator.snapshot_state(epoch, clock)

    def aborted(self) -> None:
        """Notify functions that the last epoch of this chain was aborted. The chain must be closed afterwards."""
        if self._snapshotted is not None:
            for operator in self.operators:
                operator.checkpoint_aborted(self._snapshotted)

    def export_delta(self) -> list[Section]:
        """The changes of the epoch in all states of the chain."""
        states = self.backends if self._is_batch else self.states()
        return [section for backend in states for section in backend.export_delta()]

    def load(self, sections: Iterator[Section]) -> None:
        """Load committed state, oldest first; the chain must not be open yet."""
        keyed = {backend.operator: backend for backend in self.backends}
        unkeyed = {states.operator: states for states in self.operator_states}
        for section in sections:
            backend = (unkeyed if is_operator_state(section) else keyed).get(section.operator)
            if backend is not None:
                backend.load(section)
        for operator in self.operators:
            state, plan = operator.context.backend, operator.context.plan
            if state is None or plan.spec_kind in TIMED:
                continue
            if state.event_timers.peek() is not None or state.processing_timers.peek() is not None:
                raise StateMigrationError(lost_timers(operator.context.where))

    def fold(self, version: StateVersion | None = None, *, announce: bool = True) -> None:
        """Merge the changes of the last epoch into the base: the manifest named by ``version`` has committed it.

        With ``announce``, listeners are notified of the checkpoint when the next epoch begins.
        """
        for backend in self.backends:
            backend.fold(version)
        for states in self.operator_states:
            states.fold()
        self._to_announce = self._snapshotted if announce else None

    def committables(self) -> dict[str, tuple[bytes, ...]]:
        """The committables of the chain's sinks, by operator uid."""
        return {
            operator.context.plan.uid: operator.committables
            for operator in self.operators
            if isinstance(operator, SinkOperator) and operator.committables
        }

    def next_timer(self) -> int | None:
        """The earliest processing time at which something is due: a timer, or an input that becomes idle."""
        times = [backend.processing_timers.peek() for backend in self.backends]
        times += [operator.idle_from() for operator in self.operators]
        return min((time for time in times if time is not None), default=None)

    def _build(self, plan: OperatorPlan, settings: ChainSettings, schema: pa.Schema | None) -> Operator:
        backend = None
        context = OperatorContext(
            plan=plan,
            subtask=self.subtask,
            parallelism=self.parallelism,
            attempt_number=settings.attempt_number,
            # The output of a source is not checked here: its operator or Spark's schema ensures the declared type.
            output=Output(
                plan.label,
                plan.output_type if plan.inputs else None,
                plan.side_outputs,
                Emissions.of(
                    f"operator {plan.name!r} (uid {plan.uid})",
                    plan.uid,
                    plan.output_type,
                    [kind for _, kind in plan.side_outputs],
                    reuse=settings.object_reuse,
                    learns=settings.runs_again,
                ),
                strict=settings.strict_types,
            ),
            metrics=OperatorMetrics(f"operator {plan.name!r} (uid {plan.uid})"),
            job_parameters=settings.job_parameters,
            runtime_mode=settings.runtime_mode,
            periodic_watermarks=settings.periodic_watermarks,
            strict_types=settings.strict_types,
            dealt=self.plan.clock_of is not ClockOf.SUBTASK,
            input_schema=schema,
        )
        if plan.keyed:
            groups = KeyGroupRange.for_subtask(plan.max_parallelism, self.parallelism, self.subtask)
            place = BackendPlace(
                plan.uid,
                context.where,
                groups,
                plan.max_parallelism,
                plan.key_type,
                settings.job_id,
                self.subtask,
                settings.program,
                settings.strict_types,
            )
            backend = settings.backend.create(place)
            self.backends.append(backend)
            context.backend = backend
        if plan.checkpointed:
            context.operator_state = OperatorStateBackend(
                plan.uid, context.where, self.subtask, self.parallelism, strict_types=settings.strict_types
            )
            self.operator_states.append(context.operator_state)
        return build_operator(context)


def _close(operator: Operator) -> None:
    with at(operator.log_place):
        operator.close()


def _time_into(operator: Operator) -> Callable[[int], None]:
    def watermark(watermark: int) -> None:
        before = PLACE.get()
        PLACE.set(operator.log_place)
        try:
            operator.watermark(watermark)
        finally:
            PLACE.set(before)

    return watermark


def _make_room(operators: int) -> None:
    """Raise the recursion limit to what a chain needs: operators pass batches on by calling each other.

    These are calls between Python functions, which use no C stack. Infinite recursion in a user function still raises
    ``RecursionError``.
    """
    needed = _CALLS_OF_A_TASK + _CALLS_PER_OPERATOR * operators
    if sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


def _into(operator: Operator, input_index: int) -> Receiver:
    process = operator.process

    def receive(batch: Batch) -> None:
        operator.records_in += len(batch)
        if isinstance(batch, ColumnBatch):
            batch.reader = operator
        before = PLACE.get()
        PLACE.set(operator.log_place)
        try:
            process(batch, input_index)
        finally:
            PLACE.set(before)

    return receive
