"""The contract of sinks can fail: sinks that each break one rule, and the case that must notice."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.contract.sink_systems import (
    PreparedCommitter,
    PreparingSink,
    PreparingWriter,
    System,
    Table,
    TableSink,
    system,
)
from tidemill.datastream.sinks import Committed, Committer, Sink, SinkWriter, WriterContext
from tidemill.datastream.write_ahead_log import Delivery, Destination, Mark
from tidemill.testing.sink_contract import SINK_CASES, check_sink

NAME = "broken"


class VisibleTooEarly(PreparingSink):
    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        class Writer(PreparingWriter):
            def prepare_commit(self) -> Sequence[bytes]:
                self.system.rows += self.records
                return ()

        return Writer(self.name)


class NotIdempotent(PreparingSink):
    """Keeps what it has prepared, and adds it each time it is asked."""

    def create_committer(self) -> Committer:
        class Adds(PreparedCommitter):
            def commit(self, committed: Sequence[Committed]) -> None:
                for part in committed:
                    for committable in part.committables:
                        self.system.rows += self.system.prepared[json.loads(committable)]

        return Adds(self.name)


class TrustsThePredecessor(PreparingSink):
    """What comes again has been committed before, it thinks."""

    def create_committer(self) -> Committer:
        class Trusts(PreparedCommitter):
            def commit(self, committed: Sequence[Committed]) -> None:
                super().commit([part for part in committed if not part.again])

        return Trusts(self.name)


class DiscardsWhatIsInUse(PreparingSink):
    def create_committer(self) -> Committer:
        class Discards(PreparedCommitter):
            def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
                super().discard((), lineage)

        return Discards(self.name)


class DiscardsWhatIsNewer(PreparingSink):
    def create_committer(self) -> Committer:
        class Discards(PreparedCommitter):
            def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
                super().discard(names_in_use, "~")

        return Discards(self.name)


class DiscardsNothing(PreparingSink):
    def create_committer(self) -> Committer:
        class Discards(PreparedCommitter):
            def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
                pass

        return Discards(self.name)


class NamesWithoutTheAttempt(PreparingSink):
    """Attempts of one epoch share a name, and add to what is there."""

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        class Writer(PreparingWriter):
            def begin_epoch(self, context: WriterContext) -> None:
                super().begin_epoch(context)
                self.name = f"{context.lineage}~{context.epoch}~{context.subtask}"
                self.records = self.system.prepared.get(self.name, [])

        return Writer(self.name)


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


BROKEN: list[tuple[Callable[[str], Sink], str]] = [
    (VisibleTooEarly, "nothing is visible before its commit"),
    (NotIdempotent, "committed again and again"),
    (NotIdempotent, "killed in a commit after 1 subtasks"),
    (TrustsThePredecessor, "killed in a commit after 0 subtasks"),
    (TrustsThePredecessor, "killed at manifest.after"),
    (DiscardsWhatIsInUse, "killed at sink.commit.before"),
    (DiscardsWhatIsNewer, "cleared up late"),
    (DiscardsNothing, "attempts that were lost"),
    (NamesWithoutTheAttempt, "attempts that were lost"),
    (NoMarks, "killed in a commit after 2 subtasks"),
    (MarkedOneByOne, "epochs come one after the other"),
    (MarksByNumberOnly, "begun again with an empty directory"),
    (MarksTheSameEpochOnly, "committed late, 2 subtasks before"),
]


@pytest.mark.parametrize(("sink", "name"), BROKEN, ids=lambda value: value if isinstance(value, str) else None)
def test_a_broken_sink_is_noticed(sink: Any, name: str) -> None:
    made = System(NAME)
    (case,) = [case for case in SINK_CASES if case.name == name]
    with pytest.raises(AssertionError, match=r"visible|has left"):
        check_sink(case, lambda: sink(NAME), lambda: made.rows, left=lambda: made.prepared)
