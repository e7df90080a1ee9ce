"""A history is served like the jobs of a driver: the same paths give the same responses, and nothing can be changed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ops.rest.serving import Client, client_of, options, start_sums
from tests.unit.runtime.history.records import now, record
from tests.waiting import eventually
from tidemill.common import Configuration, JobStatus
from tidemill.ops.rest import archived_jobs
from tidemill.ops.rest.app import create_app
from tidemill.ops.rest.archived_jobs import ArchivedJobs
from tidemill.ops.rest.jobs_shown import ShownJobs
from tidemill.ops.rest.server import RestServer
from tidemill.ops.rest.settings import RestSettings
from tidemill.runtime.driver.job import RunningJob
from tidemill.runtime.history.archive import HistoryFiles, RecordName

#: The time of the request, what only a history has, and rates, which the driver computes for the time of the request.
VARYING = {"now", "end-timestamp", "recorded", "isStoppable", "[a-z-]*per-second", "busy[a-zA-Z]*", "idleRatio"}
CHANGING = {"X-Tidemill-Request": "test"}


def history_in(*directories: Path, refresh: str = "1 ms") -> ArchivedJobs:
    settings = Configuration.from_dict({"historyserver.archive.fs.refresh-interval": refresh})
    return ArchivedJobs(map(str, directories), settings)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Client, Path]]:
    """A history, and its directory."""
    directory = tmp_path / "checkpoints" / "_history"
    server = RestServer(RestSettings(ports=(0,)), None, history_in(directory))
    try:
        yield Client(server), directory
    finally:
        server.close()


def paths(job: str, vertex: str) -> list[str]:
    """All paths of a job that can be read, except for its log, which is not part of a test's driver."""
    described = create_app(ShownJobs(1), RestSettings()).openapi()["paths"]
    filled = [
        path.format(job_id=job, vertex_id=vertex, checkpoint_id="3", operator="sums", name="_reduce_state")
        for path, methods in described.items()
        if path.startswith("/jobs/{job_id}") and "get" in methods and not re.search("trigger_id|logs|export|diff", path)
        if "queryable-state/" not in path
    ]
    assert len(filled) > 15
    return filled


def comparable(text: str) -> str:
    return re.sub(rf'"({"|".join(VARYING)})": ?[^,}}]*', "", text)


def test_every_path_gives_what_the_driver_gave(served: tuple[Client, Path], tmp_path: Path) -> None:
    client, _ = served
    job = start_sums(options(tmp_path, execution_checkpointing_num__retained="100", history_interval="1 s"))
    with client_of(job) as (driver, path):
        assert isinstance(job, RunningJob)
        eventually(lambda: len(job.epochs) > 4)
        job.cancel().result(60)
        for one in paths(str(job.get_job_id()), "sums"):
            at_the_end, later = driver.get(one), client.get(one)
            assert (later.status, comparable(later.text)) == (at_the_end.status, comparable(at_the_end.text)), one
        (listed,) = client.read("/jobs/overview")["jobs"]
        assert (listed["jid"], listed["state"], "url" in listed) == (path.removeprefix("/jobs/"), "CANCELED", False)
        assert listed == driver.read("/jobs/overview")["jobs"][0]
        ids = [one["id"] for one in driver.read(f"{path}/vertices/sums/metrics")]
        asked = f"{path}/vertices/sums/metrics?get={ids[0]}"
        assert client.read(asked) == driver.read(asked)
    assert client.read("/overview")["jobs-cancelled"] == 1
    assert client.read(path)["recorded"] >= client.read(path)["end-time"]


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.RUNNING])
def test_nothing_can_be_changed(served: tuple[Client, Path], status: JobStatus) -> None:
    client, directory = served
    name = RecordName("shop", 1_000, "0a", 5_000 if status is JobStatus.FINISHED else None)
    HistoryFiles.at(str(directory), Configuration()).write(name, record(status=status))
    body = {"target-directory": str(directory)}
    asked = {
        "PATCH /jobs/shop": None,
        "POST /jobs/shop/stop": {"targetDirectory": str(directory)},
        "POST /jobs/shop/savepoints": body,
        "PATCH /jobs/shop/rescaling?parallelism=2": None,
        "POST /savepoint-disposal": {"savepoint-path": str(directory / "shop")},
        "POST /jars/upload": None,
    }
    for what, content in asked.items():
        method, path = what.split()
        answer = client.ask(method, path, content, CHANGING)
        assert answer.status in (403, 404, 405, 409), what
        if answer.status == 409:
            assert "shown as recorded in the history" in answer.errors
    features = client.read("/config")["features"]
    assert features == {"web-submit": False, "web-cancel": False, "web-rescale": False, "web-history": True}
    assert client.read("/jobs/shop")["isStoppable"] is False


