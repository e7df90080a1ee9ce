"""Where a program runs that does not say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.common import Configuration
from tidemill.datastream.program.target import target_of

PROGRAM = """
from tidemill.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
with env.from_collection([1, 2]).map(lambda number: number + 1).execute_and_collect() as results:
    print(sorted(results))
"""


#: No package of this name can be found or imported afterwards.
WITHOUT_PYSPARK = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in ("pyspark", "py4j") else find(name, *rest)
"""


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def test_spark_is_the_default_where_there_is_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert target_of(Configuration()) == "spark"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java.parent))
    assert target_of(Configuration()) == "spark"


@pytest.mark.usefixtures("without_java")
def test_what_a_program_says_counts() -> None:
    assert target_of(Configuration().set_string("execution.target", "spark")) == "spark"
    assert target_of(Configuration().set_string("spark.master", "local[2]")) == "spark"
    assert target_of(Configuration()) == "local"


def test_a_program_runs_without_pyspark_and_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WITHOUT_PYSPARK + PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "job.py")], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "[2, 3]\n"
    assert done.stderr == (
        "PySpark is not installed (pip install 'tidemill[spark]'): the job runs in this process, as with "
        "execution.target: local (docs/local.md)\n"
    )


@pytest.mark.usefixtures("without_java")
def test_a_program_runs_without_java_and_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "job.py")], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "[2, 3]\n"
    assert done.stderr == (
        "no Java was found, which Spark needs: the job runs in this process, as with execution.target: local "
        "(docs/local.md)\n"
    )
