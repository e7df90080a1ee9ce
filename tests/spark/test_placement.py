"""On several hosts a subtask goes back to the executor that holds its state, epoch after epoch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.processes import run
from tests.spark.programs.placed_job import EPOCHS, PARALLELISM
from tests.spark.standalone import SETTINGS


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_subtask_stays_on_its_executor(tmp_path: Path, cluster: str) -> None:
    notes = tmp_path / "notes"
    options = {
        "spark.master": cluster,
        **SETTINGS,
        "spark.locality.wait": "60s",  # a busy machine must not make a subtask move
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    ended = run("placed_job.py", json.dumps({"notes": str(notes), "options": options}), log=tmp_path / "log")
    assert ended.code == 0, ended.text[-4000:]
    assert f"RESULT {[(key, EPOCHS) for key in range(10)]}" in ended.text
    opened = Counter(line.split()[0] for line in notes.read_text().splitlines())
    # Once, and once more if the second executor came up after the first epoch.
    assert len(opened) == PARALLELISM
    assert all(times <= 2 for times in opened.values()), opened
