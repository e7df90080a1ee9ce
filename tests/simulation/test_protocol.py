"""Thousands of schedules of the epoch protocol: whoever dies, sleeps, repeats or comes late, history stays one line.

``TIDEMILL_SCHEDULES`` says how many are run. For one: ``python -m tests.simulation.protocol_schedules 17``.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.simulation.protocol_schedules import Outcome, Schedules
from tests.simulation.protocol_world import KINDS, Coverage
from tests.simulation.rules import RULES
from tests.thorough import how_many
from tidemill.faults import POINTS
from tidemill.testing.simulation.trouble import WORKER_POINTS

SCHEDULES = int(os.environ.get("TIDEMILL_SCHEDULES", how_many(1_000, 10_000)))
#: Enough schedules for every kind of fault at every place.
ENOUGH = 10_000
#: Seeds to try first, so that the search is short; any other may break the rule too.
LIKELY = {
    "a_claim_looks_whether_it_is_the_last": 12637,
    "the_head_is_found_whatever_a_list_leaves_out": 167,
}


@dataclass
class Everything:
    """What came of all schedules."""

    failed: list[Outcome] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    different: set[int] = field(default_factory=set)
    seconds: float = 0.0


@pytest.fixture(scope="module")
def everything() -> Iterator[Everything]:
    found = Everything()
    gc.collect()
    gc.freeze()  # what other tests left behind is not looked through ten thousand times
    started = time.process_time()
    with Schedules().opened() as schedules:
        for seed in range(SCHEDULES):
            outcome = schedules.run(seed)
            found.coverage.add(outcome.coverage)
            found.different.add(hash((*outcome.world.story, *outcome.world.path)))
            if outcome.violations:
                found.failed.append(outcome)
    found.seconds = time.process_time() - started
    yield found
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.timeout(600 + SCHEDULES // 50)
def test_no_schedule_breaks_an_invariant(everything: Everything) -> None:
    failed = sorted(everything.failed, key=lambda outcome: len(outcome.world.story))
    told = "\n\n".join(outcome.report() for outcome in failed[:2])
    assert not failed, f"{len(failed)} of {SCHEDULES}: seeds {[outcome.world.seed for outcome in failed[:20]]}\n{told}"


@pytest.mark.skipif(SCHEDULES < ENOUGH, reason="coverage is promised for the schedules of make thorough")
class TestCoverage:
    """The schedules are not all the same, and each thing that can go wrong does, everywhere."""

    def test_the_schedules_differ(self, everything: Everything) -> None:
        assert len(everything.different) > 0.95 * SCHEDULES

    def test_the_turn_changes_at_every_place(self, everything: Everything) -> None:
        turns = everything.coverage.turns
        places = {*POINTS} - WORKER_POINTS
        places |= {"create manifests", "write state", "write snapshots", "delete", "read", "exists", "list"}
        assert not [place for place in sorted(places) if turns[place] < 100]

    def test_every_fault_strikes_at_every_place(self, everything: Everything) -> None:
        faults = everything.coverage.faults
        calls = {"create manifests": "create", "write state": "write", "write snapshots": "write"}
        wanted = [(place, kind) for place, of in calls.items() for kind in KINDS[of]]
        wanted += [(place, kind) for place in ("delete", "read", "exists", "list", "commit") for kind in KINDS[place]]
        wanted += [(point, kind) for point in {*POINTS} - WORKER_POINTS for kind in KINDS["point"]]
        assert not [pair for pair in wanted if not faults[pair]]

    def test_everything_that_can_happen_does(self, everything: Everything) -> None:
        happened = everything.coverage.happened
        for what in (
            "a batch is offered again",
            "a driver starts again",
            "a driver was fenced",
            "a late change took effect",
            "a report comes twice",
            "a report is lost",
            "a source has a twin",
            "a straggler writes later",
            "a task fails",
            "a task is tried again",
            "a worker catches up",
            "an epoch was run again",
            "an old report comes again",
            "runs were merged",
        ):
            assert happened[what] > 100, what


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    with Schedules().opened() as schedules:
        seeds = iter((LIKELY.get(rule, 0), *range(ENOUGH)))
        assert any(schedules.run(seed).violations for seed in seeds)


def test_a_seed_gives_the_same_story_every_time() -> None:
    with Schedules().opened() as schedules:
        for seed in (3, 17, 1651):
            first, second = schedules.run(seed).world, schedules.run(seed).world
            assert (first.story, first.path) == (second.story, second.path)
