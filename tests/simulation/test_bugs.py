"""Test the tests: each bug that is put into the engine is found within the default number of seeds."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.rules import RULES
from tidemill.testing.simulation import simulation
from tidemill.testing.simulation.simulation import Result, SimulationPlan, draw, report, shrink, simulate

SEEDS = 400
#: Seeds to try first, so that the search is short; any other may find the bug too.
LIKELY = {
    "forget_timers_in_deltas": 2,
    "forget_fired_timers_in_deltas": 35,
    "name_attempts_by_their_task": 3,
    "discard_what_a_newer_lineage_prepared": 3,
    "forget_clocks_on_a_cold_start": 5,
    "drop_tombstones_in_every_merge": 19,
    "load_the_newest_run_only": 3,
    "load_the_first_key_group_only": 2,
    "store_the_position_before_the_epoch": 4,
    "a_takeover_carries_over_what_is_to_be_committed": 31,
    "go_on_after_a_takeover": 33,
    "go_on_from_any_attempt": 46,
    "keep_no_order_of_maps_in_merges": 162,
    "leave_failed_merges_behind": 57,
    "deliver_whatever_the_mark_says": 21,
    "take_marks_of_one_lineage_only": 66,
    "clear_the_log_before_it_is_delivered": 33,
    "clear_a_log_that_is_in_use": 33,
}


#: Where the first fault of the likely seed strikes instead: a bug that shows at few places.
STRIKES = {"take_marks_of_one_lineage_only": 5}


def first_failure(bug: str) -> Result | None:
    for plan in itertools.chain([_likely(bug)], map(draw, range(SEEDS))):
        result = simulate(plan)
        if result.violations:
            return result
    return None


def _likely(bug: str) -> SimulationPlan:
    plan = draw(LIKELY.get(bug, 0))
    if bug not in STRIKES:
        return plan
    first, *others = plan.troubles
    return dataclasses.replace(plan, troubles=(dataclasses.replace(first, skip=STRIKES[bug]), *others))


@pytest.fixture(autouse=True)
def no_reference_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_last_reference", None)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    assert first_failure(bug) is not None


def test_a_failure_is_reported_with_as_few_faults_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = "a_takeover_carries_over_what_is_to_be_committed"
    RULES[bug](monkeypatch)
    failure = first_failure(bug)
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
