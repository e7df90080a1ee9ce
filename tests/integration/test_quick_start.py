"""The quick start, as a new user would go through it: its own commands, in a directory with nothing but the example.

Its drivers start Spark only in thorough runs. `tests/spark/test_standalone_cluster.py` runs such commands on a cluster.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.docs.markdown_blocks import blocks_of
from tests.spark.processes import ROOT, child_environment
from tests.thorough import THOROUGH
from tests.waiting import eventually

PAGE = ROOT / "docs" / "quick-start.md"
SECONDS = 900  # half a minute on a quiet machine


def steps() -> list[str]:
    """The commands of the page, in their order, without those that install: that has been done."""
    blocks = [block for block in blocks_of(PAGE.read_text(encoding="utf-8")) if block.info == "sh"]
    return [line for block in blocks for line in block.text.splitlines()]


class User:
    """Types commands in one directory, and does with their output what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: What each command has printed, by its verb; of a verb that is used twice, the last.
        self.said: dict[str, str] = {}
        self.pids: list[int] = []
        self._steps = iter(steps())
        self._environment = {
            **child_environment(),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "XDG_STATE_HOME": str(folder / "state-home"),
        }
        if not THOROUGH:
            settings = folder / "state-home" / "settings.yaml"
            settings.parent.mkdir()
            settings.write_text("execution.target: local\n")
            self._environment["TIDEMILL_CONF"] = str(settings)

    def until(self, verb: str, enough: Callable[[str], bool] = lambda said: True) -> str:
        """Go on up to the next command with this verb, which is repeated until ``enough``; what it has printed."""
        for step in self._steps:
            said = self._type(step)
            if step.split()[:2] == ["tidemill", verb]:
                return said if enough(said) else self._repeat(step, enough)
        raise AssertionError(f"the page has no further 'tidemill {verb}'")

    def _repeat(self, step: str, enough: Callable[[str], bool]) -> str:
        verb = step.split()[1]
        eventually(lambda: enough(self._type(step)), shown=lambda: self.said[verb])
        return self.said[verb]

    def finish(self) -> None:
        """All that is left."""
        for step in self._steps:
            self._type(step)

    def ask(self, *arguments: str) -> str:
        """A command that the page does not have."""
        return self._type(shlex.join(["tidemill", *arguments]))

    def await_running(self, job: str) -> None:
        """Wait for a job that was started. To ask for it by commands would cost it the machine on which it starts."""
        address, _, token = self.ask("page", job).strip().partition("#token=")
        eventually(lambda: state_of(job, address, token) == "RUNNING", shown=lambda: state_of(job, address, token))

    def _type(self, step: str) -> str:
        stopped = re.search(r"its savepoint is (.*)", self.said.get("stop", ""))
        command = step if stopped is None else step.replace("SAVEPOINT", stopped[1])
        ended = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        self.pids += map(int, re.findall(r"was started in process (\d+)", ended.stdout))
        assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
        self.said[command.split()[1]] = ended.stdout
        return ended.stdout


def state_of(job: str, address: str, token: str) -> str:
    """What the server of a job says about it."""
    asked = urllib.request.Request(f"{address}jobs/{job}", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
        return str(json.load(answer)["state"])


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "quick_start.py", tmp_path / "examples")
    found = User(tmp_path)
    yield found
    for pid in found.pids:
        _end(pid)


def _end(pid: int) -> None:
    """A driver that a failed test has left."""
    with contextlib.suppress(psutil.NoSuchProcess):
        driver = psutil.Process(pid)
        for process in [*driver.children(recursive=True), driver]:
            process.kill()


def earned(user: User, job: str) -> list[int]:
    """What a job has committed of tea: orders, and cents."""
    entries = json.loads(user.ask("state", "get", job, "earnings", "earned", "tea", "--json"))["entries"]
    return list(entries[0]["value"])


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_the_quick_start(user: User) -> None:
    assert "problem" not in user.until("doctor")
    assert "Job shop (shop) was started in process" in user.until("run")
    user.await_running("shop")
    assert "RUNNING" in user.until("list")

    address, _, token = user.until("page").strip().partition("#token=")
    with urllib.request.urlopen(address, timeout=60) as page:  # noqa: S310 - it is http
        assert "<title>" in page.read().decode()
    assert state_of("shop", address, token) == "RUNNING"

    assert "is complete" in user.until("savepoint")
    assert (user.folder / "quick-start" / "savepoints").is_dir()
    assert "Job shop is stopped" in user.until("stop")
    before = earned(user, "shop")
    assert "Job wider-shop (shop) was started" in user.until("run")
    user.until("rescale")

    def has_grown(said: str) -> bool:
        epoch, key, value = said.splitlines()[1].split(None, 2)
        assert (int(epoch) > 0, key) == (True, "tea")
        return all(now > then for now, then in zip(json.loads(value), before, strict=True))

    user.until("query", has_grown)

    assert "earned" in user.until("state")  # ls
    assert str(before[0]) in user.until("state")  # get
    user.until("state")  # export
    with (user.folder / "earned.csv").open(newline="") as file:
        assert len(list(csv.reader(file))) == 6  # a heading, and five products

    assert user.until("cancel") == "Job wider-shop is cancelled.\n"
    user.finish()
    assert {path.name for path in user.folder.iterdir()} == {"examples", "state-home"}
