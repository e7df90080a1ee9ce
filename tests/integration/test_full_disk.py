"""A disk that is really full: the error says so, nothing is lost, and the job continues when there is room again."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.full_disk import SMALL

ROOT = Path(__file__).parents[2]

ROCKSDB = ["the disk of", "is full", "'last'", "state.backend.rocksdb.localdir"]
#: What the error must say: which file or operator, why, and what to do.
TOLD = {
    ("checkpoints", "filled"): ["cannot write", "/job/", "No space left on device", "free some space"],
    ("checkpoints", "limited"): ["cannot write", "/job/", "File too large"],
    ("rocksdb", "filled"): ROCKSDB,
    ("rocksdb", "limited"): ROCKSDB,
}


def run(command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    return subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def file_system(directory: Path, command: str) -> str:
    """A command in a file system of its own, which only it sees, and which goes with it."""
    mount = f"mount -t tmpfs -o size={SMALL} tmpfs {shlex.quote(str(directory))}"
    return f"unshare --user --map-root-user --mount sh -c {shlex.quote(f'{mount} && {command}')}"


@pytest.mark.parametrize(("kind", "way"), TOLD)
def test_a_job_on_a_full_disk(kind: str, way: str, tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-m", "tests.integration.full_disk", kind, way, str(tmp_path)])
    if way == "filled":
        if run(file_system(tmp_path, "true")).returncode:
            pytest.skip("no file system may be mounted here")
        command = file_system(tmp_path, command)
    ended = run(command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [word for word in TOLD[kind, way] if word not in ended.stdout] == [], ended.stdout
