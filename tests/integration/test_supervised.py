"""A program under a supervisor: started again after it died, but not when that would be of no use."""

from __future__ import annotations

import json
import subprocess
import sys
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


@pytest.mark.parametrize("code", [ExitCode.FENCED, ExitCode.UNFIT])
def test_a_program_that_another_start_cannot_help_is_left_alone(code: ExitCode) -> None:
    assert supervise("-c", f"import sys; sys.exit({code})") == (code, "")
