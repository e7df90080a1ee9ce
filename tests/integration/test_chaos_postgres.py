"""A short run of the chaos with PostgreSQL: a worker, the driver and the server are killed.

The long one, with faults drawn from a seed, is ``python -m chaos --job postgres``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.job_postgres import PostgresVariant
from chaos.run import Plan, Run, lines_of
from tests.thorough import WHEN_THOROUGH

FAULTS = ("kill_worker", "kill_server", "kill_driver")


@pytest.mark.slow
@WHEN_THOROUGH
@pytest.mark.timeout(900)
def test_each_result_is_in_its_table_once_whatever_is_killed(tmp_path: Path) -> None:
    story: list[str] = []
    plan = Plan(seed=1, minutes=1, folder=tmp_path, faults=FAULTS, variant=PostgresVariant)
    verdict = Run(plan, story.append).run()
    assert verdict.good, "\n".join([*story, *lines_of(verdict, plan)])
    assert verdict.starts == 2
    assert verdict.faults.total() == len(FAULTS)
