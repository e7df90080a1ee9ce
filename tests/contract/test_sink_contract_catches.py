"""The contract of sinks can fail: sinks that each break one rule, and the case that must notice.

Those with two phases are the example's, with one rule broken.
"""

from __future__ import annotations

import json
import pickle
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from examples.connectors.custom_two_phase_sink import HiddenFiles, Renames, ReportsSink, reports
from tests.contract.sink_systems import System, Table, TableSink, system
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter, WriterContext
from tidemill.connectors.write_ahead_log import Delivery, Destination, Mark
from tidemill.testing.sink_contract import SINK_CASES, SinkCase, check_sink

NAME = "broken"


class VisibleTooEarly(ReportsSink):
    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        class Writer(HiddenFiles):
            def prepare_commit(self) -> Sequence[bytes]:
                for committable in super().prepare_commit():
                    hidden, final = json.loads(committable)
                    (self.directory / hidden).replace(self.directory / final)
                return ()

        return Writer(self.directory)


class NotIdempotent(ReportsSink):
    """Keeps what it has prepared, and adds it each time it is asked."""

    def create_committer(self) -> Committer:
        class Adds(Renames):
            def commit(self, committed: Sequence[Committed]) -> None:
                for part in committed:
                    for committable in part.committables:
                        hidden, _ = json.loads(committable)
                        shutil.copy(self.directory / hidden, self.directory / f"{uuid.uuid4()}.json")

        return Adds(self.directory)


class TrustsThePredecessor(ReportsSink):
    """What comes again has been committed before, it thinks."""

    def create_committer(self) -> Committer:
        class Trusts(Renames):
            def commit(self, committed: Sequence[Committed]) -> None:
                super().commit([part for part in committed if not part.again])

        return Trusts(self.directory)


class DiscardsWhatIsInUse(ReportsSink):
    def create_committer(self) -> Committer:
        class Discards(Renames):
            def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
                super().discard((), lineage)

        return Discards(self.directory)


class DiscardsWhatIsNewer(ReportsSink):
    def create_committer(self) -> Committer:
        class Discards(Renames):
            def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
                super().discard(names_in_use, "~")

        return Discards(self.directory)


class DiscardsNothing(ReportsSink):
    def create_committer(self) -> Committer:
        class Discards(Renames):
            def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
                pass

        return Discards(self.directory)


class NamesWithoutTheAttempt(ReportsSink):
    """Attempts of one epoch share a name, and add to what is there."""

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        class Writer(HiddenFiles):
            def begin_epoch(self, context: WriterContext) -> None:
                super().begin_epoch(context)
                self.hidden = f".{self.final}~{context.lineage}~"
                prepared = self.directory / self.hidden
                self.records = json.loads(prepared.read_text("utf-8")) if prepared.exists() else []

        return Writer(self.directory)


class NoMarks(TableSink):
    def create_destination(self) -> Destination:
        class Unmarked(Table):
            def deliver(self, delivery: Delivery) -> None:
                system(self.name).rows += [value for batch in delivery.batches() for value in pickle.loads(batch)]

        return Unmarked(self.name)


class MarkedOneByOne(TableSink):
    """The records, and the mark after them, in two steps: the writer of the mark dies in between now and then."""

    deaths = 0

    def create_destination(self) -> Destination:
        class Torn(Table):
            def deliver(self, delivery: Delivery) -> None:
                place = (delivery.job_id, delivery.operator_uid, delivery.subtask)
                super().deliver(delivery)
                MarkedOneByOne.deaths += 1
                if MarkedOneByOne.deaths % 3 == 0:
                    del system(self.name).marks[place]
                    raise OSError("the connection is gone")

        return Torn(self.name)


class MarksByNumberOnly(TableSink):
    """Compares the numbers of epochs, whatever history they are from."""

    def create_destination(self) -> Destination:
        class Numbered(Table):
            def deliver(self, delivery: Delivery) -> None:
                place = (delivery.job_id, delivery.operator_uid, delivery.subtask)
                stored = system(self.name).marks.get(place)
                if stored is not None and Mark.from_text(stored).epoch >= delivery.epoch:
                    return
                super().deliver(delivery)

        return Numbered(self.name)


class MarksTheSameEpochOnly(TableSink):
    """Knows an epoch again only if it was the last one."""

    def create_destination(self) -> Destination:
        class Same(Table):
            def deliver(self, delivery: Delivery) -> None:
                place = (delivery.job_id, delivery.operator_uid, delivery.subtask)
                marks = system(self.name).marks
                if marks.get(place) != delivery.mark.to_text():
                    marks.pop(place, None)
                    super().deliver(delivery)

        return Same(self.name)


BROKEN_TWO_PHASES: list[tuple[Callable[[str], Sink], str]] = [
    (VisibleTooEarly, "nothing is visible before its commit"),
    (NotIdempotent, "committed again and again"),
    (NotIdempotent, "killed in a commit after 1 subtasks"),
    (TrustsThePredecessor, "killed in a commit after 0 subtasks"),
    (TrustsThePredecessor, "killed at manifest.after"),
    (DiscardsWhatIsInUse, "killed at sink.commit.before"),
    (DiscardsWhatIsNewer, "cleared up late"),
    (DiscardsNothing, "attempts that were lost"),
    (NamesWithoutTheAttempt, "attempts that were lost"),
]
BROKEN_MARKS: list[tuple[Callable[[str], Sink], str]] = [
    (NoMarks, "killed in a commit after 2 subtasks"),
    (MarkedOneByOne, "epochs come one after the other"),
    (MarksByNumberOnly, "begun again with an empty directory"),
    (MarksTheSameEpochOnly, "committed late, 2 subtasks before"),
]


def case_of(name: str) -> SinkCase:
    (case,) = [case for case in SINK_CASES if case.name == name]
    return case


@pytest.mark.parametrize(("sink", "name"), BROKEN_TWO_PHASES)
def test_broken_two_phases_are_noticed(sink: Callable[[str], Sink], name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"visible|has left"):
        check_sink(
            case_of(name), lambda: sink(str(tmp_path)), lambda: reports(tmp_path), left=lambda: tmp_path.glob(".*")
        )


@pytest.mark.parametrize(("sink", "name"), BROKEN_MARKS)
def test_a_broken_write_ahead_log_is_noticed(sink: Callable[[str], Sink], name: str) -> None:
    database = System(NAME)
    with pytest.raises(AssertionError, match="visible"):
        check_sink(case_of(name), lambda: sink(NAME), lambda: database.rows)
