"""The settings of a Spark session that Tidemill makes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.spark.session.session import private_directory, settings_for


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)


@pytest.mark.parametrize("master", ["local[2]", "local[*,4]", "local-cluster[2,1,1024]"])
def test_what_spark_writes_on_this_machine_is_private(master: str) -> None:
    directory = Path(settings_for(master, {})["spark.local.dir"])
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.stat().st_uid == os.getuid()


def test_a_directory_that_was_chosen_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_for("local[2]", {"spark.local.dir": "/fast"})["spark.local.dir"] == "/fast"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/faster")
    assert "spark.local.dir" not in settings_for("local[2]", {})


def test_workers_elsewhere_have_their_own() -> None:
    assert "spark.local.dir" not in settings_for("spark://host:7077", {})


def test_all_sessions_of_a_process_share_one_and_it_goes_with_the_process(tmp_path: Path) -> None:
    assert private_directory() == private_directory()
    code = (
        "import os, sys\nfrom tidemill.spark.session.session import private_directory\n"
        "directory = private_directory()\n(directory / 'blockmgr').mkdir()\nprint(directory, flush=True)\n"
        "pid = os.fork()\nif pid == 0: sys.exit()\n"
        "os.waitpid(pid, 0)\nassert directory.exists()\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert Path(ended.stdout.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == []
