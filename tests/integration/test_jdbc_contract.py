"""The database sinks on a real PostgreSQL server, under the contract of all sinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.postgres_server import PostgresServer
from tests.thorough import THOROUGH
from tidemill.common import Types
from tidemill.datastream.connectors.jdbc import JdbcExactlyOnceOptions, JdbcSink
from tidemill.testing.sink_contract import SINK_CASES, WRITER_CASES, SinkCase, check_sink

pytestmark = pytest.mark.usefixtures("sessions")

RECORD = Types.ROW_NAMED(["number", "text"], [Types.LONG(), Types.STRING()])
INSERT = "INSERT INTO records VALUES (?, ?)"


def record(number: int) -> tuple[int, str]:
    return number, f"text {number}"


@pytest.fixture
def visible(postgres: PostgresServer) -> Callable[[], list[Any]]:
    for name in postgres.prepared():
        postgres.run(f"ROLLBACK PREPARED '{name}'")
    postgres.run("DROP TABLE IF EXISTS records, tidemill_commits")
    postgres.run("CREATE TABLE records (number bigint, text text)")
    return lambda: postgres.run("SELECT number, text FROM records")


@pytest.mark.parametrize("case", SINK_CASES if THOROUGH else SINK_CASES[::2], ids=str)
def test_exactly_once(case: SinkCase, postgres: PostgresServer, visible: Callable[[], list[Any]]) -> None:
    quick = JdbcExactlyOnceOptions.builder().with_timeout_sec(1).build()
    check_sink(
        case,
        lambda: JdbcSink.exactly_once_sink(INSERT, RECORD, postgres.options, None, quick),
        visible,
        left=postgres.prepared,
        record=record,
    )


@pytest.mark.parametrize("case", WRITER_CASES if THOROUGH else WRITER_CASES[::2], ids=str)
def test_upserts(case: SinkCase, postgres: PostgresServer, visible: Callable[[], list[Any]]) -> None:
    postgres.run("ALTER TABLE records ADD PRIMARY KEY (number)")
    check_sink(case, lambda: JdbcSink.upsert("records", ["number"], RECORD, postgres.options), visible, record=record)
