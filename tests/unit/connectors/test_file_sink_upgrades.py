"""Savepoints with open part files that earlier versions have taken are restored, and no record is lost or repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.fixtures.file_sinks.make import EPOCHS, SECONDS, build
from tidemill.testing import JobHarness
from tidemill.testing.scripted_source import Script

FIXTURES = Path(__file__).parents[2] / "fixtures" / "file_sinks"
LATER = ["a4", "b3", "d1"]


@pytest.mark.parametrize("version", sorted(path.name for path in FIXTURES.glob("v*")))
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_savepoint_of_each_version_is_restored(version: str, parallelism: int, tmp_path: Path) -> None:
    (saved,) = (FIXTURES / version).glob("savepoint-*")
    out = tmp_path / "out"
    shutil.copytree(FIXTURES / version / "out", out)
    script = Script()
    for words in EPOCHS:
        script.add(words)

    def visible(name: str) -> list[Path]:
        return [path for path in (out / name).rglob("[!.]*") if path.is_file()]

    def words_in(name: str) -> list[str]:
        return sorted(word for path in visible(name) for word in path.read_text().split())

    with JobHarness(
        lambda env, words: build(env, words, out),
        inputs={"words": script},
        configuration={"execution.state-recovery.path": str(saved), "pipeline.max-parallelism": "8"},
        processing_time=5 * SECONDS,
        parallelism=parallelism,
    ) as job:
        assert words_in("rows") == []
        job.set_processing_time(63 * SECONDS)
        while job.due:
            job.epoch()
        before = sorted(word for words in EPOCHS for word in words)
        assert words_in("rows") == before
        job.epoch(words=LATER)
        job.end()
    assert words_in("rows") == words_in("merged") == sorted([*before, *LATER])
    found = [row["word"] for path in visible("parquet") for row in pq.read_table(path).to_pylist()]
    assert sorted(found) == sorted([*before, *LATER])
    assert not [path for path in out.rglob(".*") if path.is_file()]
