"""A short run of the chaos: a worker and the driver are killed, and the job is rescaled.

In ``make thorough`` storage is slow, too, and garbage is damaged. The long one, with faults drawn from a seed, is
``make chaos``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.run import Plan, Run, lines_of
from tests.thorough import THOROUGH

FAULTS = ("kill_worker", "rescale", "kill_driver", *(("slow_storage", "damage_garbage") if THOROUGH else ()))


@pytest.mark.timeout(900)
def test_output_and_state_equal_the_truth_whatever_is_killed(tmp_path: Path) -> None:
    story: list[str] = []
    plan = Plan(seed=1, minutes=1, folder=tmp_path, faults=FAULTS)
    verdict = Run(plan, story.append).run()
    assert verdict.good, "\n".join([*story, *lines_of(verdict, plan)])
    assert verdict.starts == 2
    assert verdict.faults.total() >= len(FAULTS) - 1  # where nothing is garbage yet, nothing can be damaged
