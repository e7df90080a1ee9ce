"""A driver that lost its job to another one stops: it neither takes it back nor looks as if it had failed itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import MemoryStorage, storage_for
from tidemill.common import Configuration
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import FencedError


class Successor:
    """Another driver that takes the job over while the first one is paused in the middle of its sink's commit."""

    location = ""
    log: ManifestLog | None = None
    commits = 0


class _Writer(SinkWriter):
    def write(self, values: list[int], timestamps: list[int] | None) -> None:
        pass

    def prepare_commit(self) -> list[bytes]:
        return [b"x"]


class _Committer(Committer):
    def commit(self, committed: Sequence[Committed]) -> None:
        Successor.commits += 1
        if Successor.log is None:
            Successor.log = ManifestLog(storage_for(Successor.location), "job")
            Successor.log.open_lineage()
            raise OSError("the sink could not be reached")


class _Sink(Sink):
    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer:
        return _Committer()


@pytest.fixture
def successor(tmp_path: Path) -> Iterator[type[Successor]]:
    Successor.location, Successor.log, Successor.commits = str(tmp_path / "job"), None, 0
    yield Successor
    Successor.log = None


def test_a_fenced_driver_does_not_start_the_job_again(tmp_path: Path, successor: type[Successor]) -> None:
    options = {
        "execution.target": "local",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.job-id": "job",
        "execution.epoch.max-records": "5",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.from_sequence(1, 20).sink_to(_Sink())
    client = env.execute_async("fenced")
    with pytest.raises(FencedError, match="taken over by lineage"):
        client.get_job_execution_result().result(60)
    assert successor.log is not None
    successor.log.check_owner()  # the job is still the successor's
    assert successor.commits == 1, "a fenced driver commits nothing more"


def test_a_lineage_is_not_opened_after_that_of_another_driver() -> None:
    storage = MemoryStorage()
    mine, other = ManifestLog(storage, "job"), ManifestLog(storage, "job")
    first = mine.open_lineage().lineage
    again = mine.open_lineage(after=first).lineage
    taken = other.open_lineage().lineage
    with pytest.raises(FencedError, match=f"taken over by lineage {taken}.*lineage {again}, does not start it again"):
        mine.open_lineage(after=again)
    other.check_owner()


def test_looking_at_the_next_slot_finds_a_takeover() -> None:
    storage = MemoryStorage()
    mine, other = ManifestLog(storage, "job"), ManifestLog(storage, "job")
    mine.open_lineage()
    mine.check_next_slot()
    other.open_lineage()
    with pytest.raises(FencedError):
        mine.check_next_slot()
