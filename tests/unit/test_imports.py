"""What is loaded when: a name of Tidemill, or help on a command, does not cost the import of Spark or Arrow."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Each takes from a tenth of a second to several seconds to import.
HEAVY = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "fastapi", "rocksdict")
SHOW = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"
HELP = """
import sys
from tidemill.__main__ import main
sys.argv = ["tidemill", *{arguments}]
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""


def loaded_by(program: str) -> str:
    """The heavy packages that a new process has loaded after a program: the last line that it prints."""
    run = subprocess.run(
        [sys.executable, "-c", f"{program}\n{SHOW}"], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1]


@pytest.mark.parametrize("module", ["tidemill", "tidemill.datastream", "tidemill.common", "tidemill.__main__"])
def test_an_import_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}") == "[]"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["state", "get", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(HELP.format(arguments=arguments)) == "[]"


def test_what_is_loaded_is_seen() -> None:
    assert "'pyarrow'" in loaded_by("from tidemill.state_processor import read")


def test_a_job_without_spark_loads_what_it_needs_and_no_more() -> None:
    unneeded = ("pyspark", "py4j", "fastapi", "uvicorn", "rich", "typer", "obstore", "confluent_kafka", "asyncio")
    program = f"""
import sys
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment

configuration = Configuration.from_dict({{"execution.target": "local"}})
env = StreamExecutionEnvironment.get_execution_environment(configuration)
with env.from_collection(["a", "b", "a"]).key_by(lambda word: word).reduce(max).execute_and_collect() as results:
    assert len(list(results)) == 3
found = [name for name in {unneeded} if name in sys.modules]
assert not found, found
"""
    loaded_by(program)
