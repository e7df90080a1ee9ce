"""Placeholders and addresses as JDBC writes them, for client libraries that write them otherwise."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tidemill.common import Types
from tidemill.connectors.jdbc.passwords import hide_password
from tidemill.connectors.jdbc.prepared import TransactionName
from tidemill.connectors.jdbc.sql import Statement, upsert_sql
from tidemill.connectors.jdbc.url import parse_url
from tidemill.connectors.sinks import WriterContext
from tidemill.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from tidemill.errors import ConfigurationError, TypeMismatchError


@pytest.mark.parametrize(
    ("written", "translated", "fields"),
    [
        ("INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES (%s, %s)", 2),
        ("SELECT 'it''s ?' || ?", "SELECT 'it''s ?' || %s", 1),
        (r"SELECT E'\'?' , ?", r"SELECT E'\'?' , %s", 1),
        (r"SELECT '\', ?", r"SELECT '\', %s", 1),
        ('SELECT "a?b", ?', 'SELECT "a?b", %s', 1),
        ("SELECT $$?$$, $x$ ? $$ ? $x$, ?", "SELECT $$?$$, $x$ ? $$ ? $x$, %s", 1),
        ("SELECT ? -- really?\n, ?", "SELECT %s -- really?\n, %s", 2),
        ("/* ? /* ? */ ? */ SELECT ?", "/* ? /* ? */ ? */ SELECT %s", 1),
        ("SELECT tags ?? 'a' AND id = ?", "SELECT tags ? 'a' AND id = %s", 1),
        ("UPDATE t SET a = a % ? WHERE b LIKE '%x'", "UPDATE t SET a = a %% %s WHERE b LIKE '%%x'", 1),
        ("SELECT a[?]", "SELECT a[%s]", 1),
    ],
)
def test_placeholders_of_postgresql(written: str, translated: str, fields: int) -> None:
    assert Statement.of(written, "postgresql") == Statement(written, translated, fields)


@pytest.mark.parametrize(
    ("written", "fields"),
    [
        ("INSERT INTO t VALUES (?, ?)", 2),
        ("SELECT [a?], `b?`, \"c?\", 'd?' FROM t /* ? */ WHERE x % ? = 0 -- ?", 1),
    ],
)
def test_placeholders_of_sqlite_stay_what_they_are(written: str, fields: int) -> None:
    assert Statement.of(written, "sqlite") == Statement(written, written, fields)


def test_an_upsert_replaces_all_columns_but_the_key() -> None:
    assert upsert_sql("s.t", ["id", "a b", 'c"d'], ["id"]) == (
        'INSERT INTO "s"."t" ("id", "a b", "c""d") VALUES (?, ?, ?) '
        'ON CONFLICT ("id") DO UPDATE SET "a b" = excluded."a b", "c""d" = excluded."c""d"'
    )
    assert upsert_sql("t", ["id"], ["id"]).endswith('ON CONFLICT ("id") DO NOTHING')
    with pytest.raises(ConfigurationError, match="number is not one of them"):
        upsert_sql("t", ["id", "name"], ["number"])
    with pytest.raises(ConfigurationError, match="none was given"):
        upsert_sql("t", ["id", "name"], [])


def test_addresses_of_postgresql() -> None:
    full = parse_url("jdbc:postgresql://a:1,[::1]:2/my%20db?user=me&ssl=true&currentSchema=s&targetServerType=primary")
    assert full.shown == "jdbc:postgresql://a:1,::1:2/my db"
    assert dict(full.parameters) == {
        "host": "a,::1",
        "port": "1,2",
        "dbname": "my db",
        "user": "me",
        "sslmode": "verify-full",
        "options": "-c search_path=s",
        "target_session_attrs": "primary",
    }
    assert parse_url("jdbc:postgresql:shop").shown == "jdbc:postgresql://localhost:5432/shop"
    assert parse_url("jdbc:postgresql://db/shop").parameters["port"] == "5432"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("jdbc:db2://db/shop?password=canary", "unknown database URL"),
        ("jdbc:postgresql://me:canary@db/shop", "the user must not be part of the URL"),
        ("jdbc:postgresql://db/shop?password=canary&cipher=7", "parameter 'cipher'"),
        ("jdbc:postgresql://db:port/shop", "not a host with a port"),
        ("jdbc:sqlite::memory:", "in the memory of one process"),
    ],
)
def test_bad_addresses_are_refused_and_show_no_password(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    assert "canary" not in str(raised.value)


def test_options_show_no_password_and_keep_it() -> None:
    url = "jdbc:postgresql://db/shop?password=canary-1"
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_user_name("me")
    options = builder.with_password("canary-2").with_driver_name("org.postgresql.Driver").build()
    assert "canary" not in repr(options) + str(options) + hide_password(url)
    copy = pickle.loads(pickle.dumps(options))
    assert (copy.get_db_url(), copy.get_user_name(), copy.get_password()) == (url, "me", "canary-2")
    assert copy.get_driver_name() == "org.postgresql.Driver"
    sink = JdbcSink.sink("INSERT INTO t VALUES (?)", Types.TUPLE([Types.LONG()]), options)
    assert "canary" not in repr(vars(sink))


def test_execution_options_are_flinks() -> None:
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_batch_interval_ms(), defaults.get_max_retries()) == (5000, 0, 3)
    built = JdbcExecutionOptions.builder().with_batch_size(1).with_batch_interval_ms(2).with_max_retries(0).build()
    assert (built.get_batch_size(), built.get_batch_interval_ms(), built.get_max_retries()) == (1, 2, 0)
    with pytest.raises(ConfigurationError, match="a batch size of 0"):
        JdbcExecutionOptions.builder().with_batch_size(0)
    with pytest.raises(ConfigurationError, match="a batch size must be an integer, not str '200'"):
        JdbcExecutionOptions.builder().with_batch_size("200")  # type: ignore[arg-type]


def test_a_sink_that_cannot_work_is_refused_when_it_is_built() -> None:
    postgres = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db/shop").build()
    sqlite = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:shop.db").build()
    pair = Types.TUPLE([Types.LONG(), Types.STRING()])
    with pytest.raises(ConfigurationError, match=r"3 placeholders.*2 fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?, ?, ?)", pair, postgres)
    with pytest.raises(ConfigurationError, match="records with fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.LONG(), postgres)
    map_type = Types.TUPLE([Types.MAP(Types.STRING(), Types.LONG())])
    with pytest.raises(TypeMismatchError, match=r"field 'f0'.*MapTypeInfo"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", map_type, postgres)
    with pytest.raises(TypeMismatchError, match="SQLite"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.TUPLE([Types.LIST(Types.LONG())]), sqlite)
    with pytest.raises(ConfigurationError, match="only PostgreSQL"):
        JdbcSink.exactly_once_sink("INSERT INTO t VALUES (?, ?)", pair, sqlite)
    with pytest.raises(ConfigurationError, match=r"a list, not a string: \['f0'\]"):
        JdbcSink.upsert("t", "f0", pair, sqlite)


def test_a_builder_on_which_build_was_forgotten_is_refused() -> None:
    where: Any = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db/shop")
    how: Any = JdbcExecutionOptions.builder()
    once: Any = JdbcExactlyOnceOptions.builder()
    sql, pair = "INSERT INTO t VALUES (?, ?)", Types.TUPLE([Types.LONG(), Types.STRING()])
    attempts: list[Callable[[], Any]] = [
        lambda: JdbcSink.sink(sql, pair, where),
        lambda: JdbcSink.sink(sql, pair, where.build(), how),
        lambda: JdbcSink.upsert("t", ["f0"], pair, where.build(), how),
        lambda: JdbcSink.exactly_once_sink(sql, pair, where.build(), how),
        lambda: JdbcSink.exactly_once_sink(sql, pair, where.build(), None, once),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigurationError, match=r"requires Jdbc\w+Options, not .*Builder: is build\(\) missing"):
            attempt()


def test_transactions_are_named_by_who_prepared_them() -> None:
    context = WriterContext("orders", "sink uid 'of' somebody", 3, 4, "000000000007-b", 12, "4f" * 18, history="h-1")
    name = TransactionName.of(context)
    assert str(name).startswith("tidemill/orders/")
    assert "/h-1/000000000007-b/12/3/" in str(name)
    assert TransactionName.parse(str(name)) == name
    assert name.sink == TransactionName.sink_of("orders", "sink uid 'of' somebody")
    assert set(str(name)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-/")

    longest = WriterContext(
        "j" * 300, "o" * 300, 10**5, 10**6, "0" * 20 + "-" + "a" * 16, 10**12, "x" * 80, None, "h" * 37
    )
    assert len(str(TransactionName.of(longest))) < 200
    for other in ("of somebody else", "tidemill/a/b/c", "tidemill/a/b/c/d/e/f/g"):
        assert TransactionName.parse(other) is None
