"""A program that runs in a process of its own, and what can be asked of it: one story, from start to start again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tests.waiting import eventually
from tidemill.common import ExitCode
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.drivers import starting
from tidemill.ops.drivers.records import drivers, records_directory

SOURCE = Path(__file__).parents[4] / "src"
PROGRAM = """\
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

env = StreamExecutionEnvironment.get_execution_environment()
pairs = Types.TUPLE([Types.LONG(), Types.LONG()])
source = DataGeneratorSource(lambda n: (n % 5, 1), None, RateLimiterStrategy.per_second(500), pairs)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.key_by(lambda pair: pair[0], Types.LONG()).sum(1).uid("counts").print().uid("out")
print("the program begins", flush=True)
env.execute("numbers")
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    (tmp_path / "numbers.py").write_text(PROGRAM)
    settings = {
        "execution.target": "local",
        "execution.job-id": "numbers",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.checkpointing.savepoint-dir": tmp_path / "savepoints",
        "execution.epoch.min-interval": "100 ms",
    }
    return tuple(argument for key, value in settings.items() for argument in ("-D", f"{key}={value}"))


def ended(pid: int) -> None:
    """Wait until a process, with all its threads, is gone; the command that started it takes note of its end."""
    eventually(lambda: not psutil.pid_exists(pid))


def test_the_life_of_a_detached_job(tidemill: Tidemill, settings: tuple[str, ...], tmp_path: Path) -> None:
    started = tidemill("run", "-d", *settings, tmp_path / "numbers.py")
    assert started.exit_code == 0, started.stderr
    (driver,) = drivers()
    try:
        assert f"Job numbers (numbers) was started in process {driver.pid}." in started.stdout
        assert driver.log is not None
        assert Path(driver.log).stat().st_mode & 0o077 == 0

        seen = {"id": "numbers", "status": "RUNNING", "pid": driver.pid}
        eventually(
            lambda: [seen.items() <= one.items() for one in json.loads(tidemill("list", "--json").stdout)] == [True]
        )
        assert "the program begins" in tidemill("logs", "numb", "-l", "100000").stdout
        assert "'tidemill page numbers' prints the address of its page" in started.stdout, "a pipe gets no token"
        address = tidemill("page").stdout.strip()
        assert address == tidemill("page", "numb").stdout.strip()
        assert driver.rest is not None
        assert address.startswith(f"{driver.rest.url}/#token=")

        counted = ("counts", "_reduce_state", "3", "--json")
        eventually(
            lambda: tidemill("state", "get", "numbers", *counted).exit_code == 0, what="an epoch with some input"
        )
        taken = tidemill("savepoint", "numb")
        path = re.fullmatch(r"Savepoint (.*) is complete.\n", taken.stdout)
        assert path is not None, taken.stderr
        assert json.loads(tidemill("state", "get", path[1], *counted).stdout)["entries"]
        assert tidemill("savepoint", "--dispose", path[1]).exit_code == 0
        assert tidemill("savepoint", "--dispose", path[1]).exit_code == CommandExit.NOT_FOUND

        rescaled = tidemill("rescale", "numbers", "-p", "3", "--json")
        assert json.loads(rescaled.stdout) == {"job": "numbers", "parallelism": 3}, rescaled.stderr
        operators = json.loads(tidemill("state", "ls", "numbers", "--json").stdout)["operators"]
        assert [one["parallelism"] for one in operators if one["uid"] == "counts"] == [3]
        refused = tidemill("rescale", "numbers", "-o", "nobody=3")
        assert (refused.exit_code, "no operator has the uid 'nobody'" in refused.stderr) == (1, True)
        elsewhere = tidemill("savepoint", "numbers", tmp_path / "elsewhere")
        assert elsewhere.exit_code == 0, elsewhere.stderr
        assert f"Savepoint {tmp_path}/elsewhere/savepoint-" in elsewhere.stdout
        assert not list(records_directory().glob("request-*"))
        twice = tidemill("run", *settings, tmp_path / "numbers.py")
        assert twice.exit_code == ExitCode.FENCED
        assert f"job 'numbers' is run by another driver: process {driver.pid} on " in twice.stderr

        stopped = tidemill("stop", "numbers", "--json")
        assert stopped.exit_code == 0, stopped.stderr
        ended(driver.pid)
    finally:
        if psutil.pid_exists(driver.pid):
            psutil.Process(driver.pid).kill()
    (savepoint,) = (tmp_path / "savepoints").iterdir()
    assert json.loads(stopped.stdout) == {"job": "numbers", "savepoint": str(savepoint), "drained": False}
    assert [(one["status"], one["pid"]) for one in json.loads(tidemill("list", "--json").stdout)] == [
        ("FINISHED", None)
    ]
    assert "the program begins" in tidemill("logs", "numbers", "-f", "-l", "100000").stdout
    gone = tidemill("cancel", "numbers")
    assert (gone.exit_code, "has ended" in gone.stderr) == (CommandExit.NOT_FOUND, True)

    token = f"file:{tmp_path / 'token'}"
    more = ("-D", "execution.job-id=again", "-D", f"rest.operate-token={token}", "-s", savepoint)
    again = tidemill("run", "-d", "--json", *settings, *more, tmp_path / "numbers.py")
    assert again.exit_code == 0, again.stderr
    second = drivers()[0]
    assert json.loads(again.stdout)["jobs"] == [{"id": "again", "name": "numbers"}]
    assert json.loads(again.stdout)["process"] == second.pid
    try:
        assert second.rest is not None
        refused = tidemill("cancel", "again", "--rest", second.rest.url)
        assert (refused.exit_code, "a token is required" in refused.stderr) == (1, True)
        told = tidemill("logs", "again", "-l", "9999", "--rest", second.rest.url, "--token", token)
        assert "the program begins" in told.stdout, told.stderr
        eventually(
            lambda: "PATCH /jobs/again -> 401" in tidemill("logs", "again", "-l", "9999").stdout
        )  # is noted there
        by_rest = ("--rest", second.rest.url, "--token", token)
        outside = tidemill("savepoint", "again", tmp_path / "elsewhere", *by_rest)
        assert (outside.exit_code, "execution.checkpointing.savepoint-dir" in outside.stderr) == (1, True)
        by_url = tidemill("rescale", "again", "-p", "3", "--rest", second.rest.url, "--token", token)
        assert by_url.exit_code == 0, by_url.stderr
        cancelled = tidemill("cancel", "again")
        assert (cancelled.exit_code, cancelled.stdout) == (0, "Job again is cancelled.\n"), cancelled.stderr
        ended(second.pid)
    finally:
        if psutil.pid_exists(second.pid):
            psutil.Process(second.pid).kill()


