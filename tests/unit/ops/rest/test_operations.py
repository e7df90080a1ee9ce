"""What can be done over REST: savepoints, stopping, rescaling, cancelling, deleting savepoints."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.unit.ops.rest.serving import Client, is_running, options, serving, start_sums
from tests.waiting import eventually
from tidemill import state_processor
from tidemill.common.completable_future import CompletableFuture
from tidemill.common.job_client import JobClient
from tidemill.errors import CheckpointError, ConfigurationError, GraphError, JobExecutionError
from tidemill.ops.rest import operations
from tidemill.ops.rest.errors import BadRequestError, ConflictError, UnavailableError
from tidemill.ops.rest.operations import Operations


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[Client, JobClient]]:
    with serving(options(tmp_path)) as found:
        yield found


def path_of(job: JobClient) -> str:
    return f"/jobs/{job.get_job_id()}"


def test_a_savepoint_is_taken_shown_and_deleted(job: tuple[Client, JobClient], tmp_path: Path) -> None:
    client, running = job
    path = path_of(running)
    begun = client.ask("POST", f"{path}/savepoints", {"target-directory": str(tmp_path / "savepoints/mine")})
    assert begun.status == 202
    location = client.finished(f"{path}/savepoints/{begun.json['request-id']}")["location"]
    assert Path(location).parent == tmp_path / "savepoints/mine"
    assert state_processor.read(location).job_id == str(running.get_job_id())
    latest = client.read(f"{path}/checkpoints")["latest"]["savepoint"]
    assert (latest["external_path"], latest["is_savepoint"]) == (location, True)
    deleted = client.ask("POST", "/savepoint-disposal", {"savepoint-path": location})
    assert client.finished(f"/savepoint-disposal/{deleted.json['request-id']}") == {}
    assert not Path(location, "_metadata").exists()
    again = client.ask("POST", "/savepoint-disposal", {"savepoint-path": location})
    failure = client.finished(f"/savepoint-disposal/{again.json['request-id']}")["failure-cause"]
    assert "is not a savepoint: nothing was deleted" in failure["stack-trace"]
    assert is_running(running)


def test_a_job_is_stopped_with_a_savepoint_and_started_from_it(job: tuple[Client, JobClient], tmp_path: Path) -> None:
    client, running = job
    path = path_of(running)
    begun = client.ask("POST", f"{path}/stop", {"drain": False}).json["request-id"]
    location = client.finished(f"{path}/savepoints/{begun}")["location"]
    assert client.read(path)["state"] == "FINISHED"
    _, saved = state_processor.read(location).get("sums", "_reduce_state", 3)
    settings = options(tmp_path / "second") | {"execution.state-recovery.path": location}
    second = start_sums(settings)
    eventually(lambda: second.get_checkpoint_history().completed > 1)
    second.cancel().result(60)
    _, value = state_processor.read(f"{settings['execution.checkpointing.dir']}/{second.get_job_id()}").get(
        "sums", "_reduce_state", 3
    )
    assert value > saved
    assert value in itertools.accumulate(range(3, 100_000, 10)), "no number was left out, and none added twice"


def test_a_job_is_rescaled_while_it_runs(job: tuple[Client, JobClient]) -> None:
    client, running = job
    path = path_of(running)
    begun = client.ask("PATCH", f"{path}/rescaling?parallelism=3")
    assert begun.status == 202
    assert client.finished(f"{path}/rescaling/{begun.json['request-id']}") == {}
    assert [vertex["parallelism"] for vertex in client.read(path)["vertices"]] == [3, 3]
    begun = client.ask("PATCH", f"{path}/rescaling", {"parallelism": {"sums": 1}})
    assert client.finished(f"{path}/rescaling/{begun.json['request-id']}") == {}
    assert [vertex["parallelism"] for vertex in client.read(path)["vertices"]] == [3, 1]


def test_a_cancelled_job_stays_to_be_looked_at_and_refuses_all_else(job: tuple[Client, JobClient]) -> None:
    client, running = job
    path = path_of(running)
    assert client.ask("PATCH", f"{path}?mode=cancel").status == 202
    eventually(lambda: client.read(path)["state"] == "CANCELED")
    assert client.read(path)["end-time"] > 0
    for method, action in (
        ("PATCH", "?mode=cancel"),
        ("POST", "/savepoints"),
        ("POST", "/stop"),
        ("PATCH", "/rescaling?parallelism=2"),
    ):
        answer = client.ask(method, f"{path}{action}")
        assert answer.status == 409, action
        assert "is CANCELED" in answer.errors
    assert client.read(f"{path}/state/sums/_reduce_state?key=3")["entries"], "what is committed is there"


def test_a_request_that_is_sent_twice_begins_one_operation(job: tuple[Client, JobClient], tmp_path: Path) -> None:
    client, running = job
    path = path_of(running)
    for _ in range(2):
        begun = client.ask("POST", f"{path}/savepoints", {"triggerId": "once"})
        assert begun.json == {"request-id": "once"}
    client.finished(f"{path}/savepoints/once")
    assert len(list((tmp_path / "savepoints").iterdir())) == 1
    assert client.get(f"{path}/rescaling/once").status == 404, "it is an operation of another kind"


@pytest.mark.parametrize(
    ("method", "action", "body", "message"),
    [
        ("PATCH", "?mode=stop", None, "mode: Input should be 'cancel'"),
        ("PATCH", "/rescaling", None, "parallelism: specify either"),
        ("PATCH", "/rescaling?parallelism=0", None, "parallelism: Input should be greater than or equal to 1"),
        ("PATCH", "/rescaling?parallelism=20000", None, "its max parallelism is"),
        ("PATCH", "/rescaling", {"parallelism": {"nobody": 2}}, "no operator has the uid 'nobody'"),
        ("POST", "/savepoints", {"target": "/x"}, "target: Extra inputs are not permitted"),
        ("POST", "/savepoints", {"cancel-job": "yes"}, "cancel-job: Input should be a valid boolean"),
        ("POST", "/savepoints", {"triggerId": "../x"}, "triggerId: String should match"),
        ("POST", "/stop", {"formatType": "ZIP"}, "formatType: String should match"),
        ("POST", "/stop", [], "body: Input should be"),
    ],
)
def test_a_wrong_request_is_reported_by_its_field(
    client: Client, path: str, method: str, action: str, body: object, message: str
) -> None:
    answer = client.ask(method, path + action, body)
    assert answer.status == 400
    assert message in answer.errors


def test_without_a_directory_for_savepoints_one_must_be_named(tmp_path: Path) -> None:
    settings = options(tmp_path)
    del settings["execution.checkpointing.savepoint-dir"]
    with serving(settings) as (client, job):
        answer = client.ask("POST", f"{path_of(job)}/savepoints", {})
        assert (answer.status, "target-directory" in answer.errors) == (400, True)
        elsewhere = {"target-directory": str(tmp_path / "anywhere")}
        assert client.ask("POST", f"{path_of(job)}/stop", {"targetDirectory": str(tmp_path)}).status == 403
        assert client.ask("POST", f"{path_of(job)}/savepoints", elsewhere).status == 403
        assert is_running(job)


def test_operations_are_remembered_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_MOST", 3)
    known = Operations()
    going_on = known.begun("stop", "job", CompletableFuture())
    done = [known.begun("stop", "job", CompletableFuture.completed(None)) for _ in range(5)]
    assert known.known("stop", "job", going_on), "it is the oldest, but not over"
    assert known.known("stop", "job", done[-1])
    assert not known.known("stop", "job", done[0])
    known.begun("stop", "job", CompletableFuture())
    known.begun("stop", "job", CompletableFuture())
    with pytest.raises(UnavailableError, match="3 operations are in progress"):
        known.check_room()


def test_nothing_is_forgotten_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_MOST", 10)
    known = Operations()
    ids = [known.begun("stop", "job", CompletableFuture.completed(None)) for _ in range(10)]
    assert all(known.known("stop", "job", one) for one in ids)


def test_of_equal_requests_that_come_at_once_one_begins_something() -> None:
    known = Operations()
    savepoints: list[CompletableFuture[str]] = []
    together = threading.Barrier(8)

    def begin() -> CompletableFuture[str]:
        time.sleep(0.02)  # long enough for all others to come meanwhile
        savepoints.append(CompletableFuture())
        return savepoints[-1]

    def ask() -> None:
        together.wait()
        assert known.begin("savepoints", "job", begin, "mine") == "mine"

    clients = [threading.Thread(target=ask) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert len(savepoints) == 1
    assert known.get("savepoints", "job", "mine").future is savepoints[0]
    with pytest.raises(ConflictError, match="belongs to another operation"):
        known.begin("rescaling", "job", begin, "mine")


def test_what_fails_soon_is_an_operation_that_failed_and_what_is_wrong_is_reported_at_once() -> None:
    known = Operations()
    failed: CompletableFuture[str] = CompletableFuture.failed(CheckpointError("the disk is full"))
    assert known.known("savepoints", "job", known.begun("savepoints", "job", failed))
    for error, expected in (
        (GraphError("no operator has the uid"), BadRequestError),
        (ConfigurationError("where should it go?"), BadRequestError),
        (JobExecutionError("the job has finished"), ConflictError),
    ):
        wrong: CompletableFuture[str] = CompletableFuture.failed(error)
        with pytest.raises(expected, match=str(error).rstrip("?")):
            known.begun("savepoints", "job", wrong)


def test_a_program_ends_when_its_clients_have_the_results_of_their_requests() -> None:
    known = Operations()
    assert not known.await_told(10), "nobody has asked for anything"
    savepoint: Future[str] = Future()
    stopping = CompletableFuture(savepoint)
    begun = known.begun("stop", "job", stopping)
    told = threading.Event()

    def wait() -> None:
        if known.await_told(120):
            told.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    known.get("stop", "job", begun)
    savepoint.set_result("/savepoints/1")
    assert not told.wait(0.05), "it was asked for, but before it was done"
    assert known.get("stop", "job", begun).future.result() == "/savepoints/1"
    assert told.wait(60)
    waiting.join()
    known.begun("stop", "job", stopping)
    assert known.await_told(0.01), "who never asks is not waited for"
