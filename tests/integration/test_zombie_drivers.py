"""Real driver processes that are paused at a point of the protocol while others take their job over, and come back.

They run in one process each, without Spark, so that also the points of workers are theirs.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.spark.processes import start
from tests.spark.recovery import WITHOUT_SPARK, Run, visible
from tests.spark.zombies import Zombie, zombies
from tests.waiting import eventually
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import storage_for
from tidemill.common import ExitCode

#: Where drivers are paused, one after the other, after so many passes.
POINTS = [
    ("task.batch", 3),  # in the middle of an epoch
    ("sink.precommit.after", 1),  # with files of its sinks written
    ("manifest.before", 1),  # about to commit
    ("sink.commit.before", 1),  # the epoch counts, its files are not visible
    ("epoch.done", 0),
]


@pytest.mark.timeout(300)
def test_drivers_that_come_back_after_a_takeover_commit_nothing_and_say_who_has_the_job(tmp_path: Path) -> None:
    expected = Run(tmp_path / "expected", options=WITHOUT_SPARK).finish_here()
    job = Run(tmp_path / "job", options=WITHOUT_SPARK)
    with zombies("keyed_job.py", job.arguments, POINTS, tmp_path) as stopped:
        finished = job.finish_here()
        assert finished.files == expected.files
        assert finished.state == expected.state
        manifests = sorted(job.directory.glob("manifests/*"))
        for zombie in stopped:
            zombie.resume()
        for zombie in stopped:
            ended = zombie.ended()
            assert ended.code == ExitCode.FENCED, f"{zombie.point}: {ended.code} {ended.text[-3000:]}"
            assert "FencedError" in ended.text
            assert "was taken over by lineage" in ended.text
        assert sorted(job.directory.glob("manifests/*")) == manifests
        assert visible(job.folder / "output") == visible(tmp_path / "expected" / "output")
    assert job.finish_here() == finished, "the next start finds nothing changed, and removes what they have left"


@pytest.mark.timeout(200)
def test_a_driver_without_work_that_comes_back_after_a_takeover_ends_with_all_it_started(tmp_path: Path) -> None:
    log = tmp_path / "zombie.log"
    child = start("idle_job.py", json.dumps({"checkpoints": str(tmp_path), "job_id": "idle"}), log=log)
    zombie = Zombie("being idle", child, log)
    try:
        eventually(lambda: "IDLE" in log.read_text(), what="an idle job", shown=log.read_text)
        child.send_signal(signal.SIGSTOP)
        zombie.wait_until_stopped()
        successor = ManifestLog(storage_for(str(tmp_path / "idle")), "idle")
        successor.open_lineage()
        zombie.resume()
        ended = zombie.ended()
        assert ended.code == ExitCode.FENCED, ended.text[-3000:]
        assert "was taken over by lineage" in ended.text
        successor.check_owner()
    finally:
        zombie.kill()
