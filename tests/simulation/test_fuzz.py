"""Random programs give what plain sequential Python gives, whatever happens to the job while they run.

``make thorough`` draws new ones for ``TIDEMILL_FUZZ_SECONDS`` (600). A failing seed is shown with its smallest case;
``python -m tests.simulation.fuzz SEED`` runs it again. ``TIDEMILL_FUZZ_WITHOUT`` leaves kinds of things out, see
``fuzz_draw.SWITCHES``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Final

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.fuzz import report
from tests.simulation.fuzz_draw import SWITCHES, draw
from tests.simulation.fuzz_program import Case, is_valid, leaves
from tests.simulation.fuzz_run import Verdict, check
from tests.simulation.fuzz_shrink import shrink
from tests.thorough import THOROUGH, WHEN_THOROUGH, how_many

SEEDS: Final = how_many(12, 30)
SECONDS: Final = float(os.environ.get("TIDEMILL_FUZZ_SECONDS", "600"))
#: Failing cases that are made small; the others are listed.
_SHOWN: Final = 2


def failures(verdicts: dict[int, Verdict], seconds: float = 60.0) -> str:
    """What is wrong, with the smallest cases of the first."""
    failed = [seed for seed, verdict in verdicts.items() if verdict.problem is not None]
    shown = [report(seed, draw(seed), seconds) for seed in failed[:_SHOWN]]
    return "\n\n".join([f"{len(failed)} of {len(verdicts)} seeds: {failed}", *shown])


def test_some_programs_mean_what_they_say() -> None:
    verdicts = {seed: check(draw(seed)) for seed in range(SEEDS)}
    assert not [verdict for verdict in verdicts.values() if verdict.problem is not None], failures(verdicts)
    compared = Counter(how for verdict in verdicts.values() for how in verdict.compared.values())
    assert compared["not at all"] < 0.4 * compared.total(), "too little is comparable"
    assert compared["in order"] > 0.1 * compared.total()
    events = sum((verdict.events for verdict in verdicts.values()), Counter[str]())
    assert events.total() > SEEDS / 2
    assert sum(verdict.results for verdict in verdicts.values()) > 20 * SEEDS


@WHEN_THOROUGH
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 600)
def test_many_programs_mean_what_they_say() -> None:
    seed = int.from_bytes(os.urandom(4), "big") if THOROUGH else 0
    verdicts: dict[int, Verdict] = {}
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        verdicts[seed] = check(draw(seed))
        seed += 1
        if sum(verdict.problem is not None for verdict in verdicts.values()) > _SHOWN:
            break
    assert not [verdict for verdict in verdicts.values() if verdict.problem is not None], failures(verdicts)


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_leaves_out_nothing_else(switch: str) -> None:
    some, all_of_them = (
        Counter(node.kind for seed in range(200) for node in draw(seed, frozenset(without)).program)
        for without in ([switch], [])
    )
    assert set(some) == set(all_of_them)


def test_drawn_programs_are_valid_and_small_changes_keep_them_so() -> None:
    for seed in range(100):
        case = draw(seed)
        assert is_valid(case.program)
        assert leaves(case.program)
        assert sum(sum(sizes) for sizes, _ in case.epochs) == sum(map(len, case.input))


def test_a_seed_is_the_same_case_with_the_same_verdict_in_every_process() -> None:
    code = (
        "import hashlib, logging; logging.disable(logging.WARNING)\n"
        "from tests.simulation.fuzz_draw import draw\nfrom tests.simulation.fuzz_run import check\n"
        "print(hashlib.sha256(repr([(draw(seed), check(draw(seed))) for seed in (3, 5)]).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    here = repr([(draw(seed), check(draw(seed))) for seed in (3, 5)])
    assert there.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


#: Bugs of the engine, each with a seed to try first, so that the search is short.
FOUND: Final = {
    "forget_timers_in_deltas": 60,
    "forget_fired_timers_in_deltas": 60,
    "forget_to_fold": 35,
    "load_the_newest_run_only": 24,
    "merge_the_newest_first": 10,
}
_ENOUGH: Final = 60


@pytest.mark.parametrize("bug", FOUND)
def test_a_bug_of_the_engine_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    assert any(check(draw(seed)).problem is not None for seed in (FOUND[bug], *range(_ENOUGH)))


def test_a_failing_case_gets_small() -> None:
    """What fails here is any program with a window behind a filter, records of key "a" in all inputs, and a restart."""

    def fails(case: Case) -> bool:
        windows = [node for node in case.program if node.kind == "window"]
        filters = [node for node in windows if case.program[node.inputs[0]].kind == "filter"]
        with_a = all(any(raw.k == "a" for raw in raws) for raws in case.input)
        return bool(filters) and with_a and any(event[:1] == ("restart",) for _, event in case.epochs)

    seed = next(seed for seed in range(10_000) if fails(draw(seed)))
    small = shrink(draw(seed), fails)
    assert [node.kind for node in small.program] == ["source", "filter", "window"]
    assert [len(raws) for raws in small.input] == [1]
    assert len(small.epochs) == 1
