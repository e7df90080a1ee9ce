"""The database sink and source on SQLite: batches, retries, errors, upserts and partitions, without a server."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Instant, Row, Types, WatermarkStrategy
from tidemill.connectors.sinks import CommitterContext, Sink
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink, JdbcSource
from tidemill.errors import ConfigurationError, ConnectorError, TypeMismatchError
from tidemill.faults import Fault
from tidemill.testing import JobHarness, run_local

WORDS = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])


class File:
    """A database in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        sqlite3.connect(path).close()
        self.run("CREATE TABLE words (word TEXT PRIMARY KEY, count INTEGER)")
        self.options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(sql, parameters).fetchall()

    def words(self) -> list[Any]:
        return self.run("SELECT word, count FROM words ORDER BY word")


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "some words.db")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    pauses: list[int] = []
    monkeypatch.setattr("tidemill.connectors.jdbc.sink.pause", pauses.append)
    return pauses


def counting(sink: Sink) -> Any:
    def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
        counts = words.map(lambda word: Row(word=word, count=1)).key_by(lambda row: row["word"])
        totals = counts.reduce(lambda a, b: Row(word=a["word"], count=a["count"] + b["count"]))
        totals.sink_to(sink).uid("sink")

    return build


def test_upserts_overwrite_what_a_failed_attempt_wrote(file: File) -> None:
    sink = JdbcSink.upsert("words", ["word"], WORDS, file.options)
    assert sink.guarantee == "effectively-once"
    with JobHarness(counting(sink), inputs=["words"]) as job:
        job.epoch(words=["a", "b", "a"])
        assert file.words() == [("a", 2), ("b", 1)]
        job.crash(Fault("sink.precommit.after", skip=1), words=["a", "c"])  # one subtask at least has written
        job.run()
        assert file.words() == [("a", 3), ("b", 1), ("c", 1)]
        job.crash(Fault("manifest.after"), words=["c"])
        job.restart(parallelism=3)
        job.epoch(words=["c", "b"])
    assert file.words() == [("a", 3), ("b", 2), ("c", 3)]


def test_a_plain_statement_takes_effect_at_least_once(file: File) -> None:
    file.run("CREATE TABLE seen (word TEXT)")
    sink = JdbcSink.sink("INSERT INTO seen VALUES (?)", Types.TUPLE([Types.STRING()]), file.options)
    assert sink.guarantee == "at-least-once"

    def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
        words.map(lambda word: (word,)).add_sink(sink)

    with JobHarness(build, inputs=["words"], parallelism=1) as job:
        job.epoch(words=["a"])
        job.crash(Fault("acks.collected"), words=["b"])
        job.run()
    assert file.run("SELECT * FROM seen") == [("a",), ("b",), ("b",)]


