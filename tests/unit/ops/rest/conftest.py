"""One job that only runs, for all tests of a module that only look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.ops.rest.serving import Client, options, serving
from tidemill.common.job_client import JobClient


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, JobClient]]:
    with serving(options(tmp_path_factory.mktemp("job"))) as found:
        yield found


@pytest.fixture
def client(served: tuple[Client, JobClient]) -> Client:
    return served[0]


@pytest.fixture
def path(served: tuple[Client, JobClient]) -> str:
    """The path of the job."""
    return f"/jobs/{served[1].get_job_id()}"