def test_a_killed_driver_is_detected(tidemill: Tidemill, settings: tuple[str, ...], tmp_path: Path) -> None:
    assert tidemill("run", "-d", *settings, tmp_path / "numbers.py").exit_code == 0
    (driver,) = drivers()
    psutil.Process(driver.pid).send_signal(signal.SIGKILL)
    ended(driver.pid)
    assert [one["status"] for one in json.loads(tidemill("list", "--json").stdout)] == ["ENDED"]


def test_a_program_that_fails_at_once_reports_why(
    tidemill: Tidemill, settings: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "numbers.py").write_text("raise RuntimeError('not today')\n")
    result = tidemill("run", "-d", *settings, tmp_path / "numbers.py")
    assert result.exit_code == 1
    assert "RuntimeError: not today" in result.stderr
    assert "ended immediately, with code 1; its log is" in result.stderr
    assert not list(tmp_path.rglob("*.yaml"))  # the settings, which may hold secrets, are not left behind


def test_who_interrupts_the_start_leaves_no_process_behind(
    tidemill: Tidemill, settings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def interrupted(process: subprocess.Popen[bytes], _: int) -> None:
        begun.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(starting, "_await_job", interrupted)
    monkeypatch.setattr(starting, "_END_SECONDS", 60.0)
    result = tidemill("run", "-d", *settings, tmp_path / "numbers.py")
    assert (result.exit_code, "had no job yet and was terminated" in result.stderr) == (CommandExit.INTERRUPTED, True)
    assert begun[0].returncode == -signal.SIGTERM
