"""A short run of the chaos: a driver is killed, another one is paused until it is replaced, and the job is rescaled.

Only ``make thorough`` runs it on Spark, where workers are killed, storage is slow and garbage is damaged as well. The
long run, with faults drawn from a seed, is ``make chaos``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.run import Plan, Run, lines_of
from tests.thorough import THOROUGH

FAULTS = ("rescale", "kill_driver", "stop_driver")
ON_SPARK = ("kill_worker", "slow_storage", "damage_garbage")


@pytest.mark.timeout(900)
def test_output_and_state_equal_the_truth_whatever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = (*FAULTS, *ON_SPARK) if THOROUGH else FAULTS
    if not THOROUGH:
        (tmp_path / "settings.yaml").write_text("execution.target: local\n")
        monkeypatch.setenv("TIDEMILL_CONF", str(tmp_path / "settings.yaml"))
    story: list[str] = []
    plan = Plan(seed=1, minutes=1, folder=tmp_path, faults=faults)
    verdict = Run(plan, story.append).run()
    assert verdict.good, "\n".join([*story, *lines_of(verdict, plan)])
    assert verdict.starts == 3
    # Where nothing is garbage yet, nothing can be damaged.
    assert verdict.faults.total() >= len(faults) - THOROUGH
