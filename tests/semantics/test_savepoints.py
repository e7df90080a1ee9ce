"""A job that starts from a savepoint gives what the job it was taken of would have given.

It may have another parallelism and another backend, and the savepoint may lie elsewhere by then.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.savepoints.program import EPOCHS, SAVED_AFTER, build
from tests.semantics.case import shown
from tests.thorough import THOROUGH
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.datastream import TimeDomain
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving

FIXTURES = Path(__file__).parents[1] / "fixtures" / "savepoints"


def harness(backend: str, parallelism: int, start_from: str = "", **options: Any) -> JobHarness:
    configuration = {"state.backend.type": backend, "state.inline-delta-size": "1kb"}
    if start_from:
        configuration["execution.state-recovery.path"] = start_from
    return JobHarness(
        build,
        **{"inputs": ["events", "rules"], **options},
        configuration=configuration,
        parallelism=parallelism,
        workers=3,
    )


def told(job: JobHarness) -> Counter[str]:
    return Counter(map(shown, job.output()))


@pytest.fixture(scope="module")
def whole() -> tuple[Counter[str], Counter[str]]:
    """What a job gives that is not interrupted: until savepoints are taken, and afterwards."""
    with harness("hashmap", 2) as job:
        for epoch in EPOCHS[:SAVED_AFTER]:
            job.epoch(**epoch)
        before = told(job)
        for epoch in EPOCHS[SAVED_AFTER:]:
            job.epoch(**epoch)
        job.end()
        return before, told(job) - before


#: From one backend and parallelism to another.
MOVES = [(("hashmap", 2), ("rocksdb", 3)), (("rocksdb", 2), ("hashmap", 1))]
if THOROUGH:
    MOVES += [(("rocksdb", 3), ("rocksdb", 2)), (("hashmap", 1), ("hashmap", 7))]


@pytest.mark.parametrize(
    ("before", "after"),
    MOVES,
)
def test_another_backend_another_parallelism_another_place(
    before: tuple[str, int], after: tuple[str, int], whole: tuple[Counter[str], Counter[str]], tmp_path: Path
) -> None:
    storage = LocalStorage(tmp_path / "job", durable=False)
    with harness(*before, storage=storage) as first:
        for epoch in EPOCHS[:SAVED_AFTER]:
            first.epoch(**epoch)
        path = first.savepoint(tmp_path / "saved")
        timers = {domain: first.timers("everything", domain) for domain in TimeDomain}
    shutil.copytree(path, tmp_path / "moved")
    shutil.rmtree(tmp_path / "saved")
    shutil.rmtree(tmp_path / "job")
    with harness(*after, str(tmp_path / "moved"), inputs=first.inputs, placement=moving(3)) as second:
        assert {domain: second.timers("everything", domain) for domain in TimeDomain} == timers
        for epoch in EPOCHS[SAVED_AFTER:]:
            second.epoch(**epoch)
        second.end()
        # How far time is in an epoch depends on the parallelism, and so when a window fires; not what is in it.
        assert told(first) + told(second) == whole[0] + whole[1]


def test_a_savepoint_of_a_job_that_began_with_one(whole: tuple[Counter[str], Counter[str]], tmp_path: Path) -> None:
    path, inputs, output = "", None, Counter[str]()
    for number, epoch in enumerate(EPOCHS):
        with harness("hashmap", 1 + number % 3, path, **({"inputs": inputs} if inputs else {})) as job:
            job.epoch(**epoch)
            if number == len(EPOCHS) - 1:
                job.end()
            output += told(job)
            inputs = job.inputs
            path = job.savepoint(tmp_path)
    assert output == whole[0] + whole[1]


# --- savepoints that earlier versions have taken


@pytest.mark.parametrize("version", sorted(path.name for path in FIXTURES.glob("v*")))
@pytest.mark.parametrize(("backend", "parallelism"), [("hashmap", 1), ("hashmap", 3), ("rocksdb", 2)])
def test_savepoints_of_earlier_versions_are_read(
    version: str, backend: str, parallelism: int, whole: tuple[Counter[str], Counter[str]]
) -> None:
    (path,) = (FIXTURES / version).glob("savepoint-*")
    with harness(backend, parallelism) as job:
        inputs = job.inputs
    for epoch in EPOCHS[:SAVED_AFTER]:
        for name, records in epoch.items():
            inputs[name].add(records)
    with harness(backend, parallelism, str(path), inputs=inputs) as job:
        assert job.head.epoch == SAVED_AFTER
        for epoch in EPOCHS[SAVED_AFTER:]:
            job.epoch(**epoch)
        job.end()
        expected = Counter((FIXTURES / version / "expected.txt").read_text(encoding="utf-8").splitlines())
        assert told(job) == expected
        assert expected == whole[1]
