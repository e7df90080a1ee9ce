"""Every case with its state in RocksDB: what comes out does not depend on the backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.semantics.cases import BAD_CASES, CASES, BadCase, Case, check
from tests.thorough import THOROUGH
from tidemill.errors import TidemillError
from tidemill.testing.job_harness import JobHarness, moving

STREAMING = [case for case in CASES if case.mode == "STREAMING"]


def cases(first: int) -> pytest.MarkDecorator:
    """Every other case, from the first or the second on: each is run in one way, or in both in ``make thorough``."""
    return pytest.mark.parametrize("case", STREAMING if THOROUGH else STREAMING[first::2], ids=lambda case: case.id)


def harness(case: Case | BadCase, directory: Path, **options: Any) -> JobHarness:
    configuration = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(directory),
        "state.backend.rocksdb.cached-values": "2",
        "state.backend.rocksdb.timer-service.cache-size": "2",
    }
    return JobHarness(case.build, configuration=configuration, **options)


@cases(0)
def test_case_on_moving_workers(case: Case, tmp_path: Path) -> None:
    with harness(case, tmp_path, max_records=3, workers=2, placement=moving(2), merge_after=2) as job:
        job.end()
        check(case, job.output())


@cases(1)
def test_case_restored_at_another_parallelism_and_in_memory(case: Case, tmp_path: Path) -> None:
    with harness(case, tmp_path, parallelism=1, max_records=2) as job:
        job.epoch()
        job.restart(parallelism=2)
        if not job.head.finished:
            job.epoch()
            job.restart(configuration={"state.backend.type": "hashmap"})
        job.end()
        check(case, job.output())


@pytest.mark.parametrize("case", BAD_CASES, ids=lambda case: case.id)
def test_bad_case(case: BadCase, tmp_path: Path) -> None:
    with pytest.raises(TidemillError) as caught, harness(case, tmp_path) as job:
        job.end()
    assert type(caught.value) is case.error, str(caught.value)
    for part in case.says:
        assert part in str(caught.value)
