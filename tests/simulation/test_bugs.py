"""Test the tests: each bug that is put into the protocol is found within the default number of seeds."""

from __future__ import annotations

import dataclasses

import pytest

from tests.simulation.bugs import BUGS
from tidemill.errors import CheckpointError
from tidemill.testing import simulation
from tidemill.testing.faulty_storage import Fate, FaultyStorage
from tidemill.testing.simulation import Result, draw, report, shrink, simulate
from tidemill.testing.trouble import Trouble
from tidemill.checkpoint.storage import MemoryStorage

SEEDS = 400


def first_failure() -> Result | None:
    for seed in range(SEEDS):
        result = simulate(draw(seed))
        if result.violations:
            return result
    return None


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_last_reference", None)
    BUGS[bug](monkeypatch)
    assert first_failure() is not None
