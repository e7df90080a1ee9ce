"""Test the tests: each bug that is put into the protocol is found within the default number of seeds."""

from __future__ import annotations

import dataclasses

import pytest

from tests.simulation.bugs import BUGS
from tidemill.testing import simulation
from tidemill.testing.simulation import Result, draw, report, shrink, simulate

SEEDS = 400


def first_failure() -> Result | None:
    for seed in range(SEEDS):
        result = simulate(draw(seed))
        if result.violations:
            return result
    return None


@pytest.fixture(autouse=True)
def no_reference_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_last_reference", None)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    assert first_failure() is not None


def test_a_failure_is_told_with_as_few_faults_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["forget_what_a_former_driver_left_to_commit"](monkeypatch)
    failure = first_failure()
    assert failure is not None
    more = dataclasses.replace(failure.plan, troubles=(*failure.plan.troubles, *failure.plan.troubles[:1]))
    smallest = shrink(simulate(more))
    assert len(smallest.plan.troubles) == 1
    told = report(smallest)
    for words in (
        f"seed {failure.plan.seed}",
        f"shape {failure.plan.shape}",
        "broken:",
        "story:",
        "a driver took over",
    ):
        assert words in told
