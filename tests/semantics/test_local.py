"""Every case in the local engine: in epochs of any size, at any parallelism, on moving workers, after a rescale."""

from __future__ import annotations

from typing import Any

import pytest

from tests.semantics.cases import BAD_CASES, CASES, BadCase, Case, check
from tests.thorough import THOROUGH
from tidemill.errors import TidemillError
from tidemill.testing.job_harness import JobHarness, moving

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def harness(case: Case | BadCase, **options: Any) -> JobHarness:
    mode = case.mode if isinstance(case, Case) else "STREAMING"
    return JobHarness(case.build, configuration={"execution.runtime-mode": mode}, **options)


#: All at once, and each record alone; in between is what the tests below run.
WIDTHS = [(1, 1000), (3, 1), *([(2, 3)] if THOROUGH else [])]


@pytest.mark.parametrize(("parallelism", "max_records"), WIDTHS)
@each_case
def test_case(case: Case, parallelism: int, max_records: int) -> None:
    with harness(case, parallelism=parallelism, max_records=max_records) as job:
        job.end()
        check(case, job.output())


@each_case
def test_case_on_moving_workers(case: Case) -> None:
    with harness(case, max_records=1, workers=3, placement=moving(3), merge_after=2) as job:
        job.end()
        check(case, job.output())


@each_case
def test_case_restored_at_another_parallelism(case: Case) -> None:
    with harness(case, parallelism=3, max_records=2) as job:
        for parallelism in (2, 3, 1):
            if not job.head.finished:
                job.epoch()
            job.restart(parallelism=parallelism)
        job.end()
        check(case, job.output())


@pytest.mark.parametrize("case", BAD_CASES, ids=lambda case: case.id)
def test_bad_case(case: BadCase) -> None:
    with pytest.raises(TidemillError) as caught, harness(case) as job:
        job.end()
    message = str(caught.value)
    assert type(caught.value) is case.error, message
    for part in case.says:
        assert part in message, f"{part!r} is not in:\n{message}"
    if case.says[0].startswith("Traceback"):
        assert message.startswith("Traceback"), message


def test_ids_are_unique() -> None:
    ids = [case.id for case in CASES] + [case.id for case in BAD_CASES]
    assert len(ids) == len(set(ids))
