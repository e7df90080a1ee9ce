"""The database sink and source on a real PostgreSQL server: types, errors, lost connections, secrets."""

from __future__ import annotations

import datetime as dt
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

from examples.connectors import jdbc_orders, postgres_exactly_once
from tests.ports import refusing_port
from tests.postgres_server import PASSWORD, USER, PostgresServer, postgres_server
from tests.waiting import eventually
from tidemill.common import Instant, Row, Types
from tidemill.connectors.sinks import CommitterContext, Sink
from tidemill.connectors.sources import Split
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink, JdbcSource
from tidemill.errors import ConfigurationError, ConnectorError, TidemillError
from tidemill.faults import Fault
from tidemill.testing import JobHarness, run_local

pytestmark = pytest.mark.usefixtures("sessions")
WORDS = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
INSERT = "INSERT INTO words VALUES (?, ?)"


@pytest.fixture(autouse=True)
def words(postgres: PostgresServer) -> Callable[[], list[Any]]:
    postgres.run("DROP TABLE IF EXISTS words")
    postgres.run("CREATE TABLE words (word text PRIMARY KEY, count bigint)")
    return lambda: postgres.run("SELECT word, count FROM words ORDER BY word")


def counting(sink: Sink) -> Callable[..., None]:
    def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
        counts = words.map(lambda word: Row(word=word, count=1)).key_by(lambda row: row["word"])
        totals = counts.reduce(lambda a, b: Row(word=a["word"], count=a["count"] + b["count"]))
        totals.sink_to(sink).uid("sink")

    return build


def options_for(url: str, password: str = PASSWORD, seconds: int = 60) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_user_name(USER)
    return builder.with_password(password).with_connection_check_timeout_seconds(seconds).build()


def test_upserts_overwrite_what_a_failed_attempt_wrote(postgres: PostgresServer, words: Any) -> None:
    sink = JdbcSink.upsert("public.words", ["word"], WORDS, postgres.options)
    with JobHarness(counting(sink), inputs=["words"]) as job:
        job.epoch(words=["a", "b", "a"])
        job.crash(Fault("sink.precommit.after", skip=1), words=["a", "c"])
        job.run()
        job.restart(parallelism=3)
        job.epoch(words=["c", "b"])
    assert words() == [("a", 3), ("b", 2), ("c", 2)]


