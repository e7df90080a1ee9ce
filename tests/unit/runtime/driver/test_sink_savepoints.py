"""What sinks with a write-ahead log do when a job stops with a savepoint, or starts from one or from another job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.sink_systems import System, TableSink
from tests.waiting import eventually
from tidemill.checkpoint.names import SINKS
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import Configuration
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.testing import JobHarness

SMALL, LARGE = 1, 150_000


def to_table(env: StreamExecutionEnvironment, records: DataStream) -> None:
    records.rebalance().sink_to(TableSink("table")).uid("table")


def record(number: int, size: int) -> str:
    return str(number).zfill(size)


def numbers(rows: list[Any]) -> list[int]:
    return sorted(int(row[-6:]) for row in rows)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_job_resumes_from_a_savepoint_and_delivers_nothing_twice(size: int, tmp_path: Path) -> None:
    table = System("table")
    with JobHarness(to_table, inputs=["records"]) as job:
        job.epoch(records=[record(n, size) for n in range(4)])
        savepoint = job.savepoint(tmp_path)
        job.epoch(records=[record(n, size) for n in range(4, 8)])
        # Back to the savepoint, in a directory of its own: what came after it comes again, on purpose.
        options = {"execution.state-recovery.path": savepoint}
        with JobHarness(to_table, inputs=job.inputs, configuration=options) as again:
            again.run()
    assert numbers(table.rows) == sorted([*range(8), *range(4, 8)])


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_what_another_job_had_committed_and_not_delivered_is_delivered_by_its_heir(size: int, tmp_path: Path) -> None:
    table = System("table")
    storage = LocalStorage(tmp_path / "old")
    job = JobHarness(to_table, inputs=["records"], storage=storage)
    job.epoch(records=[record(n, size) for n in range(4)])
    with injected(Fault("sink.commit.before")), pytest.raises(InjectedFaultError):
        job.epoch(records=[record(n, size) for n in range(4, 8)])
    assert numbers(table.rows) == list(range(4))
    assert bool(storage.list(SINKS)) == (size == LARGE)

    options = {
        "execution.job-id": "heir",
        "execution.state-recovery.path": str(tmp_path / "old"),
        "execution.state-recovery.allow-pickle": "true",
    }
    new = LocalStorage(tmp_path / "new")
    with JobHarness(to_table, inputs=job.inputs, storage=new, configuration=options) as heir:
        assert numbers(table.rows) == list(range(8))
        heir.epoch(records=[record(8, size)])
    assert numbers(table.rows) == list(range(9))
    assert new.list(SINKS) == []
    # The old driver comes back, and commits what its heir has delivered in its name.
    job.restart(crashed=True)
    assert numbers(table.rows) == list(range(9))
    assert storage.list(SINKS) == []
    job.close()


def test_a_job_that_stops_with_a_savepoint_has_delivered_everything(tmp_path: Path) -> None:
    table = System("table")
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(str, None, RateLimiterStrategy.per_checkpoint(2))
    env.from_source(source, None, "numbers").sink_to(TableSink("table")).uid("table")
    client = env.execute_async("endless")
    eventually(lambda: len(table.rows) >= 20)
    savepoint = client.stop_with_savepoint(False, str(tmp_path)).result(60)
    client.get_job_execution_result().result(60)
    delivered = numbers(table.rows)
    assert delivered == list(range(len(delivered)))

    configuration.set_string("execution.state-recovery.path", savepoint)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    more = DataGeneratorSource(str, len(delivered) + 5, RateLimiterStrategy.per_checkpoint(2))
    env.from_source(more, None, "numbers").sink_to(TableSink("table")).uid("table")
    env.execute("goes on")
    assert numbers(table.rows) == list(range(len(delivered) + 5))
