"""What can be read over REST, of a job that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ops.rest.serving import Client, client_of, environment, events, is_running, options, serving
from tests.waiting import eventually
from tidemill.common.job_client import JobClient
from tidemill.ops.rest.jobs_shown import vertex_id
from tidemill.ops.rest.resources import epochs


def test_the_jobs_of_the_driver_are_listed(client: Client, path: str) -> None:
    job_id = path.removeprefix("/jobs/")
    assert client.read("/jobs") == client.read("/v1/jobs") == {"jobs": [{"id": job_id, "status": "RUNNING"}]}
    (job,) = client.read("/jobs/overview")["jobs"]
    assert (job["jid"], job["name"], job["state"], job["end-time"]) == (job_id, "sums", "RUNNING", -1)
    assert job["tasks"] == {"running": 4}
    assert client.read("/overview")["jobs-running"] == 1
    assert client.read("/config")["features"]["web-submit"] is False


def test_a_job_has_vertices_with_what_they_read_and_wrote(client: Client, path: str) -> None:
    found = client.read(path)
    source, sums = found["vertices"]
    assert (source["uid"], sums["uid"], sums["id"]) == ("numbers", "sums", vertex_id("sums"))
    assert found["plan"] == client.read(f"{path}/plan")["plan"]
    assert found["epoch"] > 0
    assert list(found["timestamps"]) == ["CREATED", "RUNNING"]
    assert (
        source["metrics"]["read-records"] == source["metrics"]["write-records"] == sums["metrics"]["read-records"] > 0
    )
    assert sums["metrics"]["read-bytes"] > 0


def test_the_plan_is_a_graph_of_chains(client: Client, path: str) -> None:
    plan = client.read(f"{path}/plan")["plan"]
    source, sums = plan["nodes"]
    assert [one["uid"] for one in source["operators"]] == ["numbers", "pairs"]
    assert sums["inputs"][0]["id"] == source["id"]
    assert sums["inputs"][0]["ship_strategy"].startswith("HASH")
    assert plan["guarantee"] == sums["operators"][-1]["guarantee"] == "at-least-once"
    assert sums["operators"][0]["line"].partition(":")[0].endswith("serving.py")


def test_vertices_list_their_subtasks(client: Client, path: str) -> None:
    vertex = f"{path}/vertices/{vertex_id('sums')}"
    found = client.read(vertex)
    assert [one["subtask"] for one in found["subtasks"]] == [0, 1]
    assert sum(one["metrics"]["read-records"] for one in found["subtasks"]) > 0
    assert client.read(f"{path}/vertices/sums")["id"] == vertex_id("sums"), "the uid is good enough"
    pressure = client.read(f"{vertex}/backpressure")
    assert pressure["backpressureLevel"] in ("ok", "low", "high")
    for subtask in pressure["subtasks"]:
        assert subtask["ratio"] + subtask["busyRatio"] + subtask["idleRatio"] == pytest.approx(1, abs=0.01)
    assert client.read(f"{vertex}/watermarks") == []


def test_metrics_are_found_by_flinks_ids(client: Client, path: str) -> None:
    names = {metric["id"] for metric in client.read(f"{path}/metrics")}
    assert {"currentEpoch", "uptime", "epochDuration_p99", "phase.commit.epochPhaseTime_mean"} <= names
    found = {one["id"]: float(one["value"]) for one in client.read(f"{path}/metrics?get=numEpochs,uptime,no.such")}
    assert found["numEpochs"] > 2
    assert set(found) == {"numEpochs", "uptime"}
    vertex = f"{path}/vertices/{vertex_id('sums')}"
    assert {"0.numRecordsIn", "1.Reduce.numRecordsIn"} <= {one["id"] for one in client.read(f"{vertex}/metrics")}
    (total,) = client.read(f"{vertex}/subtasks/metrics?get=numRecordsIn&agg=sum,max")
    assert total["sum"] > total["max"] > 0
    assert "avg" not in total


def test_the_parallelism_of_a_job_that_sets_none_is_the_one_it_has(client: Client, path: str) -> None:
    assert client.read(f"{path}/config")["execution-config"]["job-parallelism"] == 2


def test_checkpoints_and_their_settings(client: Client, path: str) -> None:
    found = client.read(f"{path}/checkpoints")
    assert found["counts"]["completed"] == found["counts"]["total"] > 2
    newest = found["history"][0]
    assert found["latest"]["completed"] == newest
    assert (newest["status"], newest["is_savepoint"], newest["num_subtasks"]) == ("COMPLETED", False, 4)
    assert newest["state_size"] >= newest["checkpointed_size"] > 0
    assert found["summary"]["end_to_end_duration"]["max"] >= found["summary"]["end_to_end_duration"]["p50"]

    def details() -> Any:  # of an epoch that is not forgotten meanwhile
        answer = client.get(f"{path}/checkpoints/details/{client.read(path)['epoch']}")
        return answer.status == 200 and answer.json

    one = eventually(details)
    assert one["@class"] == "completed"
    assert client.get(f"{path}/checkpoints/details/999999").status == 404
    assert client.read(f"{path}/checkpoints/config")["mode"] == "exactly_once"


def test_epochs_have_phases_that_add_up(client: Client, path: str) -> None:
    last = client.read(f"{path}/epochs?limit=2")["epochs"]
    assert len(last) == 2
    for epoch in last:
        assert set(epoch["phases"]) == {"source", "load", "compute", "exchange", "delta", "commit", "other"}
        assert sum(epoch["phases"].values()) >= 0.99 * epoch["duration"]
        assert epoch["records"] == 20
    later = client.read(f"{path}/epochs?after={last[0]['epoch']}&limit=1000")["epochs"]
    assert later[0]["epoch"] == last[1]["epoch"]


def test_committed_state_can_be_seen_entry_by_entry(client: Client, path: str) -> None:
    (operator,) = client.read(f"{path}/state")["operators"]
    (state,) = operator["states"]
    assert (operator["uid"], state["name"], state["entries"]) == ("sums", "_reduce_state", 10)
    (entry,) = (found := client.read(f"{path}/state/sums/_reduce_state?key=3"))["entries"]
    assert entry["key"] == entry["value"][0] == 3
    seen = 20 * found["epoch"]  # each epoch reads twenty more numbers
    assert entry["value"][1] == sum(n for n in range(seen + 1) if n % 10 == 3), "never of half an epoch"
    assert client.read(f"{path}/state/{operator['id']}/{state['id']}?key=77")["entries"] == []


def test_a_state_is_read_page_by_page_as_of_one_epoch(tmp_path: Path) -> None:
    with serving(options(tmp_path, execution_checkpointing_num__retained="1000")) as (client, job):
        page = first = client.read(f"/jobs/{job.get_job_id()}/state/sums/_reduce_state?limit=4")
        entries: list[Any] = page["entries"]
        while page["next"]:
            eventually(lambda: client.read(f"/jobs/{job.get_job_id()}")["epoch"] > first["epoch"])
            page = client.read(f"/jobs/{job.get_job_id()}/state/sums/_reduce_state?limit=4&from={page['next']}")
            entries += page["entries"]
            assert page["epoch"] == first["epoch"]
        assert sorted(entry["key"] for entry in entries) == list(range(10))
        assert sum(entry["value"][1] for entry in entries) == sum(range(20 * first["epoch"] + 1))
        earlier = client.read(f"/jobs/{job.get_job_id()}/state/sums/_reduce_state?epoch=1")
        assert (earlier["epoch"], sum(entry["value"][1] for entry in earlier["entries"])) == (1, sum(range(21)))
        (operator,) = client.read(f"/jobs/{job.get_job_id()}/state?epoch=1")["operators"]
        assert operator["states"][0]["entries"] == 10


def test_a_page_of_an_epoch_that_is_not_there_is_refused(client: Client, path: str) -> None:
    answer = client.get(f"{path}/state/sums/_reduce_state?from=999999-0-4")
    assert answer.status == 404
    assert "cannot be read (any more)" in answer.errors


def test_queryable_state_is_requested_by_name(tmp_path: Path) -> None:
    env = environment(options(tmp_path))
    words = env.from_collection([("tide", 1), ("mill", 2), ("tide", 3)])
    words.key_by(lambda pair: pair[0]).as_queryable_state("last word")
    job = env.execute_async("words")
    with client_of(job) as (client, path):
        job.get_job_execution_result().result()
        assert client.read(f"{path}/queryable-state") == {"epoch": 1, "names": ["last word"]}
        name = f"{path}/queryable-state/{vertex_id('last word')}"
        assert client.read(f"{name}?key=tide") == {"epoch": 1, "name": "last word", "value": ["tide", 3]}
        assert "has no value for key sea" in client.get(f"{name}?key=sea").errors
        assert "key: Field required" in client.get(name).errors
        assert client.get(f"{path}/queryable-state/unknown?key=1").status == 404


def test_a_stream_of_events_reports_epochs(client: Client, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "_PAUSE", 60.0)
    with events(client, path) as stream:

        def message() -> Any:
            while not (line := stream.readline().decode()).startswith("data: "):
                pass
            return json.loads(line.removeprefix("data: "))

        first = message()
        eventually(lambda: client.read(path)["epoch"] > first["epoch"]["epoch"] + 2)
        monkeypatch.setattr(epochs, "_PAUSE", 0.0)
        second = message()
    assert first["epoch"]["epoch"] + second["epochs"] == second["epoch"]["epoch"], "none is left out of the count"
    assert second["epochs"] > 1, "fast epochs are told together"
    assert first["latest"] == [], "who begins to listen asks for what was before"
    told = [epoch["epoch"] for epoch in second["latest"]]
    assert told == [*range(first["epoch"]["epoch"] + 1, second["epoch"]["epoch"] + 1)][-20:]
    assert second["latest"][-1] == second["epoch"]
    assert [vertex["id"] for vertex in second["vertices"]] == [vertex_id("numbers"), vertex_id("sums")]
    assert second["vertices"][0]["records-out-per-second"] > 0


def test_a_failed_job_reports_why(tmp_path: Path) -> None:
    env = environment(options(tmp_path, restart__strategy_type="none"))
    env.from_sequence(1, 10).map(lambda n: 1 // (n - 7)).name("divide").uid("divide").print()
    job = env.execute_async("divide")
    with client_of(job) as (client, path):
        eventually(lambda: not is_running(job))
        found = client.read(f"{path}/exceptions")
        (entry,) = found["exceptionHistory"]["entries"]
        assert entry["exceptionName"].startswith("ZeroDivisionError")
        assert (entry["uid"], entry["record"], entry["epoch"]) == ("divide", "7", 1)
        assert found["root-exception"].startswith("Traceback")
        assert client.read("/overview")["jobs-failed"] == 1
        with events(client, path) as stream:
            assert stream.read().decode().endswith("event: end\ndata: {}\n\n"), "there is nothing more to tell"


def test_several_jobs_share_a_server_and_ended_ones_are_forgotten_in_time(tmp_path: Path) -> None:
    settings = options(tmp_path, rest_ended__jobs="2")
    jobs = []
    for number in range(4):
        env = environment(settings | {"execution.job-id": f"job-{number}"})
        env.from_collection([1]).filter(lambda n: False).print()
        jobs.append(env.execute_async(f"job {number}"))
        jobs[-1].get_job_execution_result().result()
    with client_of(jobs[-1]) as (client, _):
        known = [job["id"] for job in client.read("/jobs")["jobs"]]
        assert known == ["job-1", "job-2", "job-3"], "when the last one came, of those that had ended two were kept"


def test_accumulators_are_shown(served: tuple[Client, JobClient], path: str) -> None:
    counted = served[0].read(f"{path}/accumulators")["user-task-accumulators"]
    assert "sums.numRecordsIn" in {one["name"] for one in counted}


def test_a_checkpoint_has_what_each_subtask_wrote(client: Client, path: str) -> None:
    whole = client.read(f"{path}/checkpoints")["latest"]["completed"]
    details = client.read(f"{path}/checkpoints/details/{whole['id']}")
    tasks = {task["uid"]: task for task in details["tasks"].values()}
    assert set(tasks) == {"numbers", "sums"}
    assert sum(task["checkpointed_size"] for task in tasks.values()) == details["checkpointed_size"] > 0
    assert sum(task["num_subtasks"] for task in tasks.values()) == details["num_subtasks"]
    sums = client.read(f"{path}/checkpoints/details/{whole['id']}/subtasks/sums")
    assert sum(one["checkpointed_size"] for one in sums["subtasks"]) == tasks["sums"]["checkpointed_size"]
    assert [one["index"] for one in sums["subtasks"]] == list(range(sums["num_subtasks"]))
    assert all(0 < one["write_duration"] <= one["end_to_end_duration"] for one in sums["subtasks"])
    written = [state for one in sums["subtasks"] for state in one["states"]]
    assert {(one["uid"], one["name"]) for one in written} == {("sums", "_reduce_state")}
    assert sum(one["rows"] for one in written) > 0
    assert client.get(f"{path}/checkpoints/details/{whole['id']}/subtasks/nobody").status == 404
