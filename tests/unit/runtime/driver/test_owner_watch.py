"""A driver without work finds out in time that its job is another driver's."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.waiting import eventually
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import MemoryStorage, storage_for
from tidemill.common import Configuration
from tidemill.common.job_status import JobStatus
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.errors import CheckpointError, FencedError
from tidemill.runtime.driver.owner_watch import OwnerWatch
from tidemill.testing.faulty_storage import Fate, FaultyStorage


class World:
    """A storage, the calls that it gets, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self.down = False
        self.lists_are_empty = False
        self.inner = MemoryStorage()
        self.manifests = ManifestLog(FaultyStorage(self.inner, self._oracle), "job")
        self.manifests.open_lineage()
        self.calls.clear()
        self.watch = OwnerWatch(10.0, clock=lambda: self.now)
        self.watch.claimed(self.manifests)

    def _oracle(self, call: str, name: str) -> Fate | None:
        self.calls.append(call)
        if call == "list" and self.lists_are_empty:
            return Fate(leave_out=1)
        return Fate(before=self._refuse) if self.down else None

    @staticmethod
    def _refuse() -> None:
        raise CheckpointError("503")

    def look_for(self, seconds: int) -> None:
        for _ in range(seconds * 50):
            self.now += 0.02
            self.watch.look()


def test_one_existence_check_in_each_interval_is_all_it_costs() -> None:
    world = World()
    world.look_for(65)
    assert world.calls == ["exists"] * 6


def test_a_takeover_is_found_within_the_interval() -> None:
    world = World()
    world.look_for(25)
    ManifestLog(world.inner, "job").open_lineage()
    before = world.now
    with pytest.raises(FencedError, match="was taken over by lineage"):
        world.look_for(11)
    assert world.now - before <= 10.1


def test_a_takeover_is_found_though_lists_are_out_of_date() -> None:
    world = World()
    world.lists_are_empty = True
    ManifestLog(world.inner, "job").open_lineage()
    with pytest.raises(FencedError):
        world.look_for(11)


def test_a_storage_that_does_not_answer_takes_no_job_away(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.down = True
    world.look_for(60)
    assert caplog.text.count("cannot be checked in its storage at the moment: 503") == 1
    world.down = False
    ManifestLog(world.inner, "job").open_lineage()
    with pytest.raises(FencedError):
        world.look_for(11)


def test_a_job_without_a_claim_is_not_looked_for() -> None:
    OwnerWatch(0.0).look()


def _environment(folder: Path, **more: str) -> StreamExecutionEnvironment:
    options = {
        "execution.target": "local",
        "execution.checkpointing.dir": str(folder),
        "execution.job-id": "job",
        "execution.owner-check-interval": "50 ms",
        **more,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))


def _nothing(env: StreamExecutionEnvironment) -> DataStream:
    """A stream whose first record comes in a thousand years."""
    return env.from_source(DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(1e-11)), None, "none")


@pytest.mark.parametrize("pause", ["0 ms", "1 h"])
def test_an_idle_job_ends_when_another_driver_has_it(
    tmp_path: Path, pause: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidemill")
    env = _environment(tmp_path, **{"execution.epoch.min-interval": pause})
    _nothing(env).print()
    client = env.execute_async("idle")
    eventually(lambda: "job job is run by lineage" in caplog.text)
    ManifestLog(storage_for(str(tmp_path / "job")), "job").open_lineage()
    with pytest.raises(FencedError, match="was taken over by lineage"):
        client.get_job_execution_result().result(60)
    assert client.get_job_status().result() is JobStatus.SUSPENDED


def test_a_job_that_waits_to_be_started_again_ends_when_another_driver_has_it(tmp_path: Path) -> None:
    delay = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 h"}
    env = _environment(tmp_path, **delay)
    env.from_collection([1]).map(lambda n: n // 0).print()
    client = env.execute_async("failing")
    eventually(lambda: client.get_job_status().result() is JobStatus.RESTARTING)
    ManifestLog(storage_for(str(tmp_path / "job")), "job").open_lineage()
    with pytest.raises(FencedError, match="was taken over by lineage"):
        client.get_job_execution_result().result(60)
    assert client.get_job_status().result() is JobStatus.SUSPENDED
    assert client.get_exception_history()[0].exception.startswith("FencedError")
