"""A chain in one subtask: its operator instances, wired to each other and to the exchanges that leave it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemill.datastream.sinks import WriterContext
from tidemill.datastream.specs import SourceSpec
from tidemill.datastream.transformations import Partitioning
from tidemill.graph.plan import ChainPlan, ExchangeEdge, OperatorPlan
from tidemill.runtime.exchange import EdgeSender
from tidemill.runtime.metrics import OperatorMetrics
from tidemill.runtime.operators.base import FunctionContext, Operator, OperatorContext
from tidemill.runtime.operators.factory import build_operator, load_spec
from tidemill.runtime.operators.sink import SinkOperator
from tidemill.runtime.operators.source import SourceOperator
from tidemill.runtime.operators.stateless import TimestampsOperator
from tidemill.runtime.output import Output, Receiver
from tidemill.runtime.records import MIN_TIME, Batch
from tidemill.state.backend import KeyedStateBackend
from tidemill.state.key_groups import KeyGroupRange
from tidemill.state.state_file import Section


@dataclass(frozen=True)
class ChainSettings:
    """What all chains of a job share."""

    job_parameters: dict[str, str] = field(default_factory=dict)
    runtime_mode: str = "STREAMING"
    attempt_number: int = 0


class Port:
    """A fixed place for the sender of an edge, which is made when the width of the consumer is known."""

    def __init__(self) -> None:
        self.sender: EdgeSender | None = None

    def send(self, batch: Batch) -> None:
        if self.sender is not None:
            self.sender.send(batch)

    def watermark(self, watermark: int) -> None:
        if self.sender is not None:
            self.sender.watermark(watermark)

    def finish(self) -> None:
        if self.sender is not None:
            self.sender.finish()


class Chain:
    """Operator instances of one subtask. Lives as long as its worker and its committed attempts follow each other."""

    def __init__(
        self,
        plan: ChainPlan,
        out_edges: dict[int, list[tuple[int, str | None]]],
        subtask: int,
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
        # transient
        self.operators: list[Operator] = []
        self.backends: list[KeyedStateBackend] = []
        self.opened = False
        self._partitionings: dict[int, Partitioning] = {}
        for operator in plan.operators:
            self.operators.append(self._build(operator, settings, schema))
        for link in plan.links:
            target = self.operators[link.target]
            self.operators[link.source].output.connect(
                _into(target, link.input_index), target.watermark, link.side_output
            )
        for position, edges in out_edges.items():
            for edge, side_output in edges:
                port = self.ports[edge] = Port()
                self.operators[position].output.connect(port.send, port.watermark, side_output)

    def partitioning(self, edge: ExchangeEdge) -> Partitioning:
        """The partitioner of an edge into or out of this chain, unpacked and opened once."""
        found = self._partitionings.get(edge.id)
        if found is None:
            found = self._partitionings[edge.id] = pickle.loads(edge.partitioner)
            for function in (found.selector, found.custom):
                opener = getattr(function, "open", None)
                if opener is not None:
                    opener(FunctionContext(self.operators[0].context))
        return found

    @property
    def head(self) -> Operator:
        return self.operators[0]

    def open(self) -> None:
        """Open all operators, last first, as Flink does: a consumer is ready before its producer."""
        for operator in reversed(self.operators):
            operator.open()
        self.opened = True

    def close(self) -> None:
        """Close all operators that were opened."""
        if self.opened:
            self.opened = False
            for operator in self.operators:
                operator.close()
            for partitioning in self._partitionings.values():
                for function in (partitioning.selector, partitioning.custom):
                    closer = getattr(function, "close", None)
                    if closer is not None:
                        closer()

    def restore_watermarks(self, watermark: int, marks: Mapping[str, int]) -> None:
        """Set all clocks to the committed ones: the head's, and of operators that make watermarks by ``marks``."""
        self.head.current_watermark = watermark
        for link in self.plan.links:  # producers come before consumers
            operator = self.operators[link.target]
            if isinstance(operator, TimestampsOperator):
                operator.current_watermark = marks.get(operator.context.plan.uid, MIN_TIME)
            else:
                operator.current_watermark = self.operators[link.source].current_watermark

    def marks(self) -> dict[str, int]:
        """The clocks of operators behind the head that make watermarks, by uid."""
        return {
            operator.context.plan.uid: operator.current_watermark
            for operator in self.operators[1:]
            if isinstance(operator, TimestampsOperator)
        }

    def begin_epoch(self, clock: int, writer: dict[str, Any]) -> None:
        """Start an epoch: states, clocks and writers are made ready, and processing-time timers that are due fire."""
        for backend in self.backends:
            backend.begin_epoch()
        for operator in self.operators:
            if isinstance(operator, SinkOperator):
                operator.start_writing(
                    WriterContext(
                        operator_uid=operator.context.plan.uid,
                        subtask=self.subtask,
                        parallelism=self.parallelism,
                        **writer,
                    )
                )
        for operator in self.operators:
            operator.processing_time = clock
        for operator in self.operators:
            operator.begin_epoch(clock)

    def process_keys(self, batches: list[tuple[int, Batch]]) -> None:
        """BATCH mode: process the complete input of some keys, as (input, records), then forget their state."""
        for input_index, batch in batches:
            self.head.process(batch, input_index)
        self.head.end_keys()
        for backend in self.backends:
            backend.discard()

    def end_input(self) -> None:
        """The input has ended for good."""
        for operator in self.operators:
            operator.end_input()

    def end_epoch(self) -> None:
        """The barrier, operator by operator in the direction of the data."""
        for operator in self.operators:
            operator.end_epoch()

    def export_delta(self) -> list[Section]:
        """What the epoch changed in all states of the chain."""
        return [section for backend in self.backends for section in backend.export_delta()]

    def load(self, sections: Iterator[Section]) -> None:
        """Load committed state, oldest first; the chain must not be open yet."""
        by_operator = {backend.operator: backend for backend in self.backends}
        for section in sections:
            backend = by_operator.get(section.operator)
            if backend is not None:
                backend.load(section)

    def fold(self) -> None:
        """The last epoch is committed."""
        for backend in self.backends:
            backend.fold()

    def committables(self) -> dict[str, tuple[bytes, ...]]:
        """What the sinks of the chain want committed, by operator uid."""
        return {
            operator.context.plan.uid: operator.committables
            for operator in self.operators
            if isinstance(operator, SinkOperator) and operator.committables
        }

    def next_timer(self) -> int | None:
        """The earliest pending processing-time timer."""
        times = [backend.processing_timers.peek() for backend in self.backends]
        return min((time for time in times if time is not None), default=None)

    def _build(self, plan: OperatorPlan, settings: ChainSettings, schema: pa.Schema | None) -> Operator:
        backend = None
        context = OperatorContext(
            plan=plan,
            subtask=self.subtask,
            parallelism=self.parallelism,
            attempt_number=settings.attempt_number,
            # What a source reads has the type it was declared with: Spark's schema and from_collection() see to that.
            output=Output(
                f"operator {plan.name!r} (uid {plan.uid})",
                plan.output_type if plan.inputs else None,
                plan.side_outputs,
            ),
            metrics=OperatorMetrics(),
            job_parameters=settings.job_parameters,
            runtime_mode=settings.runtime_mode,
        )
        if plan.keyed:
            groups = KeyGroupRange.for_subtask(plan.max_parallelism, self.parallelism, self.subtask)
            backend = KeyedStateBackend(plan.uid, context.where, groups, plan.max_parallelism, plan.key_type)
            self.backends.append(backend)
            context.backend = backend
        if plan.inputs == 0:
            spec = load_spec(context)
            if isinstance(spec, SourceSpec):
                return SourceOperator(spec, context, schema)
        return build_operator(context)


def _into(operator: Operator, input_index: int) -> Receiver:
    process = operator.process

    def receive(batch: Batch) -> None:
        process(batch, input_index)

    return receive
