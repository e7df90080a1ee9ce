"""Programs written for PyFlink print here what they print there, after `tidemill port` has rewritten their imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.corpus import (
    ABOUT,
    DIFFERENT,
    HERE,
    NOT_RUN,
    ON_SPARK,
    PROGRAMS,
    RUN,
    parameters,
    path_of,
    printed,
    recorded,
)
from tidemill.ops.porting.programs import Verdict, port

LOCAL = {"execution.target": "local", "rest.enabled": "false"}


@pytest.mark.parametrize("name", parameters([one for one in RUN if one not in (*ON_SPARK, *DIFFERENT)]))
def test_a_program_prints_what_it_prints_on_pyflink(name: str, tmp_path: Path) -> None:
    assert printed(name, LOCAL, tmp_path) == recorded(name)


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_program_that_is_right_here(name: str, tmp_path: Path) -> None:
    assert printed(name, LOCAL, tmp_path) == ABOUT["differs"][name]["prints"] != recorded(name)


@pytest.mark.parametrize("name", parameters(sorted(ABOUT["only_compiled"])))
def test_a_program_that_needs_a_service_is_compiled(name: str) -> None:
    (report,) = port(path_of(name), ABOUT["arguments"].get(name, ()), static=False, seconds=500)
    assert report.verdict in (Verdict.RUNS, Verdict.DIFFERS), report.findings
    assert report.jobs


@pytest.mark.parametrize("name", sorted(ABOUT["missing"]))
def test_a_program_that_cannot_run_is_told_why(name: str) -> None:
    (report,) = port(path_of(name), (), static=True, seconds=60)
    assert report.verdict is Verdict.MISSING
    assert ABOUT["missing"][name] in [one.name for one in report.findings]


@pytest.mark.parametrize("name", parameters(RUN))
def test_the_analysis_finds_nothing_missing_in_a_program_that_runs(name: str) -> None:
    (report,) = port(path_of(name), (), static=True, seconds=60)
    assert report.verdict in (Verdict.RUNS, Verdict.DIFFERS), report.findings


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 60
    assert len({path_of(name).read_text(encoding="utf-8") for name in PROGRAMS}) == len(PROGRAMS)


def test_every_program_has_its_recording() -> None:
    assert {path.stem for path in (HERE / "recorded").glob("*.txt")} == set(RUN)
    first_lines = [(HERE / "recorded" / f"{name}.txt").read_text(encoding="utf-8").split("\n")[0] for name in RUN]
    assert all(line.startswith("# ") for line in first_lines)


def test_what_is_said_about_programs_is_about_programs_that_exist() -> None:
    named = {*ABOUT["arguments"], *NOT_RUN, *ON_SPARK, *DIFFERENT, *ABOUT["order_is_free"], *ABOUT["expected_failures"]}
    assert named <= set(PROGRAMS)
