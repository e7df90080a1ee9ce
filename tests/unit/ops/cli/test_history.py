"""`tidemill history` and sessions show what is left of jobs, also of those whose driver was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tests.unit.ops.cli.test_session import PROGRAM, SOURCE, Session
from tests.unit.ops.cli.words import words_job
from tests.waiting import eventually
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.drivers.records import drivers


class History(Session):
    """`tidemill history` as a process, and its client."""

    verb = "history"


@contextmanager
def driver_of_numbers(folder: Path) -> Iterator[psutil.Process]:
    """A driver with a job that has recorded at least one of its epochs."""
    (folder / "numbers.py").write_bytes(PROGRAM)
    options = {
        "execution.target": "local",
        "execution.checkpointing.dir": folder / "checkpoints",
        "execution.job-id": "numbers",
        "history.interval": "1 s",
    }
    settings = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    command = [sys.executable, "-m", "tidemill", "run", "-d", *settings, str(folder / "numbers.py")]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=True, capture_output=True)
    process = psutil.Process(drivers()[0].pid)
    try:
        yield process
    finally:
        if process.is_running():
            process.kill()
            process.wait(60)


def until(server: Session, state: str) -> dict[str, Any]:
    """The only job, once it is in a state."""

    def found() -> dict[str, Any] | None:
        (job,) = server.ask("GET", "/jobs/overview")["jobs"] or [{"state": None}]
        return job if job["state"] == state else None

    return eventually(found) or {}


@pytest.mark.usefixtures("home")
def test_a_job_whose_driver_was_killed(tmp_path: Path) -> None:
    refresh = ("-D", "historyserver.archive.fs.refresh-interval=100 ms")
    with driver_of_numbers(tmp_path) as process:
        history = History(str(tmp_path / "checkpoints"), *refresh)
        session = Session("-D", "rest.bind-port=0")
        try:
            assert history.said.startswith("The history is at http://127.0.0.1:")
            running = eventually(lambda: (job := until(history, "RUNNING"))["epoch"] > 1 and job)
            assert running["end-time"] == -1
            process.kill()
            process.wait(60)
            begun = time.monotonic()
            for server in (session, history):  # the session knows the process, the history only sees no new records
                job = until(server, "SUSPENDED")
                assert job["epoch"] >= running["epoch"]
                assert job["end-time"] > running["start-time"]
                assert "url" not in job
                details = server.ask("GET", "/jobs/numbers")
                assert details["recorded"] == details["end-time"]
                epochs = server.ask("GET", "/jobs/numbers/epochs")["epochs"]
                assert epochs[-1]["epoch"] == details["epoch"] == job["epoch"]
                assert server.ask("GET", "/jobs/numbers/logs")["path"] == drivers()[0].log
                assert server.ask("GET", "/jobs/numbers/state")["epoch"] >= job["epoch"]
            assert time.monotonic() - begun < 60
            assert (history.close(), session.close()) == (0, 0)
        finally:
            for server in (history, session):
                server.process.kill()
                server.process.wait()


def test_it_serves_ended_jobs_without_any_configuration(tmp_path: Path) -> None:
    words_job(tmp_path, "words", ["to be", "or", "not"])
    history = History(str(tmp_path))
    try:
        (job,) = history.ask("GET", "/jobs/overview")["jobs"]
        assert (job["jid"], job["state"]) == ("words", "FINISHED")
        assert history.ask("GET", "/jobs/words/state")["operators"]
        for _ in range(5):  # an impatient user
            history.process.send_signal(signal.SIGINT)
        assert history.process.wait(60) == 0
    finally:
        history.process.kill()
        history.process.wait()
        assert history.process.stdout is not None
        history.process.stdout.close()


@pytest.mark.usefixtures("home")
def test_where_there_is_no_history(tidemill: Tidemill, tmp_path: Path) -> None:
    nowhere = tidemill("history", tmp_path / "gone")
    assert (nowhere.exit_code, "there is no directory" in nowhere.stderr) == (CommandExit.NOT_FOUND, True)
    unknown = tidemill("history")
    assert (unknown.exit_code, "tidemill history DIRECTORY" in unknown.stderr) == (CommandExit.NOT_FOUND, True)
