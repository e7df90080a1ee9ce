"""The driver is killed with SIGKILL at each point of the protocol that it passes, and started again each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.processes import fault
from tests.spark.programs.keyed_job import EPOCHS, write_input
from tests.spark.recovery import WITHOUT_SPARK, Result, Run
from tests.thorough import THOROUGH, WHEN_THOROUGH, how_many

#: A chain of starts: each dies at its point, after as many passes of it as the number says. The first sink commit of a
#: start is that of what its predecessor published and may not have committed. What a driver does at these points is the
#: same with and without Spark; without, a start takes a tenth of the time.
BOUNDED = [
    ("lineage.before", 0),
    ("lineage.after", 0),
    ("offsets.logged", 1),
    ("acks.collected", 1),
    ("manifest.before", 1),
    ("manifest.after", 0),
    ("sink.commit.before", 0),
    ("sink.commit.before", 2),
    ("sink.commit.after", 1),
    ("epoch.done", 1),
    ("retention.delete", 0),
    ("snapshot.published", 0),
]
#: Under a streaming query what matters is the order of three logs: Spark's offsets, our manifest, Spark's commit.
STREAMING = [
    *([("offsets.logged", 1)] if THOROUGH else []),
    # Spark has logged the batch's offsets, we have nothing but files that do not count (test_watched_files kills there)
    *([("manifest.before", 1)] if THOROUGH else []),
    # our manifest, neither sinks nor Spark's commit; then in recovery
    *([("manifest.after", 0), ("sink.commit.after", 0)] if THOROUGH else []),
    ("epoch.done", 1),  # all of ours, not Spark's commit: the batch is replayed and must be skipped
    *([("lineage.after", 0)] if THOROUGH else []),  # a lineage without any batch
]
FILES = how_many(3, 10)


def killed_at_each(points: list[tuple[str, int]], job: Run) -> Result:
    """What a job leaves whose driver is killed at each of these points, and then gets to the end in this process."""
    for point, skip in points:
        ended = job.start(fault(point, skip=skip))
        assert ended.killed, f"the driver did not come to {point}, it ended with {ended.code}: {ended.text[-3000:]}"
    return job.finish_here()


def test_a_driver_killed_at_every_point_ends_its_job_as_if_nothing_had_happened(
    tmp_path: Path, expected: Result
) -> None:
    assert len(expected.files) > EPOCHS
    assert killed_at_each(BOUNDED, Run(tmp_path, options=WITHOUT_SPARK)) == expected


@WHEN_THOROUGH  # otherwise a driver on Spark comes back after another one has ended its job: test_high_availability
@pytest.mark.timeout(900)
def test_a_driver_killed_while_spark_works_for_it_ends_its_job_likewise(tmp_path: Path, expected: Result) -> None:
    assert killed_at_each(BOUNDED, Run(tmp_path)) == expected


@pytest.mark.timeout(900)
def test_a_streaming_job_killed_between_the_three_logs_loses_and_repeats_nothing(tmp_path: Path) -> None:
    source = tmp_path / "input"
    write_input(source, FILES)
    expected = Run(tmp_path / "expected", source=source).finish_here()
    assert killed_at_each(STREAMING, Run(tmp_path / "killed", source=source)) == expected


@WHEN_THOROUGH  # otherwise the Spark of a job on a cluster dies: test_standalone_cluster
@pytest.mark.timeout(900)
def test_a_driver_whose_spark_dies_continues_with_another_one(tmp_path: Path, expected: Result) -> None:
    job = Run(tmp_path, options={"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"})
    # In local mode the executor is the JVM of the driver.
    assert job.finish(fault("task.batch", tmp_path / "dead", "kill_executor", skip=10)) == expected
    assert (tmp_path / "dead").exists()
    assert "Spark's process has died: a new one is started" in (tmp_path / "start-1.log").read_text()
