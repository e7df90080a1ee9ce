"""Real drivers of one job on Spark that are paused while another one takes the job over, and come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.recovery import Result, Run
from tests.spark.zombies import zombies
from tests.thorough import THOROUGH
from tidemill.common import ExitCode

#: Where drivers are paused, one after the other: before the commit point and behind it. A driver passes them in the
#: same way without Spark, where both are always tried (tests/integration/test_zombie_drivers).
STOPPED = [("manifest.before", 1), *([("sink.commit.before", 1)] if THOROUGH else [])]


@pytest.mark.timeout(600)
def test_drivers_on_spark_that_come_back_after_a_takeover_commit_nothing(tmp_path: Path, expected: Result) -> None:
    job = Run(tmp_path / "job")
    with zombies("keyed_job.py", job.arguments, STOPPED, tmp_path) as stopped:
        finished = job.finish_here()
        assert finished == expected
        for zombie in stopped:
            zombie.resume()
        for zombie in stopped:
            ended = zombie.ended()
            assert ended.code == ExitCode.FENCED, f"{zombie.point}: {ended.code} {ended.text[-3000:]}"
            assert "was taken over by lineage" in ended.text
    assert job.finish_here() == finished
