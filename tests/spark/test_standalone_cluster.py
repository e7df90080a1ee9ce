"""A job on a real cluster, with the command line as its user: the commands are those of docs/deployment.md.

The truth is known at any time: passes are numbered from 0 without a gap, each is one line of the output, and what a car
owes grows by the toll of each of its passes, once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
import yaml

from tests.docs.markdown_blocks import blocks_of
from tests.spark.processes import PROGRAMS, ROOT, alive, child_environment, run
from tests.spark.programs.placed_job import EPOCHS, PARALLELISM
from tests.spark.programs.tolls.shared.passes import pass_at
from tests.spark.programs.tolls.tariffs import toll
from tests.spark.standalone import HOSTS, SETTINGS, StandaloneCluster
from tests.thorough import WHEN_THOROUGH
from tests.waiting import eventually

GUIDE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
FIRST, SECOND, THIRD = *HOSTS, "127.0.0.4"
SECONDS = 300.0


@dataclass(frozen=True)
class Line:
    """One line of the job's output."""

    car: str
    number: int
    total: int
    host: str
    subtask: int


class Desk:
    """Where the operator of a job sits: a directory with the program and the guide's settings, and the command line."""

    def __init__(self, folder: Path, master: str) -> None:
        shutil.copytree(PROGRAMS / "tolls", folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "toll_job.py").rename(folder / "job.py")
        self.folder = folder
        self.output = folder / "output"
        self._names = {"spark://master.example.org:7077": master, "driver.example.org": "127.0.0.1"}
        (written,) = (block for block in blocks_of(GUIDE) if block.info == "yaml settings")
        self._settings = yaml.safe_load(written.text)
        for port in ("spark.driver.port", "spark.driver.blockManager.port"):
            del self._settings[port]  # others may have it
        self.configure(
            {
                **SETTINGS,
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
                "state.backend.rocksdb.localdir": str(folder / "local"),
                "rest.bind-port": "0",
                "execution.epoch.min-interval": "500 ms",  # epochs that nobody waits for cost the others their cores
            }
        )

    def configure(self, options: Mapping[str, str]) -> None:
        """Change the file of settings."""
        self._settings.update(options)
        (self.folder / "settings.yaml").write_text(yaml.safe_dump(self._settings))

    def do(self, beginning: str, *arguments: object, **names: str) -> str:
        """Do what the guide says in a line that begins so, with more arguments for the program; what is printed."""
        blocks = [block.text.replace("\\\n", "") for block in blocks_of(GUIDE) if block.info == "sh story"]
        (command,) = (line for text in blocks for line in text.splitlines() if line.startswith(beginning))
        for name, value in {**self._names, **names}.items():
            command = command.replace(name, value)
        ended = subprocess.run(
            [*shlex.split(command), *map(str, arguments)],
            cwd=self.folder,
            env={
                **child_environment(),
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "TIDEMILL_CONF": str(self.folder / "settings.yaml"),
                "XDG_STATE_HOME": str(self.folder / "state"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert ended.returncode == os.EX_OK, f"{command}: {ended.stdout[-2000:]} {ended.stderr[-4000:]}"
        return ended.stdout

    def lines(self) -> list[Line]:
        """All that is visible now."""
        found = []
        for path in self.output.glob("part-*"):
            for line in path.read_text().splitlines():
                car, number, total, host, subtask = line.split()
                found.append(Line(car, int(number), int(total), host, int(subtask)))
        return found

    def await_lines(self, enough: Callable[[list[Line]], bool]) -> None:
        """Wait until the lines of passes that are not there yet are enough."""
        known = {line.number for line in self.lines()}
        eventually(
            lambda: enough([line for line in self.lines() if line.number not in known]),
            SECONDS,
            shown=lambda: f"some of the lines: {self.lines()[-5:]}",
        )

    def lists_it_as_running(self) -> bool:
        """Whether the job is in the list, as one that runs."""
        return bool(re.search(r"orders .*RUNNING", self.do("tidemill list")))


def places(*wanted: tuple[str, int]) -> Callable[[list[Line]], bool]:
    """Whether there are lines of all these subtasks on these hosts."""
    return lambda lines: {(line.host, line.subtask) for line in lines} >= set(wanted)


def check_truth(lines: list[Line], count: int) -> None:
    """Each pass is there once, and is in what its car owes once."""
    assert sorted(line.number for line in lines) == list(range(count))
    assert all(line.car == pass_at(line.number)[0] for line in lines)
    for car in {line.car for line in lines}:
        owed = sorted(line.total for line in lines if line.car == car)
        tolls = sorted(toll(line.number) for line in lines if line.car == car)
        assert sorted(after - before for before, after in pairwise([0, *owed])) == tolls, car


def packed_environment(folder: Path) -> Path:
    """An archive with an interpreter for workers, which is the one that is there; it notes that it was used."""
    python = folder / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ntouch {folder / "used"}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as target:
        target.add(python.parent, "bin")
    return archive


@contextmanager
def driver_of(desk: Desk) -> Iterator[psutil.Process]:
    """The driver of the job, started in a process of its own; a test that fails leaves none behind."""
    said = desk.do("tidemill run -d", desk.output)
    # On a busy machine the command may return before the driver has a job.
    started = re.search(r"Job orders .* in process (\d+)\.|Process (\d+) was started and has no job yet", said)
    assert started is not None, said
    driver = psutil.Process(int(started[1] or started[2]))
    try:
        yield driver
    finally:
        kill_all(driver)


def kill_all(driver: psutil.Process) -> None:
    """Kill a driver, if it runs, with the processes that it has started, and wait for its end."""
    for process in [driver, *driver.children(recursive=True)] if driver.is_running() else []:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    eventually(lambda: not alive(driver))


def spark_of(driver: psutil.Process) -> list[psutil.Process]:
    """The Java processes that a driver has: one, if none has just died."""
    found = []
    for child in driver.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if alive(child) and child.name() == "java":
                found.append(child)
    return found


@pytest.mark.timeout(900)
def test_a_job_outlives_what_it_runs_on_grows_and_is_moved(tmp_path: Path, cluster: StandaloneCluster) -> None:
    desk = Desk(tmp_path / "desk", cluster.url)
    with driver_of(desk) as driver:
        desk.await_lines(lambda lines: {line.host for line in lines} == {FIRST, SECOND})
        assert desk.lists_it_as_running()

        cluster.kill_worker(FIRST)
        desk.await_lines(places((SECOND, 0), (SECOND, 1)))

        (spark,) = spark_of(driver)
        spark.kill()
        eventually(lambda: spark_of(driver) not in ([], [spark]), SECONDS, what="another Spark")
        desk.await_lines(places((SECOND, 0), (SECOND, 1)))
        assert desk.lists_it_as_running()

        kill_all(driver)
    assert not desk.lists_it_as_running()

    with driver_of(desk) as driver:
        desk.await_lines(bool)
        cluster.start_worker(THIRD)
        assert "runs with the new parallelism" in desk.do("tidemill rescale")
        desk.await_lines(lambda lines: {line.subtask for line in lines} == {0, 1, 2})
        desk.await_lines(lambda lines: {line.host for line in lines} == {SECOND, THIRD})

        taken = re.search(r"Savepoint (\S+) is complete", desk.do("tidemill savepoint"))
        assert taken is not None
        assert Path(taken[1]).is_dir()
        stopped = re.search(r"its savepoint is (\S+)", desk.do("tidemill stop"))
        assert stopped is not None
        driver.wait(SECONDS)
    count = len(desk.lines())
    check_truth(desk.lines(), count)

    # Another job resumes from the savepoint: submitted by Spark, with another backend, parallelism and interpreter.
    desk.configure(
        {
            "execution.job-id": "orders-2",
            "execution.state-recovery.path": stopped[1],
            "parallelism.default": "1",
            "state.backend.type": "hashmap",
            "spark.archives": f"{packed_environment(tmp_path)}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        }
    )
    desk.do("spark-submit", desk.output, count + 300)
    check_truth(desk.lines(), count + 300)
    assert (tmp_path / "used").exists(), "workers ran another interpreter than the one that was sent"
    submitted = [line for line in desk.lines() if line.number >= count]
    assert {line.subtask for line in submitted} == {0}
    assert {line.host for line in submitted} <= {SECOND, THIRD}, "it ran elsewhere than on the cluster"


@WHEN_THOROUGH  # a job whose subtasks move is slow, not wrong; in one executor they keep to their workers: test_rescale
@pytest.mark.timeout(300)
def test_a_subtask_goes_back_to_the_executor_that_holds_its_state(tmp_path: Path, cluster: StandaloneCluster) -> None:
    notes = tmp_path / "notes"
    options = {
        "spark.master": cluster.url,
        **SETTINGS,
        "spark.locality.wait": "60s",  # a busy machine must not make a subtask move
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    ended = run("placed_job.py", json.dumps({"notes": str(notes), "options": options}), log=tmp_path / "log")
    assert ended.code == 0, ended.text[-4000:]
    assert f"RESULT {[(key, EPOCHS) for key in range(10)]}" in ended.text
    opened = Counter(line.split()[0] for line in notes.read_text().splitlines())
    # Once, and once more if the second executor came up after the first epoch.
    assert len(opened) == PARALLELISM
    assert all(times <= 2 for times in opened.values()), opened