def test_batches_are_written_when_full_when_old_and_at_the_end_of_the_epoch(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("tidemill.connectors.jdbc.batches.time.monotonic", lambda: now)
    options = JdbcExecutionOptions.builder().with_batch_size(3).with_batch_interval_ms(1000).build()
    writer = JdbcSink.upsert("words", ["word"], WORDS, file.options, options).create_writer(0, 1)
    writer.write([Row(word="a", count=1), Row(word="b", count=1)], None)
    assert file.words() == []
    writer.write([Row(word=word, count=1) for word in "cdef"], None)
    assert [word for word, _ in file.words()] == ["a", "b", "c", "d", "e", "f"]
    writer.write([Row(word="g", count=1)], None)
    now += 1.5
    assert len(file.words()) == 6
    writer.write([Row(word="h", count=1)], None)
    assert len(file.words()) == 8
    writer.write([Row(word="i", count=1)], None)
    assert writer.prepare_commit() == ()
    assert len(file.words()) == 9
    writer.close()


def test_records_are_bound_by_the_declared_type(file: File) -> None:
    file.run("CREATE TABLE kinds (a, b, c, d, e, f, g, h)")
    kinds = Types.ROW_NAMED(
        list("abcdefgh"),
        [
            Types.BIG_DEC(),
            Types.SQL_DATE(),
            Types.SQL_TIMESTAMP(),
            Types.INSTANT(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.BIG_INT(),
            Types.BOOLEAN(),
            Types.SQL_TIME(),
        ],
    )
    moment = dt.datetime(2026, 2, 3, 4, 5, 6, 789, dt.timezone.utc)
    values = {
        "a": Decimal("1.10"),
        "b": moment.date(),
        "c": moment,
        "d": Instant(1, 5_000_000),
        "e": [-1, 2],
        "f": 1 << 70,
        "g": True,
        "h": moment.time(),
    }
    marks = ", ".join("?" * 8)
    writer = JdbcSink.sink(f"INSERT INTO kinds VALUES ({marks})", kinds, file.options).create_writer(0, 1)  # noqa: S608
    backwards = dict(reversed(values.items()))
    writer.write([Row(**values), Row(*values.values()), Row(**backwards), values, Row(*[None] * 8)], None)
    writer.prepare_commit()
    writer.close()
    stored = (
        "1.10",
        "2026-02-03",
        "2026-02-03 04:05:06.000789+00:00",
        "1970-01-01 00:00:01.005000+00:00",
        b"\xff\x02",
        str(1 << 70),
        1,
        "04:05:06.000789",
    )
    assert file.run("SELECT * FROM kinds") == [stored] * 4 + [(None,) * 8]

    source = (
        JdbcSource.builder()
        .set_db_url(file.options.get_db_url())
        .set_table("kinds")
        .set_type_information(kinds)
        .build()
    )
    (read, *_) = run_local(lambda env: env.from_source(source, None, "kinds"))
    assert read == Row(**{**values, "e": b"\xff\x02"})


def test_a_record_of_another_type_is_shown(file: File) -> None:
    writer = JdbcSink.upsert("words", ["word"], WORDS, file.options).create_writer(0, 1)
    with pytest.raises(TypeMismatchError, match=r"count: expected Long, got str 'two'.*The record is Row\(word='b'"):
        writer.write([Row(word="a", count=1), Row(word="b", count="two")], None)
    writer.close()


def test_a_record_that_the_database_refuses_is_shown_with_the_statement_and_its_words(
    file: File, no_pauses: list[int]
) -> None:
    file.run("CREATE TABLE small (word TEXT, count INTEGER CHECK (count < 10))")
    writer = JdbcSink.sink("INSERT INTO small VALUES (?, ?)", WORDS, file.options).create_writer(0, 1)
    writer.write([Row(word=word, count=n) for word, n in (("a", 1), ("b", 99), ("c", 2))], None)
    with pytest.raises(ConnectorError) as raised:
        writer.prepare_commit()
    message = str(raised.value)
    assert "CHECK constraint failed" in message
    assert "statement: INSERT INTO small VALUES (?, ?)" in message
    assert "record: Row(word='b', count=99)" in message
    assert no_pauses == []  # it is refused every time
    assert file.run("SELECT * FROM small") == []
    writer.close()


def test_a_database_that_is_busy_is_tried_again(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    blocker = sqlite3.connect(file.path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(file.options.get_db_url())
    quick = builder.with_connection_check_timeout_seconds(1).build()

    def release(tries: int) -> None:
        if not released.is_set():
            blocker.close()
            released.set()

    monkeypatch.setattr("tidemill.connectors.jdbc.sink.pause", release)
    writer = JdbcSink.upsert("words", ["word"], WORDS, quick).create_writer(0, 1)
    writer.write([Row(word="a", count=1)], None)
    writer.prepare_commit()
    writer.close()
    assert released.is_set()
    assert file.words() == [("a", 1)]


def test_a_database_that_stays_busy_fails_the_job_after_the_retries(file: File, no_pauses: list[int]) -> None:
    quick = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(file.options.get_db_url())
        .with_connection_check_timeout_seconds(1)
        .build()
    )
    options = JdbcExecutionOptions.builder().with_max_retries(1).build()
    with closing(sqlite3.connect(file.path, isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        writer = JdbcSink.upsert("words", ["word"], WORDS, quick, options).create_writer(0, 1)
        writer.write([Row(word="a", count=1)], None)
        with pytest.raises(ConnectorError, match=r"database is locked(?s:.*)tried 2 times"):
            writer.prepare_commit()
        writer.close()
    assert no_pauses == [0]


@pytest.mark.parametrize(
    ("create", "problem"),
    [
        ("CREATE TABLE other (word TEXT PRIMARY KEY)", "there is no table 'totals'"),
        (
            "CREATE TABLE totals (text TEXT PRIMARY KEY, count INTEGER)",
            "no key column word; its columns are text, count",
        ),
        ("CREATE TABLE totals (word TEXT PRIMARY KEY)", "no column count"),
        (
            "CREATE TABLE totals (word TEXT, count INTEGER)",
            r"neither a primary key nor a unique index of exactly \(word\)",
        ),
        ("CREATE TABLE totals (word TEXT, count INTEGER, UNIQUE (word, count))", "neither a primary key"),
    ],
)
def test_a_table_without_its_key_is_refused_when_the_job_starts(file: File, create: str, problem: str) -> None:
    file.run(create)
    sink = JdbcSink.upsert("totals", ["word"], WORDS, file.options)
    with pytest.raises(ConfigurationError, match=problem):
        JobHarness(counting(sink), inputs=["words"])


def test_a_unique_index_is_as_good_as_a_primary_key(file: File) -> None:
    file.run("CREATE TABLE totals (word TEXT, count INTEGER)")
    file.run("CREATE UNIQUE INDEX by_word ON totals (word)")
    committer = JdbcSink.upsert("main.totals", ["word"], WORDS, file.options).create_committer()
    committer.open(CommitterContext("job", "sink"))
    committer.close()


def test_a_file_that_is_not_there_is_an_error_and_not_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "missing.db"
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()
    with pytest.raises(ConnectorError, match=r"cannot connect to .*missing\.db: unable to open database file"):
        JobHarness(counting(JdbcSink.upsert("words", ["word"], WORDS, options)), inputs=["words"])
    assert not path.exists()


# --- the source


def numbered(file: File, count: int) -> list[tuple[int | None, str]]:
    file.run("CREATE TABLE numbers (id INTEGER, text TEXT)")
    rows: list[tuple[int | None, str]] = [(number, f"t{number}") for number in range(count)]
    rows += [(None, "nothing"), (-50, "below"), (1000, "above")]
    with closing(sqlite3.connect(file.path, isolation_level=None)) as connection:
        connection.executemany("INSERT INTO numbers VALUES (?, ?)", rows)
    return rows


def reading(source: JdbcSource) -> Any:
    return lambda env: env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


def test_a_table_is_read_whole_in_any_number_of_partitions(file: File) -> None:
    rows = numbered(file, 40)
    builder = JdbcSource.builder().set_db_url(file.options.get_db_url()).set_table("numbers")
    named = [Row(id=number, text=text) for number, text in rows]
    assert sorted(run_local(reading(builder.build())), key=repr) == sorted(named, key=repr)
    for partitions in (1, 2, 7):
        found = run_local(reading(builder.set_partitions("id", partitions).build()))
        assert sorted(found, key=repr) == sorted(named, key=repr)
    found = run_local(reading(builder.set_partitions("id", 4, lower_bound=10, upper_bound=20).build()))
    assert sorted(found, key=repr) == sorted(named, key=repr)


def test_each_epoch_reads_a_partition_per_subtask_and_a_restart_continues_with_the_same_boundaries(file: File) -> None:
    numbered(file, 40)
    source = (
        JdbcSource.builder()
        .set_db_url(file.options.get_db_url())
        .set_sql("SELECT id, text FROM numbers WHERE id IS NOT NULL;")
        .set_type_information(PAIR)
        .set_partitions("id", 4, 0, 39)
        .set_result_set_fetch_size(3)
        .build()
    )
    with JobHarness(reading(source)) as job:
        job.epoch()
        assert sorted(number for number, _ in job.output()) == [-50, *range(20)]
        job.crash(Fault("manifest.before"))
        job.restart(parallelism=1)
        job.epoch()
        assert sorted(number for number, _ in job.output()) == [-50, *range(30)]
        job.end()
        assert sorted(number for number, _ in job.output()) == [-50, *range(40), 1000]


def test_partitions_by_dates_and_times() -> None:
    def cuts(number: int, lower: Any, upper: Any) -> Any:
        builder = JdbcSource.builder().set_db_url("jdbc:sqlite:x.db").set_table("t")
        enumerator = builder.set_partitions("at", number, lower, upper).build().create_enumerator(None)
        return enumerator.position()["cuts"]

    assert cuts(5000, 1, 3) == [2, 3]  # no more partitions than values
    assert cuts(3, dt.date(2026, 1, 1), dt.date(2026, 1, 9)) == ["2026-01-04", "2026-01-07"]
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    assert cuts(2, start, start + dt.timedelta(hours=2)) == ["2026-01-01 01:00:00+00:00"]
    with pytest.raises(ConfigurationError, match="the lower bound must come first"):
        cuts(2, 5, 1)
    with pytest.raises(ConfigurationError, match=r"cannot be partitioned at 1\.5"):
        cuts(2, 1.5, 2.5)


def test_an_empty_table_ends_at_once(file: File) -> None:
    builder = JdbcSource.builder().set_db_url(file.options.get_db_url()).set_table("words")
    assert run_local(reading(builder.set_partitions("count", 3).build())) == []


def test_a_row_that_does_not_fit_the_type_is_shown(file: File) -> None:
    file.run("INSERT INTO words VALUES ('a', 'many')")
    builder = JdbcSource.builder().set_db_url(file.options.get_db_url()).set_table("words")
    with pytest.raises(TypeMismatchError, match=r"expected Long, got str 'many'.*The row is Row\(word='a'"):
        run_local(reading(builder.set_type_information(WORDS).build()))
    with pytest.raises(TypeMismatchError, match="the query has 2 columns"):
        run_local(reading(builder.set_type_information(Types.TUPLE([Types.LONG()])).build()))


def test_a_query_that_fails_is_shown(file: File) -> None:
    builder = JdbcSource.builder().set_db_url(file.options.get_db_url())
    with pytest.raises(ConnectorError, match=r"no such table: wrods(?s:.*)query: SELECT \* FROM wrods"):
        run_local(reading(builder.set_sql("SELECT * FROM wrods").build()))
    with pytest.raises(ConnectorError, match=r"no such column: tidemill_rows\.cuont"):
        run_local(reading(builder.set_table("words").set_partitions("cuont", 2).build()))
    with pytest.raises(ConfigurationError, match="must not have parameters"):
        builder.set_sql("SELECT * FROM words WHERE count > ?").build()
    with pytest.raises(ConfigurationError, match="needs a query"):
        JdbcSource.builder().set_db_url(file.options.get_db_url()).build()
