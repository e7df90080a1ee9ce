"""A short run of the chaos for files: a worker and the driver are killed while a reader watches the directories.

The long one, with faults drawn from a seed, is ``python -m chaos --job files --minutes 5 --seed 1``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.job_files import FilesVariant, Reader
from chaos.run import Plan, Run, lines_of
from tests.thorough import WHEN_THOROUGH

FAULTS = ("kill_worker", "rescale", "kill_driver")


@WHEN_THOROUGH
@pytest.mark.timeout(900)
def test_files_equal_the_truth_and_nothing_was_visible_too_early(tmp_path: Path) -> None:
    story: list[str] = []
    plan = Plan(seed=1, minutes=1, folder=tmp_path, faults=FAULTS, variant=FilesVariant)
    verdict = Run(plan, story.append).run()
    assert verdict.good, "\n".join([*story, *lines_of(verdict, plan)])
    assert verdict.starts == 2


def test_the_reader_reports_what_is_visible_too_early_and_what_changes(tmp_path: Path) -> None:
    output = tmp_path / "output" / "text"
    output.mkdir(parents=True)
    (output / ".part-1~l~a.inprogress").write_text("seen k 1 7\n")
    reader = Reader(tmp_path)
    reader.look()
    assert reader.problems == []
    (output / "part-1").write_text("seen k 1 7\n")
    reader.look()
    (output / "part-1").write_text("seen k 1 7\nseen k 2 8\n")
    reader.look()
    assert reader.problems == [
        "record 7 was visible when 0 records were committed",
        "output/text/part-1 was read, and has changed since",
    ]
    assert reader.lines["text"].total() == 1
