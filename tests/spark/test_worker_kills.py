"""Python workers and whole executors are killed with SIGKILL at each point of the protocol that they pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.processes import fault
from tests.spark.recovery import CLUSTER, WITHOUT_SPARK, Result, Run
from tests.thorough import WHEN_THOROUGH
from tidemill.faults import POINTS

#: How often a worker passes a point before it is killed there; it passes most of them a few times per epoch.
WORKER_POINTS = {
    "state.loaded": 3,
    "task.batch": 8,
    "sink.precommit.before": 7,
    "sink.precommit.after": 10,
    "delta.before": 18,
    "delta.after": 25,
    "ack.before": 26,
}
#: The same for executors, whose end costs more: a Java program, and the shuffle files of others. First those at which
#: something has just become durable. A new executor counts from the start, so the numbers are small.
EXECUTOR_POINTS = {
    "sink.precommit.after": 4,
    "delta.after": 9,
    "ack.before": 10,
    "state.loaded": 1,
    "task.batch": 6,
    "sink.precommit.before": 2,
    "delta.before": 7,
}


def test_every_point_is_killed_in_some_process() -> None:
    from tests.spark.test_driver_kills import BOUNDED

    assert {*WORKER_POINTS, *(point for point, _ in BOUNDED)} == set(POINTS)


@WHEN_THOROUGH  # otherwise those of a job with its state in RocksDB are killed at every point
@pytest.mark.timeout(400)
def test_python_workers_killed_at_every_point_change_nothing(tmp_path: Path, expected: Result) -> None:
    faults = [fault(point, tmp_path / point, skip=skip) for point, skip in WORKER_POINTS.items()]
    result = Run(tmp_path / "run").finish(*faults)
    assert [point for point in WORKER_POINTS if not (tmp_path / point).exists()] == []
    assert result == expected


@WHEN_THOROUGH  # otherwise an executor of a job whose function is random is killed: test_task_attempts
@pytest.mark.timeout(400)
def test_executors_killed_between_all_that_is_durable_change_nothing(tmp_path: Path, expected: Result) -> None:
    faults = [
        fault(point, tmp_path / point, action="kill_executor", skip=skip) for point, skip in EXECUTOR_POINTS.items()
    ]
    result = Run(tmp_path / "run", options=CLUSTER).finish(*faults)
    assert [point for point in EXECUTOR_POINTS if not (tmp_path / point).exists()] == []
    assert result == expected


@pytest.mark.timeout(400)
def test_a_job_that_changes_to_rocksdb_and_loses_workers_continues(tmp_path: Path, expected: Result) -> None:
    begun = Run(tmp_path / "run", options=WITHOUT_SPARK)  # the engine changes, too
    assert begun.start(fault("manifest.after", tmp_path / "driver", skip=1)).killed
    options = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
        "state.backend.rocksdb.cached-values": "10",
    }
    faults = [fault(point, tmp_path / point, skip=skip) for point, skip in WORKER_POINTS.items()]
    result = Run(tmp_path / "run", options=options).finish(*faults)
    assert [point for point in WORKER_POINTS if not (tmp_path / point).exists()] == []
    assert result == expected
    assert [path for path in (tmp_path / "local").rglob("*") if path.is_file()] == []
