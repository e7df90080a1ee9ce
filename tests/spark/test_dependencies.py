"""What functions need where they run, brought to Spark's workers: on this machine, and on a cluster of two hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dependency_files import PACKAGE, requirements, zip_of
from tests.spark.processes import Ended, run
from tests.spark.standalone import SETTINGS, StandaloneCluster
from tests.thorough import WHEN_THOROUGH


def run_with(folder: Path, options: dict[str, str], version: str = "1.0") -> Ended:
    """Run the program with everything that it needs."""
    file, cache = requirements(folder, version)
    (folder / "code").mkdir()
    (folder / "code" / "helper.py").write_text("NAME = 'helper'\n")
    given = {
        "options": {"execution.checkpointing.dir": str(folder / "checkpoints"), **options},
        "archive": str(zip_of(folder / "model.zip", {"a.txt": "seven"})),
        "requirements": str(file),
        "cache": str(cache),
        "code": str(folder / "code"),
        "package": PACKAGE,
    }
    return run("dependencies_job.py", json.dumps(given), log=folder / "log", seconds=500)


@WHEN_THOROUGH  # otherwise those of a cluster have them
@pytest.mark.timeout(600)
def test_workers_of_this_machine_have_them(tmp_path: Path) -> None:
    ended = run_with(tmp_path, {"spark.master": "local[2,4]"})
    assert ended.code == 0, ended.text[-4000:]
    assert "RESULT [('seven', '1.0', 'helper', False)]" in ended.text
    assert "AGAIN [('seven', '1.0', 'helper', False)]" in ended.text
    assert "PLACES [True]" in ended.text, "a job without archives runs in the directory of the job before it"
    assert "REFUSED the dependencies of the job cannot be installed on" in ended.text
    assert f"{PACKAGE}==9.9" in ended.text


@pytest.mark.timeout(600)
def test_workers_of_a_cluster_have_them(tmp_path: Path, cluster: StandaloneCluster) -> None:
    ended = run_with(tmp_path, {"spark.master": cluster.url, **SETTINGS}, version="2.0")
    assert ended.code == 0, ended.text[-4000:]
    assert "RESULT [('seven', '2.0', 'helper', False)]" in ended.text
    assert "AGAIN [('seven', '2.0', 'helper', False)]" in ended.text
    assert "REFUSED the dependencies of the job cannot be installed on" in ended.text
