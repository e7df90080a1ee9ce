"""`tidemill port`: what it prints and writes, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tidemill.ops.cli.failures import CommandExit

GOOD = """\
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
env.execute('good')
"""
BAD = "from pyflink.table import TableEnvironment\nTableEnvironment.create()\n"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    (folder / "deep").mkdir(parents=True)
    (folder / "good.py").write_text(GOOD)
    (folder / "deep" / "bad.py").write_text(BAD)
    (folder / "plain.py").write_text("x = 1\n")
    return folder


def test_a_report_with_the_changes(tidemill: Tidemill, programs: Path) -> None:
    result = tidemill("port", programs / "good.py")
    assert result.exit_code == 0, result.stderr
    assert f"{programs / 'good.py'}: runs as it is (1 job, 2 operators)\n" in result.stdout
    assert "-from pyflink.datastream import" in result.stdout
    assert "+from tidemill.datastream import" in result.stdout
    assert result.stdout.endswith("1 file: 1 run as they are\n")
    assert (programs / "good.py").read_text() == GOOD


def test_a_check(tidemill: Tidemill, programs: Path) -> None:
    assert tidemill("port", "--check", programs / "good.py").exit_code == 0
    result = tidemill("port", "--check", programs)
    assert result.exit_code == 1
    assert "line 1: missing: pyflink.table.TableEnvironment: use a DataFrame" in result.stdout
    assert "+from tidemill" not in result.stdout
    assert tidemill("port", programs, "--static").exit_code == 0


def test_json(tidemill: Tidemill, programs: Path) -> None:
    result = tidemill("port", "--timeout", "500", "--json", programs)
    bad, good = json.loads(result.stdout)["programs"]
    assert (bad["verdict"], good["verdict"]) == ("missing", "runs")
    assert good["jobs"] == [{"name": "good", "operators": 2}]
    assert good["rewritten_lines"] == [1]
    assert bad["findings"][0]["line"] == 1


def test_in_place(tidemill: Tidemill, programs: Path) -> None:
    result = tidemill("port", "-i", "--static", programs)
    assert result.exit_code == 0, result.stderr
    assert (programs / "good.py").read_text() == GOOD.replace("pyflink", "tidemill")
    again = tidemill("port", "-i", programs)
    assert (again.exit_code, "imports pyflink" in again.stderr) == (CommandExit.NOT_FOUND, True)


def test_to_a_directory(tidemill: Tidemill, programs: Path, tmp_path: Path) -> None:
    assert tidemill("port", "-o", tmp_path / "out", "--static", programs).exit_code == 0
    written = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_text() for path in (tmp_path / "out").rglob("*.py")
    }
    assert written == {
        "good.py": GOOD.replace("pyflink", "tidemill"),
        "deep/bad.py": BAD.replace("pyflink", "tidemill"),
        "plain.py": "x = 1\n",
    }
    assert (programs / "good.py").read_text() == GOOD
    assert tidemill("port", "-o", tmp_path / "one", "--static", programs / "good.py").exit_code == 0
    assert (tmp_path / "one" / "good.py").exists()


def test_arguments_of_the_program(tidemill: Tidemill, programs: Path) -> None:
    (programs / "good.py").write_text(f"import sys\nassert sys.argv[1:] == ['--name', 'a b'], sys.argv\n{GOOD}")
    assert (
        "runs as it is" in tidemill("port", "--timeout", "500", "--args", "--name 'a b'", programs / "good.py").stdout
    )


@pytest.mark.parametrize("options", [("-i", "-o", "out"), ("--args", "'open"), ("--timeout", "0")])
def test_what_makes_no_sense(tidemill: Tidemill, programs: Path, options: tuple[str, ...]) -> None:
    assert tidemill("port", *options, programs).exit_code == CommandExit.USAGE


def test_the_directory_of_the_programs_is_not_for_the_output(tidemill: Tidemill, programs: Path) -> None:
    result = tidemill("port", "-o", programs, "--static", programs)
    assert (result.exit_code, "--in-place" in result.stderr) == (CommandExit.USAGE, True)
    assert (programs / "good.py").read_text() == GOOD
