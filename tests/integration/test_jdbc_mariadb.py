"""The database sink and source on a real MariaDB server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from decimal import Decimal
from typing import Any

import pytest

from tests.mariadb_server import PASSWORD, MariadbServer, mariadb_server
from tests.ports import refusing_port
from tests.thorough import THOROUGH
from tidemill.common import Instant, Types, WatermarkStrategy
from tidemill.connectors.jdbc.databases import database_of
from tidemill.connectors.jdbc.sql import Statement
from tidemill.connectors.sinks import CommitterContext
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink, JdbcSource
from tidemill.errors import ConfigurationError, ConnectorError
from tidemill.testing import run_local
from tidemill.testing.sink_contract import WRITER_CASES, SinkCase, check_sink

RECORD = Types.ROW_NAMED(["number", "text"], [Types.LONG(), Types.STRING()])
INSERT = "INSERT INTO records VALUES (?, ?)"


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbServer]:
    with mariadb_server() as server:
        yield server


@pytest.fixture
def visible(mariadb: MariadbServer) -> Callable[[], list[Any]]:
    mariadb.run("DROP TABLE IF EXISTS records")
    mariadb.run("CREATE TABLE records (number bigint, text text) ENGINE=InnoDB")
    return lambda: mariadb.run("SELECT number, text FROM records")


def record(number: int) -> tuple[int, str]:
    return number, f"text {number} 'é' 100% \\"


def write(sink: JdbcSink, *records: Any) -> None:
    writer = sink.create_writer(0, 1)
    try:
        writer.write(list(records), None)
        writer.prepare_commit()
    finally:
        writer.close()


@pytest.mark.parametrize("case", WRITER_CASES if THOROUGH else WRITER_CASES[::2], ids=str)
def test_statements(case: SinkCase, mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    check_sink(case, lambda: JdbcSink.sink(INSERT, RECORD, mariadb.options()), visible, record=record)


@pytest.mark.parametrize("case", WRITER_CASES if THOROUGH else WRITER_CASES[::2], ids=str)
def test_upserts(case: SinkCase, mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    mariadb.run("ALTER TABLE records ADD PRIMARY KEY (number)")
    check_sink(case, lambda: JdbcSink.upsert("records", ["number"], RECORD, mariadb.options()), visible, record=record)


def test_an_upsert_of_the_users_own(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    mariadb.run("ALTER TABLE records ADD PRIMARY KEY (number)")
    sql = (
        "INSERT INTO records (number, text) VALUES (?, 'is ? 100%') -- why?\n"
        "ON DUPLICATE KEY UPDATE text = CONCAT(text, ?, '\\'?')"
    )
    sink = JdbcSink.sink(sql, RECORD, mariadb.options("?useSSL=false&serverTimezone=UTC", scheme="mysql"))
    write(sink, (1, "a"), (2, "b"), (1, "c"))
    assert sorted(visible()) == [(1, "is ? 100%c'?"), (2, "is ? 100%")]


def test_values_of_each_type_come_back(mariadb: MariadbServer) -> None:
    mariadb.run("DROP TABLE IF EXISTS kinds")
    mariadb.run(
        "CREATE TABLE kinds (s text, i int, f double, b bool, d decimal(20, 5), day date, t time(6), ts datetime(6), "
        "at timestamp(6) NULL, bytes blob)"
    )
    names = ["s", "i", "f", "b", "d", "day", "t", "ts", "at", "bytes"]
    types = [
        *(Types.STRING(), Types.INT(), Types.DOUBLE(), Types.BOOLEAN(), Types.BIG_DEC(), Types.SQL_DATE()),
        *(Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
    ]
    row = (
        *('it\'s \\ "é" 🌊', -7, 1.5e300, True, Decimal("12345.67890"), dt.date(2024, 2, 29)),
        dt.time(1, 2, 3, 456789),
        dt.datetime(2024, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001 - the type has no time zone
        Instant(1_700_000_000, 123_456_000),
        b"\x00\xff'\\",
    )
    empty = (None,) * len(names)
    kinds = Types.ROW_NAMED(names, types)
    insert = "INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    write(JdbcSink.sink(insert, kinds, mariadb.options()), row, empty)
    ((seconds,),) = mariadb.run("SELECT unix_timestamp(at) FROM kinds WHERE at IS NOT NULL")
    assert seconds == Decimal("1700000000.123456"), "an instant is the same whatever the server's time zone"
    reading = ["s", "i", "f", "b", "d", "day", "ts"]
    source = (
        JdbcSource.builder()
        .set_db_url(mariadb.options().get_db_url())
        .set_username("tidemill")
        .set_password(PASSWORD)
        .set_sql("SELECT s, i, f, b, d, day, ts FROM kinds")
        .set_type_information(Types.ROW_NAMED(reading, [types[names.index(name)] for name in reading]))
        .build()
    )

    def build(env: StreamExecutionEnvironment) -> Any:
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "kinds")

    wanted = [row[names.index(name)] for name in reading]
    assert sorted(map(list, run_local(build)), key=str) == sorted([wanted, [None] * len(reading)], key=str)


def test_a_table_is_read_in_partitions(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    write(JdbcSink.sink(INSERT, RECORD, mariadb.options()), *map(record, range(20)), (None, "none"))
    builder = JdbcSource.builder().set_db_url(mariadb.options().get_db_url()).set_username("tidemill")
    source = builder.set_password(PASSWORD).set_table("records").set_partitions("number", 4).build()

    def build(env: StreamExecutionEnvironment) -> Any:
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "records")

    found = [row["number"] for row in run_local(build)]
    assert sorted(number for number in found if number is not None) == list(range(20))
    assert len(found) == 21


def test_a_rejected_record_is_in_the_error(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    mariadb.run("ALTER TABLE records ADD PRIMARY KEY (number)")
    sink = JdbcSink.sink(INSERT, RECORD, mariadb.options())
    with pytest.raises(ConnectorError, match=r"(?s)Duplicate entry '2'.*record: \(2, 'second'\)") as caught:
        write(sink, (1, "a"), (2, "first"), (2, "second"), (3, "b"))
    assert PASSWORD not in str(caught.value)
    assert visible() == [], "a batch is written as a whole"


def test_a_lock_is_waited_for(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    mariadb.run("ALTER TABLE records ADD PRIMARY KEY (number)")
    sink = JdbcSink.sink(
        "REPLACE INTO records VALUES (?, ?)",
        RECORD,
        mariadb.options(),
        JdbcExecutionOptions.builder().with_max_retries(0).build(),
    )
    with closing(mariadb.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO records VALUES (1, 'mine')")
        with pytest.raises(ConnectorError, match=r"(?s)Lock wait timeout.*tried 1 times"):
            write(sink, (1, "yours"))
        cursor.execute("ROLLBACK")
    write(sink, (1, "yours"))
    assert visible() == [(1, "yours")]


def test_a_server_that_comes_back_is_written_to(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    sink = JdbcSink.sink(INSERT, RECORD, mariadb.options())
    writer = sink.create_writer(0, 1)
    writer.write([(1, "before")], None)
    writer.prepare_commit()
    mariadb.kill()
    mariadb.start()
    writer.write([(2, "after")], None)
    writer.prepare_commit()
    writer.close()
    assert (2, "after") in visible()


def test_a_part_of_a_transaction_can_be_undone(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    session = database_of(mariadb.options()).connect()
    statement = Statement.of(INSERT, "mysql")
    with session.transaction():
        session.execute_batch(statement, [(1, "kept")])
        with suppress(ZeroDivisionError), session.transaction():
            session.execute_batch(statement, [(2, "undone")])
            _ = 1 / 0
        with session.transaction():
            session.execute_batch(statement, [(3, "kept")])
    session.close()
    assert sorted(visible()) == [(1, "kept"), (3, "kept")]


def test_what_cannot_be_reached_is_an_error_without_the_password(mariadb: MariadbServer) -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    with refusing_port() as port:
        url = f"jdbc:mysql://127.0.0.1:{port},localhost:{port}/x?password={PASSWORD}"
        with pytest.raises(ConnectorError, match=r"cannot connect to jdbc:mysql://127\.0\.0\.1") as refused:
            database_of(builder.with_url(url).build()).connect()
    assert PASSWORD not in str(refused.value)
    for options in (
        mariadb.options(password="wrong-5e1"),  # noqa: S106
        mariadb.options("?sslMode=VERIFY_IDENTITY"),
    ):
        with pytest.raises(ConnectorError, match=r"cannot connect to jdbc:mariadb://127\.0\.0\.1") as caught:
            database_of(options).connect()
        assert PASSWORD not in str(caught.value)
        assert "wrong-5e1" not in str(caught.value)


def test_an_upsert_needs_a_table_with_its_key(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    committer = JdbcSink.upsert("records", ["number"], RECORD, mariadb.options()).create_committer()
    with pytest.raises(ConfigurationError, match="neither a primary key nor a unique index"):
        committer.open(CommitterContext("job", "sink"))
    other = JdbcSink.upsert("elsewhere", ["number"], RECORD, mariadb.options()).create_committer()
    with pytest.raises(ConfigurationError, match="there is no table 'elsewhere'"):
        other.open(CommitterContext("job", "sink"))


def test_rows_are_read_in_parts(mariadb: MariadbServer, visible: Callable[[], list[Any]]) -> None:
    write(JdbcSink.sink(INSERT, RECORD, mariadb.options()), *map(record, range(10)))
    session = database_of(mariadb.options()).connect()
    parts = list(session.read("SELECT number FROM records WHERE number %% 2 = %s ORDER BY 1", (0,), 2))
    session.close()
    assert parts == [(["number"], [(0,), (2,)]), (["number"], [(4,), (6,)]), (["number"], [(8,)])]
