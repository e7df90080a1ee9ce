"""One job that only runs, for all tests of a module that only look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.ops.rest.serving import Client, options, serving
from tidemill.common.job_client import JobClient
from tidemill.ops.rest import guard, listening, server, state_pages
from tidemill.ops.rest.resources import comparisons


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers wait for clients, and take their time, as a loaded machine may have to, unless a test says otherwise."""
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 600.0)
    monkeypatch.setattr(server, "IDLE_SECONDS", 600.0)
    monkeypatch.setattr(guard, "BODY_SECONDS", 600.0)
    monkeypatch.setattr(guard, "SEND_SECONDS", 600.0)
    for pages in (comparisons, state_pages):
        monkeypatch.setattr(pages, "_SECONDS", 600.0)


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
