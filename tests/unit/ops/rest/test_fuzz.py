"""The server against its own description: requests made up from OpenAPI, right and wrong ones, over real HTTP."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.thorough import how_many
from tests.unit.ops.rest.serving import Client, environment, options, serving
from tidemill.common.job_client import JobClient
from tidemill.ops.rest.app import create_app
from tidemill.ops.rest.jobs_shown import ShownJobs, vertex_id
from tidemill.ops.rest.program_store import ProgramStore
from tidemill.ops.rest.settings import RestSettings

DESCRIPTION = create_app(ShownJobs(1), RestSettings(operate_token="x", submit=True)).openapi()  # noqa: S106
SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)
OPERATIONS = [
    (mode, method.upper(), path)
    for mode in ("right", "wrong")
    for path, methods in DESCRIPTION["paths"].items()
    for method, described in methods.items()
    # A stream of events has no end; a path that takes nothing cannot be asked wrongly.
    if "events" not in path and (mode == "right" or "parameters" in described or "requestBody" in described)
]
#: What they accept is not all in the description: paths below certain directories, operators that there are, programs.
CHOOSY = {
    path
    for _, _, path in OPERATIONS
    if path.endswith(("/rescaling", "/savepoints", "/stop", "-disposal", "/upload", "/run", "{jar_id}/plan"))
}
EXAMPLES = how_many(3, 5)


@pytest.fixture(scope="module")
def of_jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of jobs on a server that has every path, also those for programs."""
    folder = tmp_path_factory.mktemp("job")
    return options(folder) | {"rest.operate-token": f"file:{folder}/token", "web.submit.enable": "true"}


@pytest.fixture(scope="module")
def served(of_jobs: dict[str, str]) -> Iterator[tuple[Client, JobClient]]:
    """A job that runs, and a client that may operate."""
    token = Path(of_jobs["rest.operate-token"].removeprefix("file:"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(token.parent))
        with serving(of_jobs) as (client, job):
            client.headers["Authorization"] = f"Bearer {token.read_text().strip()}"
            yield client, job


@pytest.fixture(scope="module")
def ended(of_jobs: dict[str, str], served: tuple[Client, JobClient]) -> str:
    """A job of the same server that has ended: what would change it changes nothing."""
    env = environment(of_jobs)
    env.from_collection([1]).filter(lambda n: False).print()
    env.execute()
    return str(served[0].read("/jobs")["jobs"][-1]["id"])


@pytest.fixture(scope="module")
def program(served: tuple[Client, JobClient]) -> str:
    """A program that has several scripts, so that it runs only if one is named."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("one.py", "two.py"):
            archive.writestr(name, "raise SystemExit")
    kept: ProgramStore = served[0].server.app.state.programs.store
    return kept.add("program.zip", content).id


@pytest.mark.parametrize(("mode", "method", "path"), OPERATIONS, ids=[" ".join(one) for one in OPERATIONS])
def test_every_answer_is_as_described(
    served: tuple[Client, JobClient], ended: str, program: str, mode: str, method: str, path: str
) -> None:
    generated: Any = GenerationMode.POSITIVE if mode == "right" else GenerationMode.NEGATIVE
    operation = SCHEMA[path][method]
    known = {
        "job_id": str(served[1].get_job_id()) if method == "GET" else ended,
        "vertex_id": vertex_id("sums"),
        "operator": "sums",
        "name": "_reduce_state",
        "jar_id": program if method != "DELETE" else "0" * 32,
    }
    seen: list[int] = []

    with requests.Session() as session:
        session.headers.update(served[0].headers)

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=generated))
        def ask(case: Any) -> None:
            unchecked = [positive_data_acceptance] if path in CHOOSY else []
            if len(seen) % 2:  # half of them ask for what there is
                case.path_parameters = {**(case.path_parameters or {}), **_of(known, path)}
                unchecked.append(negative_data_rejection)  # the path may have been all that was wrong
            answer = case.call(base_url=served[0].server.url, session=session)
            seen.append(answer.status_code)
            assert answer.status_code < 500
            case.validate_response(answer, excluded_checks=unchecked)
            if answer.status_code >= 400:
                assert set(answer.json()) == {"errors"}

        ask()
    assert seen


def _of(known: dict[str, str], path: str) -> dict[str, str]:
    return {name: value for name, value in known.items() if f"{{{name}}}" in path}
