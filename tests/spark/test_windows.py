"""Windows, joins and timers over several subtasks and exchanges, rescaled, restarted and killed: nothing changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.committed import committed_counts, committed_head, job_directory
from tests.spark.processes import fault, run
from tests.spark.programs.windowed_job import JOB_ID, environment, found, truth
from tests.spark.recovery import WITHOUT_SPARK
from tests.thorough import WHEN_THOROUGH
from tests.waiting import eventually

#: For a machine that is busy with other things: a dozen Python workers are started for the first epochs.
SECONDS = 200.0
pytestmark = pytest.mark.timeout(600)


def arguments(folder: Path, **options: str) -> dict[str, Any]:
    return {"checkpoints": str(folder / "checkpoints"), "output": str(folder / "output"), "options": options}


def assert_right(folder: Path) -> None:
    """The output is that of a computation over all records at once, and no state is left."""
    assert found(folder / "output") == truth()
    directory = job_directory(folder / "checkpoints", JOB_ID)
    assert committed_head(directory).finished
    assert committed_counts(directory) == {}


def test_rescaled_while_it_runs_and_started_again_at_another_parallelism(tmp_path: Path, spark: SparkSession) -> None:
    directory = job_directory(tmp_path / "checkpoints", JOB_ID)
    # It takes 24 s by itself: time enough for what is to happen before its end, also on a busy machine.
    slowly = {"execution.epoch.min-interval": "2 s"}
    client = environment(arguments(tmp_path, **slowly)).execute_async("rescaled")
    eventually(lambda: len(list(directory.glob("manifests/*.tm"))) > 1, seconds=SECONDS, what="an epoch")
    for width in (3, 1):
        client.rescale(width).result(timeout=SECONDS)
        head = committed_head(directory)
        assert {head.parallelism[uid] for uid in ("tumbling", "near", "totals")} == {width}
        assert not head.finished, "the job was too fast for this test"
    client.cancel().result(timeout=SECONDS)
    assert {operator for operator, _ in committed_counts(directory)} >= {"session", "near", "reminder", "totals"}, (
        "it stopped in the middle"
    )
    assert not committed_head(directory).finished
    environment(arguments(tmp_path)).execute("started again")
    assert_right(tmp_path)


@WHEN_THOROUGH  # otherwise a job without windows changes from one engine to the other: test_worker_kills
def test_a_driver_without_spark_is_killed_before_its_sinks_commit_and_one_with_spark_continues(
    tmp_path: Path, spark: SparkSession
) -> None:
    given = json.dumps(arguments(tmp_path, **{"parallelism.default": "1", **WITHOUT_SPARK}))
    ended = run("windowed_job.py", given, faults=[fault("manifest.after", skip=5)], log=tmp_path / "killed.log")
    assert ended.killed, ended.text[-3000:]
    environment(arguments(tmp_path)).execute("started again")
    assert_right(tmp_path)
