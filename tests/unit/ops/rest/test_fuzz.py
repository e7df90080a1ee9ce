"""The server against its own description: requests made up from OpenAPI, right and wrong ones, over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.unit.ops.rest.serving import Client, environment, options
from tidemill.common.job_client import JobClient
from tidemill.ops.rest.app import create_app
from tidemill.ops.rest.jobs_shown import ShownJobs, vertex_id
from tidemill.ops.rest.settings import RestSettings

DESCRIPTION = create_app(ShownJobs(1), RestSettings()).openapi()
SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)
OPERATIONS = [
    (mode, method.upper(), path)
    for mode in ("right", "wrong")
    for path, methods in DESCRIPTION["paths"].items()
    for method, described in methods.items()
    # A stream of events has no end; a path that takes nothing cannot be asked wrongly.
    if "events" not in path and (mode == "right" or "parameters" in described or "requestBody" in described)
]
#: What they accept is not all in the description: paths below certain directories, operators that there are.
CHOOSY = {path for _, _, path in OPERATIONS if path.endswith(("/rescaling", "/savepoints", "/stop", "-disposal"))}
EXAMPLES = 5


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, served: tuple[Client, JobClient]) -> str:
    """A job of the same server that has ended: what would change it changes nothing."""
    limit = {"rest.max-requests-per-second": str(served[0].server.settings.requests_per_second)}
    env = environment(options(tmp_path_factory.mktemp("ended")) | limit)
    env.from_collection([1]).filter(lambda n: False).print()
    env.execute()
    return str(served[0].read("/jobs")["jobs"][-1]["id"])


@pytest.mark.parametrize(("mode", "method", "path"), OPERATIONS, ids=[" ".join(one) for one in OPERATIONS])
def test_every_answer_is_as_described(
    served: tuple[Client, JobClient], ended: str, mode: str, method: str, path: str
) -> None:
    generated = GenerationMode.POSITIVE if mode == "right" else GenerationMode.NEGATIVE
    operation = SCHEMA[path][method]
    known = {
        "job_id": str(served[1].get_job_id()) if method == "GET" else ended,
        "vertex_id": vertex_id("sums"),
        "operator": "sums",
        "name": "_reduce_state",
    }
    seen: list[int] = []

    with requests.Session() as session:

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
