"""Temporary directories: held while their process lives, swept by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tidemill.runtime.task.scratch import scratch_directory, sweep

HOLD = """
import time
from tidemill.runtime.task.scratch import scratch_directory
root, remove = scratch_directory()
print(root, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_removed_by_its_owner(tmp_path: Path) -> None:
    root, remove = scratch_directory()
    assert root.parent == tmp_path
    (root / "file").write_text("x")
    remove()
    assert list(tmp_path.iterdir()) == []


def test_held_as_long_as_its_owner_lives(tmp_path: Path) -> None:
    root, remove = scratch_directory()
    assert sweep(tmp_path) == []
    assert root.exists()
    remove()


def test_of_a_killed_process_it_is_swept_by_the_next(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            left = Path(holder.stdout.readline().strip())
            assert sweep(tmp_path) == []
        finally:
            os.kill(holder.pid, signal.SIGKILL)
    assert left.exists()
    root, remove = scratch_directory()
    assert not left.exists()
    assert root.exists()
    remove()


def test_a_directory_without_a_lock_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "tidemill-of-the-user").mkdir()
    assert sweep(tmp_path) == []
    assert (tmp_path / "tidemill-of-the-user").exists()
