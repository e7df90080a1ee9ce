"""The write-ahead log: what writers store, what destinations get, and what is left of it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tidemill.checkpoint.names import SINKS
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, Storage
from tidemill.connectors.sinks import Committed, Committer, CommitterContext, WriterContext
from tidemill.connectors.write_ahead_log import Delivery, Destination, DestinationContext, Mark, WriteAheadLogSink
from tidemill.errors import CheckpointError, CorruptFileError
from tidemill.runtime.task.sink_log import StoredSinkLog

FIRST, SECOND = "000000000001-aa", "000000000009-bb"


class Received(Destination):
    def __init__(self) -> None:
        self.deliveries: list[tuple[Delivery, list[bytes]]] = []
        self.opened: DestinationContext | None = None

    def open(self, context: DestinationContext) -> None:
        self.opened = context

    def deliver(self, delivery: Delivery) -> None:
        self.deliveries.append((delivery, list(delivery.batches())))


class Lines(WriteAheadLogSink):
    def __init__(self, destination: Received) -> None:
        self.destination = destination

    def encode(self, values: list[Any], timestamps: list[int] | None) -> bytes:
        return "\n".join(values).encode()

    def create_destination(self) -> Destination:
        return self.destination


class AsTheyAre(WriteAheadLogSink):
    def create_destination(self) -> Destination:
        return Received()


class Log:
    """A sink with its log, epoch by epoch."""

    def __init__(self, storage: Storage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        self.received = Received()
        self.sink = Lines(self.received)
        self.committer: Committer = self.sink.create_committer()
        self.committer.open(CommitterContext("job", "out", StoredSinkLog(self.storage, "out")))

    def write(self, *batches: list[str], epoch: int = 1, lineage: str = FIRST, attempt: str = "a") -> Committed:
        writer = self.sink.create_writer(2, 4)
        log = StoredSinkLog(self.storage, "out")
        writer.begin_epoch(WriterContext("job", "out", 2, 4, lineage, epoch, attempt, history=FIRST, log=log))
        for batch in batches:
            writer.write(batch, None)
        return Committed(epoch, 2, writer.prepare_commit())

    def files(self) -> list[str]:
        return self.storage.list(SINKS)


def test_a_small_epoch_rides_in_its_committable() -> None:
    log = Log()
    part = log.write(["a", "b"], ["c"])
    assert log.files() == []
    log.committer.commit([part])
    ((delivery, batches),) = log.received.deliveries
    assert batches == [b"a\nb", b"c"]
    assert (delivery.job_id, delivery.operator_uid, delivery.subtask, delivery.epoch) == ("job", "out", 2, 1)
    assert delivery.mark == Mark(FIRST, FIRST, 1)
    assert not delivery.again
    assert delivery.written_at > 1_700_000_000_000
    assert log.received.opened == DestinationContext("job", "out")


def test_an_epoch_without_records_has_nothing_to_commit() -> None:
    assert Log().write().committables == ()


@pytest.mark.parametrize("local", [True, False], ids=["directory", "memory"])
def test_a_large_epoch_is_in_files_that_are_gone_after_the_commit(local: bool, tmp_path: Path) -> None:
    log = Log(LocalStorage(tmp_path) if local else None)
    batches = [[str(n) * 3_000_000] for n in range(6)]
    part = log.write(*batches)
    assert len(log.files()) == 2  # of 8 MB, and what is left
    assert len(part.committables[0]) < 1000
    assert log.committer.weight(part) > 18_000_000
    log.committer.commit([part])
    ((delivery, read),) = log.received.deliveries
    assert read == [batch[0].encode() for batch in batches]
    assert delivery.size > 18_000_000
    assert log.files() == []


def test_a_file_that_is_gone_after_a_restart_was_delivered() -> None:
    log = Log()
    part = log.write(["x" * 100_000])
    log.committer.commit([part])
    log.committer.commit([Committed(part.epoch, part.subtask, part.committables, again=True)])
    assert len(log.received.deliveries) == 1
    with pytest.raises(CheckpointError, match="does not exist"):
        log.committer.commit([part])


def test_a_file_that_was_changed_is_named() -> None:
    log = Log()
    part = log.write(["x" * 100_000])
    (name,) = log.files()
    log.storage.write(name, b"y" * 100_000)
    with pytest.raises(CorruptFileError, match=name):
        log.committer.commit([part])


def test_leftovers_of_this_lineage_and_older_ones_go_and_what_is_in_use_stays() -> None:
    log = Log()
    large = ["x" * 100_000]
    in_use = log.write(large, epoch=5)
    log.write(large, epoch=5, attempt="lost")
    newer = log.write(large, epoch=6, lineage=SECOND)
    log.committer.discard(in_use.committables, FIRST)
    assert len(log.files()) == 2
    log.committer.commit([in_use, newer])
    assert [delivery.mark for delivery, _ in log.received.deliveries] == [Mark(FIRST, FIRST, 5), Mark(FIRST, SECOND, 6)]
    assert log.files() == []


def test_the_files_of_other_sinks_are_not_touched() -> None:
    log = Log()
    log.storage.write("sinks/0123456789abcdef/000000000001-aa/000000000001-0-a-0.log", b"of another sink")
    log.storage.write(f"{StoredSinkLog(log.storage, 'out').write(_place(), 0, b'x')}.bak", b"not ours")
    log.committer.discard([], SECOND)
    assert len(log.files()) == 2


def _place() -> WriterContext:
    return WriterContext("job", "out", 0, 1, FIRST, 1, "a")


class TestMarks:
    def test_a_mark_covers_what_came_before_it(self) -> None:
        mark = Mark("h", FIRST, 5)
        assert mark.covers(Mark("h", FIRST, 5))
        assert mark.covers(Mark("h", FIRST, 4))
        assert not mark.covers(Mark("h", FIRST, 6))

    def test_a_later_lineage_is_further_whatever_its_epoch(self) -> None:
        assert Mark("h", SECOND, 3).covers(Mark("h", FIRST, 5))
        assert not Mark("h", FIRST, 5).covers(Mark("h", SECOND, 3))

    def test_another_history_says_nothing(self) -> None:
        assert not Mark("other", SECOND, 99).covers(Mark("h", FIRST, 1))

    def test_a_mark_survives_as_a_text(self) -> None:
        mark = Mark("000000000001-" + "0" * 16, "0" * 20 + "-" + "f" * 32, 10**15)
        assert Mark.from_text(mark.to_text()) == mark
        assert len(mark.to_text()) < 200
        assert mark.to_text().isascii()


def test_records_are_pickled_unless_the_sink_says_otherwise() -> None:
    assert pickle.loads(AsTheyAre().encode([1, "a"], None)) == [1, "a"]
    assert AsTheyAre.pickled_committables
    assert not Lines.pickled_committables


def test_a_log_of_another_version_is_refused() -> None:
    log = Log()
    with pytest.raises(CheckpointError, match="version 2"):
        log.committer.commit([Committed(1, 0, [json.dumps({"version": 2}).encode() + b"\n"])])
