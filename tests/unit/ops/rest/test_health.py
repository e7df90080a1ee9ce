"""`/health`: what the driver has for its jobs, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.ops.rest.serving import Client, options, serving
from tidemill.common.job_client import JobClient
from tidemill.ops.rest.resources import health


def findings(client: Client) -> tuple[str, dict[str, tuple[str, str]]]:
    told = client.read("/health")
    return told["status"], {one["what"]: (one["status"], one["detail"]) for one in told["findings"]}


def test_a_driver_that_has_everything(served: tuple[Client, JobClient]) -> None:
    client, job = served
    status, found = findings(client)
    assert status == "ok"
    assert found["extra spark"][0] == found["extra ops"][0] == "ok"
    directory = found[f"execution.checkpointing.dir of job {job.get_job_id()}"]
    assert directory[0] == "ok"
    assert directory[1].endswith("can be written and read")


def test_a_directory_that_is_lost_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(options(tmp_path)) as (client, job):
        assert findings(client)[0] == "ok"
        (tmp_path / "savepoints").write_text("no directory")
        assert findings(client)[0] == "ok", "as it was a moment ago"
        monkeypatch.setattr(health, "_FRESH", -1.0)
        status, found = findings(client)
        assert status == "problem"
        assert found[f"execution.checkpointing.savepoint-dir of job {job.get_job_id()}"][0] == "problem"


def test_storage_that_hangs_holds_up_one_request_only(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_PATIENCE", 0.01)
    with client.server.app.state.health._lock:
        answer = client.get("/health")
    assert (answer.status, "storage may hang" in answer.errors) == (503, True)
