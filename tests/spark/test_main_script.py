"""Classes of the user's main script exist in no module that a worker could import; they work all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.processes import run


@pytest.mark.timeout(300)
def test_records_keys_and_state_of_classes_of_the_main_script(tmp_path: Path) -> None:
    # In one process, so that state of these classes also goes from there to workers.
    first = run("main_classes.py", str(tmp_path / "checkpoints"), "local", log=tmp_path / "first.log")
    assert first.code == 1
    assert "tidemill.errors.UserCodeError: Traceback" in first.text
    assert "half-way" in first.text
    second = run("main_classes.py", str(tmp_path / "checkpoints"), log=tmp_path / "second.log")
    assert second.code == 0, second.text[-3000:]
    assert "EQUAL" in second.text
