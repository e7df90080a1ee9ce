"""Servers that tests of connectors talk to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.object_store import BUCKET, Proxy, Server, object_store
from tests.postgres_server import PostgresServer, Sessions, postgres_server
from tidemill.connectors.jdbc.postgres import PostgresDatabase, PostgresSession


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the tests of one module; it starts within a second."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """The connections that sinks and sources make to PostgreSQL: a process that dies loses them."""
    made = Sessions()
    connect = PostgresDatabase.connect

    def noted(database: PostgresDatabase) -> PostgresSession:
        made.append(connect(database))
        return made[-1]

    monkeypatch.setattr(PostgresDatabase, "connect", noted)
    yield made
    made.lose()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An object store for the tests of one module."""
    with object_store(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """What requests to the object store go through, and may be held up or refused by."""
    with Proxy(server) as running:
        yield running


@pytest.fixture
def place() -> str:
    """A place of its own in the object store."""
    return f"s3://{BUCKET}/{uuid.uuid4()}"
