"""Whatever happens to a job, in whatever order, its output and state are those of the job to which nothing happens.

A failure names the seed and shows the smallest sequence that still differs. For one seed:
``python -c "from tests.simulation.sequences import check; check(17)"``.
"""

from __future__ import annotations

import pytest

from tests.simulation.sequence_programs import PROGRAMS
from tests.simulation.sequences import check, differences, draw
from tests.thorough import THOROUGH, WHEN_THOROUGH, how_many
from tidemill.state.rocksdb.store import Store

#: Of the first hundred, those in which a worker finds rows of a killed one that stand for no version.
FEW = (4, 17, 51)
MANY = range(500)
AT_ONCE = 25


@pytest.mark.parametrize("seed", FEW)
def test_a_few_sequences(seed: int) -> None:
    check(seed)


@WHEN_THOROUGH
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, len(MANY), AT_ONCE) if THOROUGH else [0])
def test_many_sequences(first: int) -> None:
    for seed in MANY[first : first + AT_ONCE]:
        check(seed)


def test_the_first_sequences_hold_all_programs_and_all_that_can_happen() -> None:
    drawn = [draw(seed) for seed in range(100)]
    assert {program for sequence in drawn for program in sequence.programs} == {*PROGRAMS}
    happened = {step.what for sequence in drawn for step in sequence.steps}
    assert happened == {
        *("kill", "kill unflushed", "rescale", "restart", "crash", "backend", "savepoint", "merge after"),
    }


def test_rows_of_no_version_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sequences catch what they are made for: a worker that continues with whatever it finds on its disk."""

    def reopen(self: Store) -> None:
        self._open()
        self._read_meta()

    monkeypatch.setattr(Store, "_reopen", reopen)
    assert all(differences(draw(seed)) for seed in FEW[: how_many(1, len(FEW))])