def write(directory: Path, job_id: str = "shop", status: JobStatus = JobStatus.RUNNING, **fields: Any) -> None:
    found = replace(record(job_id, status), **fields)
    ended = found.written if status.is_terminal_state() else None
    name = RecordName(job_id, found.started, "0a", ended)
    HistoryFiles.at(str(directory), Configuration()).write(name, found)


def test_a_driver_that_no_longer_writes_was_killed(served: tuple[Client, Path]) -> None:
    client, directory = served
    write(directory, written=now())
    running = client.read("/jobs/shop")
    assert (running["state"], running["end-time"]) == ("RUNNING", -1)
    at = now() - 3 * 30_000 - 11_000
    write(directory, written=at)
    killed = client.read("/jobs/shop")
    assert (killed["state"], killed["end-time"], killed["recorded"]) == ("SUSPENDED", at, at)
    assert client.read("/jobs/overview")["jobs"][0]["state"] == "SUSPENDED"


def test_a_driver_whose_job_was_started_again_has_ended(served: tuple[Client, Path]) -> None:
    client, directory = served
    write(directory, entered={JobStatus.CREATED: 1_000})
    write(directory, entered={JobStatus.CREATED: 2_000})
    first, second = client.read("/jobs/overview")["jobs"]
    assert (first["jid"], first["state"]) == ("shop.1000", "SUSPENDED")
    assert (second["jid"], second["state"]) == ("shop", "RUNNING")
    assert client.read("/jobs/shop.1000")["start-time"] == 1_000
    assert "only for the last start" in client.get("/jobs/shop.1000/state").errors


def test_the_log_is_served_by_position(served: tuple[Client, Path]) -> None:
    client, directory = served
    write(directory, status=JobStatus.FINISHED)
    log = client.read("/jobs/shop/logs?lines=1")
    assert log == {"path": "/logs/shop.log", "lines": ["last"], "truncated": True, "next": 2}
    assert client.read("/jobs/shop/logs")["lines"] == ["first", "last"]
    assert client.read("/jobs/shop/logs?after=1")["lines"] == ["last"]
    assert client.read("/jobs/shop/logs?after=2")["lines"] == []


def test_user_data_requires_the_operate_token(tmp_path: Path) -> None:
    write(tmp_path, status=JobStatus.FINISHED)
    settings = RestSettings(ports=(0,), operate_token="operate", read_token="read")  # noqa: S106
    server = RestServer(settings, None, history_in(tmp_path))
    try:
        client = Client(server)
        assert client.get("/jobs/overview").status == 401
        reader = {"Authorization": "Bearer read"}
        assert "Traceback" not in client.get("/jobs/shop/exceptions", **reader).text
        assert client.get("/jobs/shop/logs", **reader).status == 403
        assert "Traceback" in client.get("/jobs/shop/exceptions", Authorization="Bearer operate").text
    finally:
        server.close()


def test_records_that_cannot_be_read_are_reported_once_and_hide_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "good", JobStatus.FINISHED)
    bad = RecordName("bad", 1_000, "0a", 2_000)
    (tmp_path / "bad").mkdir()
    (tmp_path / bad.file).write_bytes(b"{}")
    jobs = history_in(tmp_path, tmp_path / "not there")
    with caplog.at_level(logging.WARNING, archived_jobs.log.name):
        for _ in range(2):
            assert [job["jid"] for job in jobs.overviews()] == ["good"]
            assert jobs.find("bad") is None
    (told,) = [one.getMessage() for one in caplog.records]
    assert told.startswith(f"{tmp_path}/{bad.file} is not shown: ")


def test_the_state_is_read_from_nowhere_but_beside_the_history(tmp_path: Path) -> None:
    """A record could name any directory."""
    apart = tmp_path / "apart"
    write(apart, status=JobStatus.FINISHED, configuration={"execution.checkpointing.dir": str(tmp_path)})
    server = RestServer(RestSettings(ports=(0,)), None, history_in(apart))
    try:
        for path in ("state", "state/count/n", "queryable-state", "state/count/n/export?format=csv"):
            assert Client(server).get(f"/jobs/shop/{path}").status == 404, path
    finally:
        server.close()


def test_few_records_are_kept_whole(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, f"job-{number}", JobStatus.FINISHED)
    jobs = history_in(tmp_path, refresh="1 h")
    assert len(jobs.overviews()) == 12
    for number in range(12):
        assert jobs.find(f"job-{number}") is not None
    assert len(jobs._kept) == archived_jobs._MOST_KEPT
