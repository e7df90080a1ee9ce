"""Servers that tests of connectors talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer, Sessions, postgres_server
from tidemill.datastream.connectors.jdbc.postgres import PostgresDatabase, PostgresSession


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
