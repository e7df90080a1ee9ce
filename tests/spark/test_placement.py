"""On several hosts a subtask goes back to the executor that holds its state, epoch after epoch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.processes import run
from tests.spark.programs.placed_job import EPOCHS, PARALLELISM
from tests.spark.standalone import SETTINGS
from tidemill.spark.placement import assign_slots


def test_slots_are_spread_evenly_and_stay_where_they_are() -> None:
    first = assign_slots(range(5), ["a", "b"], {})
    assert Counter(first.values()) == {"a": 3, "b": 2}
    assert assign_slots(range(5), ["a", "b"], first) == first
    without = assign_slots(range(5), ["b"], first)
    assert set(without.values()) == {"b"}
    grown = assign_slots(range(4), ["b", "c"], dict.fromkeys(range(4), "b"))
    assert Counter(grown.values()) == {"b": 2, "c": 2}
    assert assign_slots(range(3), [], first) == {}


def test_only_slots_in_use_count() -> None:
    """A job with three subtasks on one executor has slots 0 to 2 of many; an executor that comes gets some of those."""
    before = dict.fromkeys(range(9), "a")
    grown = assign_slots([0, 1, 2], ["a", "b"], before)
    assert Counter(grown[slot] for slot in range(3)) == {"a": 2, "b": 1}
    assert {grown[slot] for slot in range(3, 9)} == {"a"}, "what waits there is closed there"
    assert assign_slots([0, 1, 2], ["b"], grown) == dict.fromkeys(range(3), "b")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_subtask_stays_on_its_executor(tmp_path: Path, cluster: str) -> None:
    notes = tmp_path / "notes"
    options = {
        "spark.master": cluster,
        **SETTINGS,
        "spark.locality.wait": "3s",  # a busy machine must not make a subtask move
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    ended = run("placed_job.py", json.dumps({"notes": str(notes), "options": options}), log=tmp_path / "log")
    assert ended.code == 0, ended.text[-4000:]
    assert f"RESULT {[(key, EPOCHS) for key in range(10)]}" in ended.text
    opened = Counter(line.split()[0] for line in notes.read_text().splitlines())
    # Once, and once more if the second executor came up after the first epoch.
    assert len(opened) == PARALLELISM
    assert all(times <= 2 for times in opened.values()), opened
