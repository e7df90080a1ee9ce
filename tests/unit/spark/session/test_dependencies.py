"""Files of a job on their way to Spark's workers, which share a directory for each executor."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkFiles

from tests.dependency_files import PACKAGE, requirements, zip_of
from tests.unit.runtime.plans import bundle
from tests.unit.runtime.task.test_warm import build
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.datastream.program.dependencies import Archive, Dependencies, Requirements
from tidemill.errors import ConfigurationError
from tidemill.runtime.task.delivery import Packed, pack
from tidemill.spark.jobs.worker import WorkerProcess
from tidemill.spark.session import dependencies as module
from tidemill.spark.session.dependencies import bring, install_everywhere, installed_here


class Executor:
    """A context with one executor, whose files are in ``root``. Tasks run at once, in this process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python_files: list[str] = []
        self._items: list[Any] = []

    def addPyFile(self, path: str) -> None:
        self.python_files.append(path)

    def addFile(self, path: str) -> None:
        shutil.copyfile(path, self.root / Path(path).name)

    def parallelize(self, items: Iterable[int], slices: int) -> Executor:
        self._items = list(items)
        return self

    def mapPartitions(self, function: Callable[[Iterator[Any]], Iterator[Any]]) -> Executor:
        sent = pickle.loads(pickle.dumps(function))
        self._items = [one for item in self._items for one in sent(iter([item]))]
        return self

    def distinct(self) -> Executor:
        return self

    def collect(self) -> list[Any]:
        return self._items


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    root = tmp_path / "executor"
    root.mkdir()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(root))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(module, "executors_of", lambda context: [])
    home, path = Path.cwd(), list(sys.path)
    yield Executor(root)
    os.chdir(home)
    sys.path[:] = path


def packed(folder: Path, **others: Any) -> Packed:
    archive = folder / "model.zip"
    if not archive.exists():
        zip_of(archive, {"a.txt": "seven"})
    return pack(Dependencies(archives=(Archive(str(archive), "model"),), **others), lambda: folder / "packed")


def test_directories_are_sent_as_archives_and_other_files_as_they_are(tmp_path: Path, executor: Any) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "helper_of_a_directory.py").write_text("NAME = 'helper'\n")
    files = (str(tmp_path / "code"), "/elsewhere/single.py", "hdfs://host/code.zip")
    given = packed(tmp_path, files=files)
    bring(executor, files, given)
    assert executor.python_files == ["/elsewhere/single.py", "hdfs://host/code.zip"]
    found = installed_here(given.delivery)
    assert [(path / "helper_of_a_directory.py").is_file() for path in found.imports] == [True]
    assert found.directory is not None
    assert (found.directory / "model" / "a.txt").read_text() == "seven"


def test_what_is_installed_once_is_used_by_all_workers_of_the_executor(tmp_path: Path, executor: Any) -> None:
    given = packed(tmp_path)
    bring(executor, (), given)
    install_everywhere(executor, given.delivery)
    for file in executor.root.glob("*.zip"):
        file.unlink()
    assert installed_here(given.delivery).directory is not None


def test_the_same_files_are_packed_once(tmp_path: Path, executor: Any) -> None:
    file, cache = requirements(tmp_path)
    given = [packed(tmp_path, requirements=Requirements(str(file), str(cache))) for _ in range(2)]
    assert given[0] == given[1]
    before = {path: path.stat().st_mtime_ns for path in given[0].files.values()}
    assert len(before) == 2
    packed(tmp_path, requirements=Requirements(str(file), str(cache)))
    assert {path: path.stat().st_mtime_ns for path in given[0].files.values()} == before
    (cache / "another.txt").write_text("more")
    other = packed(tmp_path, requirements=Requirements(str(file), str(cache)))
    assert other.delivery.name != given[0].delivery.name


def test_packages_that_cannot_be_installed_are_an_error_of_the_host(tmp_path: Path, executor: Any) -> None:
    file, cache = requirements(tmp_path)
    file.write_text(f"{PACKAGE}==9.9\n")
    given = packed(tmp_path, requirements=Requirements(str(file), str(cache)))
    bring(executor, (), given)
    with pytest.raises(ConfigurationError, match=rf"(?s)cannot be installed on \S+: .*{PACKAGE}==9\.9"):
        install_everywhere(executor, given.delivery)


def test_a_worker_enters_the_directory_of_the_job_whose_task_it_runs(tmp_path: Path, executor: Any) -> None:
    home = Path.cwd()
    plain = bundle(build, LocalStorage(tmp_path / "storage"))
    given = packed(tmp_path)
    bring(executor, (), given)
    with_archive = replace(plain, job_id="other", dependencies=given.delivery)
    jobs = [SimpleNamespace(value=(name, pickle.dumps(job))) for name, job in (("a", plain), ("b", with_archive))]
    process = WorkerProcess()
    places = []
    for job in (jobs[0], jobs[1], jobs[1], jobs[0]):
        process.bundle(job)
        places.append(Path("model/a.txt").is_file())
    assert places == [False, True, True, False]
    assert Path.cwd() == home
