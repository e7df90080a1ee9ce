"""Tasks that run more than once, with a user function that is random: what the sink got is what the state says.

A retried task, a stage that is computed again because its shuffle files are gone, and a speculative twin all send other
records than the attempt before them. An epoch may be published only if everybody consumed the attempts that count.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.spark.committed import committed_state, job_directory
from tests.spark.processes import run
from tests.spark.programs.random_job import EPOCH, NUMBERS
from tests.spark.recovery import CLUSTER
from tests.spark.standalone import SETTINGS, StandaloneCluster
from tests.thorough import WHEN_THOROUGH

JOB_ID = "random"


def run_random_job(folder: Path, sabotage: list[dict[str, Any]], options: Mapping[str, str] | None = None) -> list[int]:
    """Run the random job, check what must hold whatever happened, and return the runs of each epoch."""
    for index, entry in enumerate(sabotage):
        entry["token"] = str(folder / f"token-{index}")
        entry["local_dir"] = str(folder / "local")
        entry["state"] = str(job_directory(folder / "checkpoints", JOB_ID) / "state")
    arguments = {
        "checkpoints": str(folder / "checkpoints"),
        "output": str(folder / "output"),
        "job_id": JOB_ID,
        "sabotage": sabotage,
        "options": {
            "spark.local.dir": str(folder / "local"),
            **(options or {}),
        },
    }
    ended = run("random_job.py", json.dumps(arguments), log=folder / "log")
    assert ended.code == 0, ended.text[-4000:]
    assert all(Path(entry["token"]).exists() for entry in sabotage), "not all of the sabotage took place"
    assert all(Path(entry["token"] + "-again").exists() for entry in sabotage), "there was no second attempt"
    check_consistent(folder)
    found = re.search(r"^RUNS (.*)$", ended.text, re.MULTILINE)
    assert found is not None, ended.text[-2000:]
    runs: list[int] = json.loads(found[1])
    return runs


def check_consistent(folder: Path) -> None:
    totals: Counter[int] = Counter()
    numbers: Counter[int] = Counter()
    for path in (folder / "output").iterdir():
        assert not path.name.startswith("."), f"{path.name} is left of an attempt that never counted"
        for line in path.read_text().splitlines():
            key, amount, number = map(int, line.split())
            totals[key] += amount
            numbers[number] += 1
    assert numbers == Counter(range(1, NUMBERS + 1)), "each record exactly once"
    assert committed_state(job_directory(folder / "checkpoints", JOB_ID))["sum", "sum"] == dict(totals)


@pytest.mark.timeout(400)
def test_a_killed_worker_lost_shuffle_files_and_a_killed_executor_with_those_it_holds(tmp_path: Path) -> None:
    runs = run_random_job(
        tmp_path,
        [
            {"number": EPOCH + 20, "action": "kill_worker"},
            {"number": 3 * EPOCH + 120, "action": "lose_shuffle"},
            {"number": 4 * EPOCH + 120, "action": "kill_executor"},
        ],
        CLUSTER,
    )
    assert len(runs) == NUMBERS // EPOCH
    # The other subtask had consumed the first attempt of the senders, so that epoch did not fit together.
    assert runs[3] > 1
    assert max(runs) < 4


@WHEN_THOROUGH  # otherwise tasks have twins in the schedules of tests/simulation/test_protocol
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_speculative_twin_overtakes_a_slow_task(tmp_path: Path, cluster: StandaloneCluster) -> None:
    runs = run_random_job(
        tmp_path,
        [{"number": 2 * EPOCH + 120, "action": "dawdle"}],
        {
            "spark.master": cluster.url,
            **SETTINGS,
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
        },
    )
    assert len(runs) == NUMBERS // EPOCH