def test_values_keep_their_types(postgres: PostgresServer) -> None:
    columns = {
        "a": ("smallint", Types.SHORT(), -5),
        "b": ("bigint", Types.LONG(), 1 << 60),
        "c": ("double precision", Types.DOUBLE(), 0.1),
        "d": ("numeric(20, 5)", Types.BIG_DEC(), Decimal("123456789.00001")),
        "e": ("text", Types.STRING(), "it's % ? \\ ü €"),
        "f": ("bytea", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        "g": ("boolean", Types.BOOLEAN(), False),
        "h": ("date", Types.SQL_DATE(), dt.date(2026, 2, 3)),
        "i": ("time", Types.SQL_TIME(), dt.time(4, 5, 6, 789)),
        "j": ("timestamp", Types.SQL_TIMESTAMP(), dt.datetime(2026, 2, 3, 4, 5, 6, 7)),  # noqa: DTZ001 - without a zone
        "k": ("timestamptz", Types.INSTANT(), Instant(1_770_000_000, 123_456_000)),
        "l": ("bigint[]", Types.LIST(Types.LONG()), [1, 2, 1 << 40]),
        "m": ("jsonb", Types.STRING(), '{"a": 1}'),
        "n": ("numeric", Types.BIG_INT(), 1 << 70),
    }
    postgres.run("DROP TABLE IF EXISTS kinds")
    postgres.run(f"CREATE TABLE kinds ({', '.join(f'{name} {sql}' for name, (sql, _, _) in columns.items())})")
    kinds = Types.ROW_NAMED(list(columns), [kind for _, kind, _ in columns.values()])
    row = Row(**{name: value for name, (_, _, value) in columns.items()})
    nothing = Row(**dict.fromkeys(columns))
    marks = ", ".join("?" * len(columns))
    insert = f"INSERT INTO kinds VALUES ({marks})"  # noqa: S608
    writer = JdbcSink.sink(insert, kinds, postgres.options).create_writer(0, 1)
    writer.write([row, nothing], None)
    writer.prepare_commit()
    writer.close()

    builder = JdbcSource.builder().set_db_url(postgres.url).set_username(USER).set_password(PASSWORD)
    # jsonb comes back as what it means, and numeric as a decimal: the query says what is wanted.
    names = ", ".join(f"{name}::text" if name in "mn" else name for name in columns)
    source = builder.set_sql(f"SELECT {names} FROM kinds").set_type_information(kinds).build()  # noqa: S608
    assert sorted(run_local(lambda env: env.from_source(source, None, "kinds")), key=repr) == sorted(
        [row, nothing], key=repr
    )


def test_a_record_that_the_database_refuses_is_shown(postgres: PostgresServer, words: Any) -> None:
    options = JdbcExecutionOptions.builder().with_batch_size(100).build()
    writer = JdbcSink.sink(INSERT, WORDS, postgres.options, options).create_writer(0, 1)
    writer.write([Row(word=word, count=1) for word in ("a", "b", "a")], None)
    with pytest.raises(ConnectorError) as raised:
        writer.prepare_commit()
    message = str(raised.value)
    assert 'duplicate key value violates unique constraint "words_pkey"' in message
    assert "(SQLSTATE 23505)" in message
    assert f"statement: {INSERT}" in message
    assert "record: Row(word='a', count=1)" in message
    assert words() == []
    writer.close()


def test_text_that_the_database_cannot_hold_is_shown(postgres: PostgresServer) -> None:
    writer = JdbcSink.sink(INSERT, WORDS, postgres.options).create_writer(0, 1)
    writer.write([Row(word="fine", count=1), Row(word="nul\0", count=2)], None)
    with pytest.raises(ConnectorError, match=r"cannot contain NUL(?s:.*)record: Row\(word='nul"):
        writer.prepare_commit()
    writer.close()


@pytest.mark.parametrize(
    ("create", "problem"),
    [
        (
            "CREATE TABLE totals (text text PRIMARY KEY, count bigint)",
            "no key column word; its columns are text, count",
        ),
        (
            "CREATE TABLE totals (word text, count bigint)",
            r"neither a primary key nor a unique index of exactly \(word\)",
        ),
        ("CREATE TABLE totals (word text, count bigint, UNIQUE (word, count))", "neither a primary key"),
        ("CREATE TABLE totals (word text, count bigint, PRIMARY KEY (word) INCLUDE (count))", ""),
    ],
)
def test_the_table_of_an_upsert_needs_its_key(postgres: PostgresServer, create: str, problem: str) -> None:
    postgres.run("DROP TABLE IF EXISTS totals")
    postgres.run(create)
    committer = JdbcSink.upsert("totals", ["word"], WORDS, postgres.options).create_committer()
    context = CommitterContext("job", "sink")
    if problem:
        with pytest.raises(ConfigurationError, match=problem):
            committer.open(context)
    else:
        committer.open(context)


def test_a_connection_that_is_lost_is_made_again(postgres: PostgresServer, words: Any) -> None:
    writer = JdbcSink.upsert("words", ["word"], WORDS, postgres.options).create_writer(0, 1)
    writer.write([Row(word="a", count=1)], None)
    writer.prepare_commit()
    postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemill'")
    writer.write([Row(word="b", count=1)], None)
    writer.prepare_commit()
    writer.close()
    assert words() == [("a", 1), ("b", 1)]


def test_a_server_that_is_restarted_in_the_middle() -> None:
    with postgres_server() as server:
        server.run("CREATE TABLE words (word text PRIMARY KEY, count bigint)")
        retries = JdbcExecutionOptions.builder().with_max_retries(8).build()
        sink = JdbcSink.upsert("words", ["word"], WORDS, server.options, retries)
        with JobHarness(counting(sink), inputs=["words"]) as job:
            job.epoch(words=["a", "b"])
            server.restart()
            job.epoch(words=["a", "c"])
        assert server.run("SELECT word, count FROM words ORDER BY word") == [("a", 2), ("b", 1), ("c", 1)]


# --- trouble with the server, and secrets


def test_a_missing_server_is_reported_with_its_address_at_once() -> None:
    with refusing_port() as port:
        url = f"jdbc:postgresql://127.0.0.1:{port}/shop"
        sink = JdbcSink.upsert("words", ["word"], WORDS, options_for(url, seconds=120))
        started = time.monotonic()
        with pytest.raises(ConnectorError) as raised:
            JobHarness(counting(sink), inputs=["words"])
        assert url in str(raised.value)
        assert "Connection refused" in str(raised.value)
        assert time.monotonic() - started < 60


def test_a_server_that_says_nothing_is_given_up_within_the_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"jdbc:postgresql://127.0.0.1:{silent.getsockname()[1]}/shop"
        started = time.monotonic()
        with pytest.raises(ConnectorError, match=url):
            JobHarness(counting(JdbcSink.sink(INSERT, WORDS, options_for(url, seconds=2))), inputs=["words"])
        assert time.monotonic() - started < 60


@contextmanager
def failure() -> Iterator[list[str]]:
    """Collects what an error shows, with all that it came from."""
    shown: list[str] = []
    with pytest.raises(TidemillError) as raised:
        yield shown
    error: BaseException | None = raised.value
    while error is not None:
        shown += [str(error), repr(error)]
        error = error.__cause__ or error.__context__


def test_passwords_are_shown_nowhere(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    in_url = f"{postgres.url}?user=tidemill&password={PASSWORD}"
    texts: list[str] = []

    with failure() as shown:  # a wrong password
        JobHarness(counting(JdbcSink.sink(INSERT, WORDS, options_for(postgres.url, PASSWORD + "x"))), inputs=["words"])
    assert "password authentication failed" in shown[0]
    texts += shown
    with failure() as shown:  # no such database
        url = in_url.replace("/postgres?", "/nowhere?")
        JobHarness(counting(JdbcSink.sink(INSERT, WORDS, options_for(url))), inputs=["words"])
    assert 'database "nowhere" does not exist' in shown[0]
    texts += shown
    with (
        failure() as shown,
        JobHarness(  # a statement that is wrong
            counting(JdbcSink.sink("INSERT INTO wrods VALUES (?, ?)", WORDS, options_for(in_url))), inputs=["words"]
        ) as job,
    ):
        job.epoch(words=["a"])
    assert 'relation "wrods" does not exist' in shown[0]
    texts += shown
    with failure() as shown:  # a query that is wrong
        source = JdbcSource.builder().set_db_url(in_url).set_table("wrods").build()
        run_local(lambda env: env.from_source(source, None, "words"))
    texts += shown

    env = StreamExecutionEnvironment.get_execution_environment()
    rows = env.from_source(JdbcSource.builder().set_db_url(in_url).set_table("words").build(), None, "words")
    rows.sink_to(JdbcSink.exactly_once_sink(INSERT, WORDS, options_for(in_url)))
    texts += [env.get_execution_plan(), env.explain()]
    texts += [record.getMessage() for record in caplog.records]
    assert not [text for text in texts if PASSWORD in text]


def test_without_psycopg_the_message_says_what_to_install(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tidemill\[postgres\]'"):
        JdbcSink.sink(INSERT, WORDS, postgres.options)


# --- the source


def test_a_table_is_read_in_partitions(postgres: PostgresServer) -> None:
    postgres.run("DROP TABLE IF EXISTS numbers")
    postgres.run("CREATE TABLE numbers (id bigint, at timestamptz)")
    postgres.run(
        "INSERT INTO numbers SELECT n, timestamptz '2026-01-01Z' + n * interval '1 h' FROM generate_series(1, 500) n"
    )
    postgres.run("INSERT INTO numbers VALUES (NULL, NULL)")
    builder = JdbcSource.builder().set_db_url(postgres.url).set_username(USER).set_password(PASSWORD)
    tens = builder.set_sql("SELECT id FROM numbers WHERE id % 10 = 0").set_type_information(Types.LONG())
    by_id = tens.set_partitions("id", 5).set_result_set_fetch_size(7).build()
    assert sorted(run_local(lambda env: env.from_source(by_id, None, "numbers"))) == list(range(10, 501, 10))

    pairs = Types.ROW_NAMED(["id", "at"], [Types.LONG(), Types.INSTANT()])
    by_time = builder.set_table("numbers").set_type_information(pairs).set_partitions("at", 3).build()
    rows = run_local(lambda env: env.from_source(by_time, None, "numbers"))
    assert sorted((row["id"] or 0) for row in rows) == list(range(501))


def test_all_rows_of_a_partition_are_of_one_moment(postgres: PostgresServer, words: Any) -> None:
    postgres.run("INSERT INTO words SELECT 'w' || n, 1 FROM generate_series(1, 50) n")
    builder = JdbcSource.builder().set_db_url(postgres.url).set_username(USER).set_password(PASSWORD)
    source = builder.set_table("words").set_result_set_fetch_size(5).build()
    (split,) = source.create_enumerator(None).next_splits(1, 1000)
    assert isinstance(split, Split)
    batches = source.read(split)
    first = next(batches)
    postgres.run("UPDATE words SET count = 2")
    assert {row["count"] for batch in [first, *batches] for row in batch.values} == {1}


def test_reading_works_without_the_right_to_write(postgres: PostgresServer, words: Any) -> None:
    postgres.run("DROP ROLE IF EXISTS reader")
    postgres.run("CREATE ROLE reader LOGIN PASSWORD 'another'")
    postgres.run("GRANT SELECT ON words TO reader")
    postgres.run("INSERT INTO words VALUES ('a', 1)")
    reader = JdbcSource.builder().set_db_url(postgres.url).set_username("reader").set_password("another")
    source = reader.set_table("words").build()
    assert run_local(lambda env: env.from_source(source, None, "words")) == [Row(word="a", count=1)]
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(postgres.url)
    writer = JdbcSink.sink(INSERT, WORDS, options.with_user_name("reader").with_password("another").build())
    with (
        pytest.raises(ConnectorError, match="permission denied for table words"),
        JobHarness(counting(writer), inputs=["words"]) as job,
    ):
        job.epoch(words=["b"])
    postgres.run("REVOKE ALL ON words FROM reader")
    postgres.run("DROP ROLE reader")


def test_the_examples(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jdbc_orders.main(["--target", "local"]) == [("Ada", 43), ("Bob", 25), ("Eve", 7)]
    postgres.run("DROP TABLE IF EXISTS visits")
    postgres.run("CREATE TABLE visits (page text, visitor text)")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    postgres_exactly_once.main(["--url", postgres.url, "--user", USER, "--target", "local"])
    assert sorted(postgres.run("SELECT * FROM visits")) == sorted(postgres_exactly_once.VISITS)
    assert postgres.prepared() == []


def test_connections_are_closed_with_the_job(postgres: PostgresServer) -> None:
    sink = JdbcSink.upsert("words", ["word"], WORDS, postgres.options)
    with JobHarness(counting(sink), inputs=["words"]) as job:
        job.epoch(words=["a", "b"])
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill'"
    eventually(lambda: postgres.run(count) == [(0,)])
