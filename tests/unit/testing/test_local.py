"""``execution.target: local``: what Spark's workers are given, a job in this process has too."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment


def test_functions_import_the_files_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mill_rates.py").write_text("RATE = 3\n")
    with zipfile.ZipFile(tmp_path / "tolls.zip", "w") as archive:
        archive.writestr("mill_tolls.py", "def toll(n):\n    return n + 0.5\n")

    def priced(number: int) -> float:
        from mill_rates import RATE  # type: ignore[import-not-found]
        from mill_tolls import toll  # type: ignore[import-not-found]

        return float(RATE * toll(number))

    local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    env = StreamExecutionEnvironment.get_execution_environment(local)
    env.add_python_file(str(tmp_path / "mill_rates.py"))
    env.add_python_file(str(tmp_path / "tolls.zip"))
    assert list(env.from_collection([1, 2]).map(priced).execute_and_collect()) == [4.5, 7.5]
