"""The report of one subtask about one epoch, sent to the driver with the ack: metrics, and a breakdown of its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TypeVar

from tidemill.checkpoint.model import Ack
from tidemill.common.reports.checkpoint_statistics import SubtaskCheckpoint
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME
from tidemill.runtime.observe.metrics import OperatorReport
from tidemill.runtime.operators.base import Operator
from tidemill.runtime.operators.sink import SinkOperator
from tidemill.runtime.operators.source import SourceOperator
from tidemill.runtime.operators.timestamps import TimestampsOperator
from tidemill.runtime.task.chain import Chain

T = TypeVar("T")


class SubtaskTimes:
    """A stopwatch for one subtask and epoch, in nanoseconds; it starts when it is created.

    ``waited`` is the time spent waiting for input from other subtasks, ``read`` reading splits of a source, ``sent``
    waiting until parcels were accepted, ``loaded`` preparing the chain, and ``wrote`` writing changes.
    """

    __slots__ = ("loaded", "read", "sent", "started", "waited", "wrote")

    def __init__(self) -> None:
        self.waited = self.read = self.sent = self.loaded = self.wrote = 0
        self.started = perf_counter_ns()

    def waiting(self, inputs: Iterable[T]) -> Iterator[T]:
        """Yield the same input, and measure the time spent waiting for it."""
        before = perf_counter_ns()
        for item in inputs:
            self.waited += perf_counter_ns() - before
            yield item
            before = perf_counter_ns()
        self.waited += perf_counter_ns() - before

    def reading(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield the same batches of a source, and measure the time spent reading them."""
        before = perf_counter_ns()
        for batch in batches:
            self.read += perf_counter_ns() - before
            yield batch
            before = perf_counter_ns()
        self.read += perf_counter_ns() - before

    def sending(self, parcels: list[T]) -> Iterator[T]:
        """Yield the same parcels, and measure the time until they are accepted."""
        before = perf_counter_ns()
        yield from parcels
        self.sent += perf_counter_ns() - before


@dataclass(frozen=True)
class SubtaskReport:
    """The measurements of one subtask in one epoch. Times are in nanoseconds; ``total`` ends with the barrier."""

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
        """The time in which the subtask itself was active."""
        return max(0, self.total - self.waited - self.sent)

    @property
    def computed(self) -> int:
        """The time spent processing records."""
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
        """The report of a chain at its barrier, including the counts of its operators.

        ``leaving`` are the positions of operators whose main output leaves the chain. The report of the ``last`` epoch
        is the final one.
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
    if operator.objects_made:
        report.counts["numRecordsToObjects"], operator.objects_made = operator.objects_made, 0
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
    """The reports of acks."""
    return [ack.report for ack in acks if isinstance(ack.report, SubtaskReport)]


def seconds_of_work(acks: Iterable[Ack], levels: Mapping[str, int]) -> float:
    """The working time of the slowest subtask of each level, summed over all levels, in seconds.

    ``levels`` contains the level of each chain. Waiting for input or for workers, and loading a chain, do not count as
    work.
    """
    slowest: dict[int, int] = {}
    for ack in acks:
        if isinstance(report := ack.report, SubtaskReport):
            level = levels[ack.subtask.chain]
            slowest[level] = max(slowest.get(level, 0), report.busy - report.loaded)
    return sum(slowest.values()) / 1e9


def committed_counts(acks: Iterable[Ack]) -> dict[str, float]:
    """All counts of an epoch by uid and name, as its manifest stores them; zeros are left out."""
    totals: dict[str, float] = {}
    for report in reports_of(acks):
        for operator in report.operators:
            for name, value in operator.committed().items():
                if value:
                    total = f"{operator.uid}.{name}"
                    totals[total] = totals.get(total, 0) + value
    return totals


def entries_of(acks: Iterable[Ack]) -> int:
    """The number of entries in all states of the job."""
    reports = reports_of(acks)
    return sum(entries for r in reports for operator in r.operators for entries, _ in operator.states.values())


def checkpoint_parts(acks: Iterable[Ack]) -> tuple[SubtaskCheckpoint, ...]:
    """Return what each subtask contributed to the checkpoint at the end of an epoch, by chain and subtask."""
    found = []
    for ack in acks:
        rows: dict[tuple[str, str], int] = {}
        for piece in ack.pieces:
            for section in piece.sections:
                place = (section.operator, section.state)
                rows[place] = rows.get(place, 0) + section.rows
        report = ack.report if isinstance(ack.report, SubtaskReport) else None
        found.append(
            SubtaskCheckpoint(
                chain=ack.subtask.chain,
                subtask=ack.subtask.subtask,
                bytes=sum(piece.length for piece in ack.pieces),
                write=0.0 if report is None else report.wrote / 1e6,
                duration=0.0 if report is None else report.total / 1e6,
                rows=tuple((operator, state, count) for (operator, state), count in sorted(rows.items())),
            )
        )
    return tuple(sorted(found, key=lambda part: (part.chain, part.subtask)))
