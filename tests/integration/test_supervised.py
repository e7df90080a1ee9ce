"""A program under a supervisor: started again after it died, but not when that would be useless."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.processes import PROGRAMS, ROOT, child_environment, fault
from tests.spark.recovery import WITHOUT_SPARK, Run
from tidemill.common import ExitCode


def supervise(*command: str, **variables: str) -> tuple[int, str]:
    """Run a command under the supervisor; its exit code, and all that both of them said."""
    ended = subprocess.run(
        ["sh", str(ROOT / "examples" / "supervise.sh"), sys.executable, *command],
        env={**child_environment(), "TIDEMILL_RETRY_SECONDS": "0.1", **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stdout.decode(errors="replace")


@pytest.mark.timeout(150)
def test_a_killed_driver_is_started_again_until_its_job_has_ended(tmp_path: Path) -> None:
    expected = Run(tmp_path / "expected", options=WITHOUT_SPARK).finish_here()
    job = Run(tmp_path / "job", options=WITHOUT_SPARK)
    kills = [
        fault("manifest.after", token=tmp_path / "first", skip=4),
        fault("sink.precommit.after", token=tmp_path / "second", skip=30),
    ]
    code, said = supervise(str(PROGRAMS / "keyed_job.py"), job.arguments, TIDEMILL_FAULTS=json.dumps(kills))
    assert code == ExitCode.FINISHED, said[-3000:]
    assert said.count("ended with 137 and is started again") == 2
    assert job.result() == expected


def damaged(job: Run) -> None:
    head = max((job.directory / "manifests").iterdir())
    head.write_bytes(head.read_bytes()[:-1])


def without_manifests(job: Run) -> None:
    shutil.rmtree(job.directory / "manifests")


@pytest.mark.timeout(150)
@pytest.mark.parametrize("damage", [damaged, without_manifests])
def test_a_job_whose_directory_is_damaged_is_left_alone(tmp_path: Path, damage: Callable[[Run], None]) -> None:
    """A head that cannot be read, and one that is not there though it must have been."""
    job = Run(tmp_path / "job", options={**WITHOUT_SPARK, "state.inline-delta-size": "1 bytes"})
    assert job.start(fault("manifest.after", skip=4)).code < 0
    damage(job)
    code, said = supervise(str(PROGRAMS / "keyed_job.py"), job.arguments)
    assert code == ExitCode.UNFIT, said[-3000:]
    assert "CorruptFileError" in said
    assert "started again" not in said


@pytest.mark.parametrize("code", [ExitCode.FENCED, ExitCode.UNFIT])
def test_a_program_that_another_start_cannot_help_is_left_alone(code: ExitCode) -> None:
    assert supervise("-c", f"import sys; sys.exit({code})") == (code, "")
