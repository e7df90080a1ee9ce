"""`tidemill session`: a place that takes programs, and lists the jobs of all drivers of its user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tests.waiting import eventually
from tidemill.common.reports.exit_codes import ExitCode
from tidemill.ops.drivers.records import (
    Driver,
    DriverJob,
    DriverRecord,
    RestAddress,
    drivers,
    recorded,
    records_directory,
)
from tidemill.ops.rest.other_drivers import OtherDrivers

SOURCE = Path(__file__).parents[4] / "src"
PROGRAM = b"""\
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(100), Types.LONG())
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").print().uid("out")
env.execute("numbers")
"""


class Session:
    """A session as a process, and its client."""

    verb = "session"

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tidemill", self.verb, "--port", "0", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        self.url = next(word for word in self.said.split() if word.startswith("http")).rstrip(";")
        self.token = (records_directory() / "rest-token").read_text().strip()

    def ask(self, method: str, path: str, data: bytes | None = None, kind: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=150) as answer:  # noqa: S310 - our own
            return json.load(answer)

    def close(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def test_a_session_runs_programs_and_lists_their_jobs(tmp_path: Path) -> None:
    session = Session("-D", "execution.target=local", "-D", f"execution.checkpointing.dir={tmp_path}/checkpoints")

    def running() -> list[dict[str, Any]]:
        return [job for job in session.ask("GET", "/jobs/overview")["jobs"] if job["state"] == "RUNNING"]

    try:
        assert session.said.startswith("REST is at http://127.0.0.1:")
        assert session.token not in session.said, "a pipe gets no token"
        assert session.ask("GET", "/config")["features"]["web-submit"] is True
        assert session.ask("GET", "/jobs/overview") == {"jobs": []}
        head = b'--edge\r\nContent-Disposition: form-data; name="jarfile"; filename="job.py"\r\n\r\n'
        form = head + PROGRAM + b"\r\n--edge--\r\n"
        program = session.ask("POST", "/jars/upload", form, "multipart/form-data; boundary=edge")["filename"]
        started = session.ask("POST", f"/jars/{program}/run", b'{"jobId": "numbers"}')
        assert started == {"jobid": "numbers"}
        (driver,) = drivers()
        try:
            (job,) = eventually(running)  # for a while it may say what it has seen before
            assert (job["jid"], job["name"]) == ("numbers", "numbers")
            assert driver.rest is not None
            assert job["url"] == f"{driver.rest.url}/#/jobs/numbers"
            assert session.ask("GET", "/jobs") == {"jobs": [{"id": "numbers", "status": "RUNNING"}]}
            assert session.ask("GET", "/overview")["jobs-running"] == 1
            eventually((tmp_path / "checkpoints" / "numbers").is_dir, what="the settings of the session")
            assert session.close() == 0
            assert drivers()[0].alive, "the job goes on"
        finally:
            process = psutil.Process(driver.pid)
            process.kill()
            process.wait(60)
    finally:
        session.process.kill()
        session.process.wait()


def test_what_is_not_safe_or_not_free_is_reported(tidemill: Tidemill, tmp_path: Path) -> None:
    open_to_all = tidemill("session", "-D", "rest.bind-address=192.0.2.1", "-D", "rest.port=0")
    assert (open_to_all.exit_code, "the session cannot listen" in open_to_all.stderr) == (ExitCode.UNFIT, True)
    wrong = tidemill("session", "-D", "rest.operate-token=secret")
    assert (wrong.exit_code, "must specify where the token is stored" in wrong.stderr) == (ExitCode.UNFIT, True)
    assert "secret" not in wrong.stderr


@pytest.mark.usefixtures("home")
def test_jobs_of_drivers_that_are_gone_are_listed_as_they_were_left() -> None:
    with recorded("job.py", None) as record:
        record.put(DriverJob("first", "the first", None, "FINISHED"))
    killed = DriverRecord(records_directory() / "driver-1-1.json", Driver(1, "other.py", 5))
    killed.put(DriverJob("second", "the second"))
    os.close(killed._lock)
    with recorded("silent.py", None) as record:
        record.put(DriverJob("third", "the third"), RestAddress("http://127.0.0.1:1"))
        third, second, first = sorted(OtherDrivers().overviews(), key=lambda job: job["jid"], reverse=True)
    assert (first["state"], first["end-time"] >= first["start-time"] > 5) == ("FINISHED", True)
    assert (second["state"], second["start-time"], second["end-time"]) == ("SUSPENDED", 5, 5)
    assert (third["state"], third["end-time"]) == ("RUNNING", -1)
    assert (third["url"], first["url"]) == ("http://127.0.0.1:1/#/jobs/third", None)


@pytest.mark.usefixtures("home")
def test_a_job_that_continued_elsewhere_is_listed_once() -> None:
    for status in ("FAILED", "FINISHED"):
        with recorded("job.py", None) as record:
            record.put(DriverJob("same", "the same", None, status))
        time.sleep(0.002)
    (job,) = OtherDrivers().overviews()
    assert job["state"] == "FINISHED"
