"""What one subtask tells the driver of one epoch beside its ack's content: metrics, and where its time went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TypeVar

from tidemill.checkpoint.model import Ack
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME
from tidemill.runtime.observe.metrics import OperatorReport
from tidemill.runtime.operators.base import Operator
from tidemill.runtime.operators.sink import SinkOperator
from tidemill.runtime.operators.source import SourceOperator
from tidemill.runtime.operators.timestamps import TimestampsOperator
from tidemill.runtime.task.chain import Chain

T = TypeVar("T")


class SubtaskTimes:
    """A stopwatch for one subtask and epoch, in nanoseconds; it starts when it is made.

    ``waited`` is for input that others prepare, ``read`` goes into reading splits of a source, ``sent`` is until
    parcels were taken, ``loaded`` went into getting the chain ready, ``wrote`` into writing what changed.
    """

    __slots__ = ("loaded", "read", "sent", "started", "waited", "wrote")

    def __init__(self) -> None:
        self.waited = self.read = self.sent = self.loaded = self.wrote = 0
        self.started = perf_counter_ns()

    def waiting(self, inputs: Iterable[T]) -> Iterator[T]:
        """The same input; what it takes to get it is measured."""
        before = perf_counter_ns()
        for item in inputs:
            self.waited += perf_counter_ns() - before
            yield item
            before = perf_counter_ns()
        self.waited += perf_counter_ns() - before

    def reading(self, batches: Iterable[T]) -> Iterator[T]:
        """The same batches of a source; what it takes to read them is measured."""
        before = perf_counter_ns()
        for batch in batches:
            self.read += perf_counter_ns() - before
            yield batch
            before = perf_counter_ns()
        self.read += perf_counter_ns() - before

    def sending(self, parcels: list[T]) -> Iterator[T]:
        """The same parcels; how long they wait to be taken is measured."""
        before = perf_counter_ns()
        yield from parcels
        self.sent += perf_counter_ns() - before


@dataclass(frozen=True)
class SubtaskReport:
    """What one subtask measured in one epoch; times in nanoseconds, ``total`` is until the barrier was done."""

    operators: tuple[OperatorReport, ...]
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    cold: bool
    total: int
    waited: int
    read: int
    sent: int
    loaded: int
    wrote: int

    @property
    def busy(self) -> int:
        """The time in which the subtask itself did something."""
        return max(0, self.total - self.waited - self.sent)

    @property
    def computed(self) -> int:
        """The time in which records were processed."""
        return max(0, self.busy - self.read - self.loaded - self.wrote)

    @classmethod
    def of(
        cls,
        chain: Chain,
        times: SubtaskTimes,
        *,
        leaving: set[int],
        records_in: int,
        bytes_in: int,
        bytes_out: int,
        cold: bool,
        last: bool,
    ) -> SubtaskReport:
        """The report of a chain at its barrier; what its operators counted is sent with it.

        ``leaving`` are the positions of operators whose main output leaves the chain; after the ``last`` epoch there
        is no other report.
        """
        chain.head.records_in += records_in
        reports = []
        records_out = 0
        for position, operator in enumerate(chain.operators):
            sent = operator.output.take_count()
            if position in leaving:
                records_out += sent
            reports.append(_report_of(operator, sent))
        if chain.key_sampler is not None:
            reports[0].hot_keys = chain.key_sampler.report(last=last)
        return cls(
            operators=tuple(reports),
            records_in=records_in,
            records_out=records_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            cold=cold,
            total=perf_counter_ns() - times.started,
            waited=times.waited,
            read=times.read,
            sent=times.sent,
            loaded=times.loaded,
            wrote=times.wrote,
        )


def _report_of(operator: Operator, records_out: int) -> OperatorReport:
    context = operator.context
    report = context.metrics.report(context.plan.uid)
    records_in, operator.records_in = operator.records_in, 0
    report.counts["numRecordsIn"] = records_in
    if isinstance(operator, SinkOperator):
        report.counts["numRecordsSend"] = records_in
    else:
        report.counts["numRecordsOut"] = records_out
    _note_time(operator, report)
    if context.backend is not None:
        report.queryable = context.backend.queryable_names()
    for states in (context.backend, context.operator_state):
        if states is not None:
            report.states.update(states.sizes())
    return report


def _note_time(operator: Operator, report: OperatorReport) -> None:
    watermark, makes_time = operator.current_watermark, isinstance(operator, (SourceOperator, TimestampsOperator))
    if watermark > MIN_TIME:
        if not isinstance(operator, SinkOperator):
            report.gauges["currentOutputWatermark"] = watermark
        if makes_time and watermark < MAX_TIME:
            report.gauges["watermarkLag"] = operator.processing_time - watermark
        if not makes_time:
            report.gauges["currentInputWatermark"] = watermark
    last = operator.output.last_timestamp
    if makes_time and last is not None:
        report.gauges["currentFetchEventTimeLag"] = operator.processing_time - last


def reports_of(acks: Iterable[Ack]) -> list[SubtaskReport]:
    """The reports that came with acks."""
    return [ack.report for ack in acks if isinstance(ack.report, SubtaskReport)]


def seconds_of_work(acks: Iterable[Ack], levels: Mapping[str, int]) -> float:
    """How long the slowest subtask of each level worked with its chain, all levels together.

    ``levels`` are those of the chains. To wait for input or for workers, and to load a chain, is no work.
    """
    slowest: dict[int, int] = {}
    for ack in acks:
        if isinstance(report := ack.report, SubtaskReport):
            level = levels[ack.subtask.chain]
            slowest[level] = max(slowest.get(level, 0), report.busy - report.loaded)
    return sum(slowest.values()) / 1e9


def committed_counts(acks: Iterable[Ack]) -> dict[str, float]:
    """All that was counted in an epoch, by uid and name, as its manifest remembers it; what is zero is left out."""
    totals: dict[str, float] = {}
    for report in reports_of(acks):
        for operator in report.operators:
            for name, value in operator.committed().items():
                if value:
                    total = f"{operator.uid}.{name}"
                    totals[total] = totals.get(total, 0) + value
    return totals


def entries_of(acks: Iterable[Ack]) -> int:
    """The entries of all states of the job."""
    reports = reports_of(acks)
    return sum(entries for r in reports for operator in r.operators for entries, _ in operator.states.values())
