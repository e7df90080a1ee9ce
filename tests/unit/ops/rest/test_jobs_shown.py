"""A job as a server sees it: that many look at it costs one look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.ops.rest.serving import environment, options, serving
from tidemill.ops.rest import jobs_shown
from tidemill.ops.rest.jobs_shown import ShownJob
from tidemill.ops.rest.resources import epochs
from tidemill.ops.rest.server import servers
from tidemill.runtime.driver.job import RunningJob


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownJob]:
    with serving(options(tmp_path_factory.mktemp("job"))) as (client, _):
        yield client.server.jobs.all()[0]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """Each look at the registry of a job, by the names it asks for; for a long time it is the same."""
    monkeypatch.setattr(jobs_shown, "_FRESH", 600.0)
    found: list[frozenset[str]] = []
    asked = RunningJob.get_metrics_named

    def noted(job: RunningJob, names: frozenset[str]) -> object:
        found.append(names)
        return asked(job, names)

    monkeypatch.setattr(RunningJob, "get_metrics_named", noted)
    return found


def test_many_streams_of_events_cost_one_look(shown: ShownJob, looks: list[frozenset[str]]) -> None:
    seen = ShownJob(shown.client, shown.outline)
    with ThreadPoolExecutor(8) as pool:
        messages = [json.loads(text) for text in pool.map(lambda _: epochs._message(seen, None, (None, 1)), range(16))]
    assert len(looks) == 1
    assert [one["vertices"] for one in messages] == [messages[0]["vertices"]] * 16
    assert messages[0]["vertices"] == seen.now().vertices
    assert messages[0]["vertices"][0]["records-in-per-second"] > 0


def test_a_look_is_renewed_after_a_while(
    shown: ShownJob, looks: list[frozenset[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = ShownJob(shown.client, shown.outline)
    first = seen.now()
    assert seen.now() is first
    monkeypatch.setattr(jobs_shown, "_FRESH", -1.0)
    assert seen.now() is not first
    assert len(looks) == 2


def test_of_a_job_that_is_over_the_last_metrics_are_seen(tmp_path: Path, looks: list[frozenset[str]]) -> None:
    env = environment(options(tmp_path))
    env.from_sequence(1, 200).uid("numbers").filter(lambda n: False).print()
    job = env.execute_async("short")
    assert isinstance(job, RunningJob)
    server = servers()[-1]
    try:
        (seen,) = server.jobs.all()
        seen.figures()  # whatever there is by now
        job.get_job_execution_result().result(60)
        chain = seen.plan.chains[0]
        assert seen.figures().io_metrics(chain)["read-records"] == 200, "not those of two seconds ago"
        assert seen.now() is seen.now()
        assert len(looks) == 1, "nothing changes any more"
    finally:
        server.close()
