"""MySQL, MariaDB, SQL Server and Oracle without a server: URLs, placeholders, and the calls of client libraries."""

from __future__ import annotations

import datetime as dt
import logging
import sys
from types import ModuleType
from typing import Any

import pytest

from tidemill.common import Instant, Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.database import Database, DatabaseTrouble
from tidemill.connectors.jdbc.databases import database_of
from tidemill.connectors.jdbc.passwords import hide_password
from tidemill.connectors.jdbc.server_urls import hosts_of
from tidemill.connectors.jdbc.sql import Statement, upsert_sql
from tidemill.connectors.jdbc.url import parse_url
from tidemill.datastream.connectors import JdbcConnectionOptions, JdbcSink, JdbcSource
from tidemill.errors import ConfigurationError, ConnectorError, TypeMismatchError

SECRET = "canary-91d"  # noqa: S105 - if it ever shows, a test fails
WORD = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])


def options(url: str) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    return builder.with_user_name("me").with_password(SECRET).with_driver_name("com.example.Driver").build()


# --- URLs


@pytest.mark.parametrize(
    ("url", "shown", "parameters"),
    [
        (
            "jdbc:mysql://db/shop?useSSL=false&serverTimezone=UTC&allowPublicKeyRetrieval=true",
            "jdbc:mysql://db:3306/shop",
            {"host": "db", "port": "3306", "dbname": "shop", "ssl": "disable"},
        ),
        (
            "jdbc:mariadb://a:1,[::1]/s%20p?user=me&password=x%26y&socketTimeout=1500&sslMode=VERIFY_CA&serverSslCert=/c",
            "jdbc:mariadb://a:1,::1:3306/s p",
            {
                "host": "a,::1",
                "port": "1,3306",
                "dbname": "s p",
                "user": "me",
                "password": "x&y",
                "read_timeout": "2",
                "ssl": "verify-ca",
                "ssl_ca": "/c",
            },
        ),
        (
            "jdbc:mysql:///shop?useSSL=true&requireSSL=true",
            "jdbc:mysql://localhost:3306/shop",
            {"host": "localhost", "port": "3306", "dbname": "shop", "ssl": "require"},
        ),
        (
            "jdbc:mysql://db/?verifyServerCertificate=true",
            "jdbc:mysql://db:3306/",
            {"host": "db", "port": "3306", "ssl": "verify-ca"},
        ),
        (
            "jdbc:sqlserver://db:1444;databaseName=shop;user=me;password={a;b}}c};encrypt=true;trustServerCertificate=true",
            "jdbc:sqlserver://db:1444;databaseName=shop",
            {
                "host": "db",
                "port": "1444",
                "dbname": "shop",
                "user": "me",
                "password": "a;b}c",
                "encryption": "require",
            },
        ),
        (
            r"jdbc:sqlserver://db\sales:1444;database=shop;loginTimeout=5;",
            "jdbc:sqlserver://db:1444;databaseName=shop",
            {"host": "db", "port": "1444", "instance": "sales", "dbname": "shop"},
        ),
        (
            "jdbc:sqlserver://;serverName=db;portNumber=1;encrypt=false",
            "jdbc:sqlserver://db:1",
            {"host": "db", "port": "1", "encryption": "off"},
        ),
        (
            "jdbc:oracle:thin:@//db:1521/shop.example.org",
            "jdbc:oracle:thin:@db:1521/shop.example.org",
            {"dsn": "db:1521/shop.example.org"},
        ),
        ("jdbc:oracle:thin:@db/shop", "jdbc:oracle:thin:@db/shop", {"dsn": "db/shop"}),
        (
            "jdbc:oracle:thin:@tcps://db:2484/shop",
            "jdbc:oracle:thin:@tcps://db:2484/shop",
            {"dsn": "tcps://db:2484/shop"},
        ),
        (
            "jdbc:oracle:thin:me/secret@db:1521:ORCL",
            "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=db)(PORT=1521))(CONNECT_DATA=(SID=ORCL)))",
            {
                "user": "me",
                "password": "secret",
                "dsn": "(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=db)(PORT=1521))(CONNECT_DATA=(SID=ORCL)))",
            },
        ),
    ],
)
def test_urls(url: str, shown: str, parameters: dict[str, str]) -> None:
    parsed = parse_url(url)
    assert (parsed.shown, dict(parsed.parameters)) == (shown, parameters)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("jdbc:mysql://me:secret@db/shop", "set the user with"),
        ("jdbc:mysql:shop", "is not a URL of the form"),
        ("jdbc:mysql://a:b:c/shop", "has no host with a port"),
        ("jdbc:mysql://db/s?sslMode=MAYBE&password=secret", "unknown sslMode 'MAYBE'"),
        (
            "jdbc:mysql://db/s?trustCertificateKeyStoreUrl=x&password=secret",
            "'trustCertificateKeyStoreUrl'.*not supported",
        ),
        ("jdbc:mysql://db/s?socketTimeout=soon", "socketTimeout of .* must be a number"),
        ("jdbc:sqlserver://db;encrypt=true;password=secret", "cannot verify the certificate"),
        ("jdbc:sqlserver://db;authentication=ActiveDirectory", "'authentication'.*not supported"),
        ("jdbc:oracle:oci:@db", "is not a URL of the form jdbc:oracle:thin"),
        ("jdbc:db2://db/shop;password=secret", "it must begin with jdbc:postgresql:, jdbc:mysql:"),
    ],
)
def test_urls_that_are_refused(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)


def test_parameters_without_effect_are_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        parse_url("jdbc:mysql://db/shop?rewriteBatchedStatements=true&characterEncoding=utf8")
    assert "characterEncoding, rewriteBatchedStatements" in caplog.text


def test_passwords_in_urls_are_hidden() -> None:
    for url in ("jdbc:sqlserver://db;password={a;b};x=1", "jdbc:oracle:thin:me/b@db:1521:x", "jdbc:mysql://u:b@db/"):
        hidden = hide_password(url)
        assert "***" in hidden
        assert "b}" not in hidden
        assert "/b@" not in hidden
        assert ":b@" not in hidden


def test_several_hosts_are_tried_in_their_order() -> None:
    assert hosts_of({"host": "a,b", "port": "1,2"}) == [("a", 1), ("b", 2)]


# --- placeholders


@pytest.mark.parametrize(
    ("kind", "written", "translated", "fields"),
    [
        ("mysql", "INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES (%s, %s)", 2),
        ("mysql", r"SELECT 'it\'s ?', ? # why?", r"SELECT 'it\'s ?', %s # why?", 1),
        ("mysql", 'SELECT "a?""b", `c?`, ? -- d?\n, ?--?', 'SELECT "a?""b", `c?`, %s -- d?\n, %s--%s', 3),
        ("mysql", "SELECT ? /* ? */ % 10 LIKE '%?'", "SELECT %s /* ? */ %% 10 LIKE '%%?'", 1),
        ("sqlserver", "SELECT [a?]]b], 'c''?', ? -- ?", "SELECT [a?]]b], 'c''?', %s -- ?", 1),
        ("sqlserver", "/* ? /* ? */ ? */ SELECT ? % ?", "/* ? /* ? */ ? */ SELECT %s %% %s", 2),
        ("oracle", "INSERT INTO t VALUES (?, ?, '100%')", "INSERT INTO t VALUES (:1, :2, '100%')", 2),
        (
            "oracle",
            "SELECT q'[it's ?]', nq'!a?!', \"b?\", ? FROM dual",
            "SELECT q'[it's ?]', nq'!a?!', \"b?\", :1 FROM dual",
            1,
        ),
        (
            "oracle",
            "SELECT TO_DATE(?, 'HH24:MI') /* ? */ FROM dual -- ?",
            "SELECT TO_DATE(:1, 'HH24:MI') /* ? */ FROM dual -- ?",
            1,
        ),
    ],
)
def test_placeholders(kind: str, written: str, translated: str, fields: int) -> None:
    assert Statement.of(written, kind) == Statement(written, translated, fields)


def test_upserts_of_mysql() -> None:
    assert upsert_sql("s.t", ["id", "a`b"], ["id"], "mysql") == (
        "INSERT INTO `s`.`t` (`id`, `a``b`) VALUES (?, ?) ON DUPLICATE KEY UPDATE `a``b` = VALUES(`a``b`)"
    )
    assert upsert_sql("t", ["id"], ["id"], "mysql").endswith("ON DUPLICATE KEY UPDATE `id` = `id`")


# --- libraries


class Library(ModuleType):
    """A client library that notes what it is called with; statements that contain ``fail`` raise an error."""

    class Error(Exception):
        pass

    DB_TYPE_TIMESTAMP = "timestamp"

    def __init__(self) -> None:
        super().__init__("library")
        self.calls: list[Any] = []
        self.connected: list[dict[str, Any]] = []
        self.unreachable: set[str] = set()
        self.autocommit = False
        self.description: Any = None

    def connect(self, **settings: Any) -> Library:
        self.connected.append(settings)
        if settings.get("server") in self.unreachable:
            raise self.Error(20009, f"no server for {settings['password']}")
        return self

    def cursor(self) -> Library:
        return self

    def execute(self, sql: str, parameters: Any = None) -> None:
        if "fail" in sql:
            raise self.Error("fail")
        self.calls.append(sql if not parameters else (sql, parameters))

    def setinputsizes(self, *sizes: Any) -> None:
        self.calls.append(sizes)

    def commit(self) -> None:
        self.calls.append(("commit", self.autocommit))

    def rollback(self) -> None:
        self.calls.append(("rollback", self.autocommit))

    def close(self) -> None:
        pass


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    for name in ("pymssql", "oracledb"):
        monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.mark.parametrize(
    ("module", "url", "extra"),
    [
        ("pymysql", "jdbc:mysql://db/shop", "mysql"),
        ("pymysql", "jdbc:mariadb://db/shop", "mysql"),
        ("pymssql", "jdbc:sqlserver://db", "sqlserver"),
        ("oracledb", "jdbc:oracle:thin:@//db/shop", "oracle"),
    ],
)
def test_a_missing_library_is_an_error_with_its_extra(
    module: str, url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'tidemill\[{extra}\]'"):
        JdbcSink.sink("INSERT INTO t VALUES (?, ?)", WORD, options(url))


def sql_server(url: str = "jdbc:sqlserver://db;databaseName=shop") -> Database:
    return database_of(options(url))


def oracle() -> Database:
    return database_of(options("jdbc:oracle:thin:@//db/shop"))


class TestSqlServer:
    def test_connects_to_the_first_server_that_responds(self, library: Library) -> None:
        library.unreachable = {"a"}
        sql_server(r"jdbc:sqlserver://a,b:5;databaseName=shop;encrypt=true;trustServerCertificate=true").connect()
        assert [(one["server"], one["port"]) for one in library.connected] == [("a", "1433"), ("b", "5")]
        last = library.connected[-1]
        assert (last["database"], last["user"], last["encryption"]) == ("shop", "me", "require")
        assert last["autocommit"] is True

    def test_an_instance_is_part_of_the_server(self, library: Library) -> None:
        sql_server(r"jdbc:sqlserver://db\sales").connect()
        assert library.connected[0]["server"] == r"db\sales"
        assert library.connected[0]["encryption"] == "request"

    def test_no_server_is_an_error_without_the_password(self, library: Library) -> None:
        library.unreachable = {"db"}
        with pytest.raises(ConnectorError, match=r"cannot connect to jdbc:sqlserver://db:1433.*\*\*\*") as caught:
            sql_server().connect()
        assert SECRET not in str(caught.value)

    def test_a_batch_is_one_transaction(self, library: Library) -> None:
        session = sql_server().connect()
        statement = Statement.of("INSERT INTO t VALUES (?, 10 % 3)", "sqlserver")
        with session.transaction():
            session.execute_batch(statement, [("a",), ("b",)])
            with session.transaction():
                session.execute("SELECT 5 %% 2")
        begin, commit = "BEGIN TRANSACTION", "COMMIT TRANSACTION"
        inserts = [("INSERT INTO t VALUES (%s, 10 %% 3)", (letter,)) for letter in "ab"]
        assert library.calls == [begin, *inserts, "SAVE TRANSACTION part", "SELECT 5 % 2", commit]

    def test_a_failed_batch_is_rolled_back(self, library: Library) -> None:
        session = sql_server().connect()
        with pytest.raises(Library.Error), session.transaction():
            session.execute("fail")
        assert library.calls == ["BEGIN TRANSACTION", "ROLLBACK TRANSACTION"]

    @pytest.mark.parametrize(
        ("arguments", "trouble"),
        [
            ((1205, b"deadlock"), DatabaseTrouble.PASSING),
            (((20047, b"dead"),), DatabaseTrouble.LOST),
            (("Connection is closed.",), DatabaseTrouble.LOST),
            ((2627, b"duplicate"), DatabaseTrouble.LASTING),
        ],
    )
    def test_errors(self, library: Library, arguments: Any, trouble: DatabaseTrouble) -> None:
        assert sql_server().trouble(Library.Error(*arguments)) is trouble

    @pytest.mark.parametrize(
        ("kind", "value", "bound"),
        [
            (Types.SQL_TIMESTAMP(), dt.datetime(2024, 1, 2, 3, 4, 5, 678901), "2024-01-02T03:04:05.678901"),  # noqa: DTZ001
            (Types.INSTANT(), Instant(1, 500_000_000), "1970-01-01T00:00:01.500"),
            (Types.SQL_TIME(), dt.time(1, 2, 3, 4), "01:02:03.000004"),
            (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, -1], b"\x01\xff"),
        ],
    )
    def test_values_keep_all_their_digits(
        self, library: Library, kind: TypeInformation, value: Any, bound: Any
    ) -> None:
        convert = sql_server().bound(kind, "field 'x'")
        assert convert is not None
        assert convert(value) == bound

    def test_other_values_are_passed_as_they_are(self, library: Library) -> None:
        for kind in (Types.STRING(), Types.DOUBLE(), Types.BIG_DEC(), Types.SQL_DATE(), Types.PICKLED_BYTE_ARRAY()):
            assert sql_server().bound(kind, "field 'x'") is None
        with pytest.raises(TypeMismatchError, match="no counterpart in SQL Server"):
            sql_server().bound(Types.LIST(Types.STRING()), "field 'x'")


class TestOracle:
    def test_connects_with_its_place(self, library: Library) -> None:
        oracle().connect()
        (settings,) = library.connected
        assert (settings["dsn"], settings["user"], settings["password"]) == ("db/shop", "me", SECRET)
        assert library.autocommit is True

    def test_a_batch_is_one_transaction_with_whole_timestamps(self, library: Library) -> None:
        session = oracle().connect()
        moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001
        with session.transaction():
            session.execute_batch(Statement.of("INSERT INTO t VALUES (?, ?)", "oracle"), [(moment, None), (None, "b")])
        sql = "INSERT INTO t VALUES (:1, :2)"
        assert library.calls == [
            *[("timestamp", None), (sql, (moment, None)), (None, None), (sql, (None, "b"))],
            ("commit", False),
        ]
        assert library.autocommit is True

    def test_a_failed_batch_is_rolled_back(self, library: Library) -> None:
        session = oracle().connect()
        with pytest.raises(Library.Error), session.transaction():
            session.execute("fail")
        assert library.calls == [("rollback", False)]

    @pytest.mark.parametrize(
        ("code", "full", "trouble"),
        [
            (60, "ORA-00060", DatabaseTrouble.PASSING),
            (3113, "ORA-03113", DatabaseTrouble.LOST),
            (0, "DPY-4011", DatabaseTrouble.LOST),
            (0, "DPY-6005", DatabaseTrouble.LOST),
            (1, "ORA-00001", DatabaseTrouble.LASTING),
        ],
    )
    def test_errors(self, library: Library, code: int, full: str, trouble: DatabaseTrouble) -> None:
        class Details:
            def __init__(self) -> None:
                self.code, self.full_code = code, full

        assert oracle().trouble(Library.Error(Details())) is trouble

    def test_values(self, library: Library) -> None:
        boolean, instant = (oracle().bound(kind, "x") for kind in (Types.BOOLEAN(), Types.INSTANT()))
        assert boolean is not None
        assert instant is not None
        assert (boolean(True), instant(Instant(1, 0))) == (1, dt.datetime(1970, 1, 1, 0, 0, 1))  # noqa: DTZ001
        assert oracle().bound(Types.BIG_DEC(), "x") is None
        with pytest.raises(TypeMismatchError, match="no counterpart in Oracle"):
            oracle().bound(Types.SQL_TIME(), "field 'x'")


@pytest.mark.parametrize("url", ["jdbc:sqlserver://db", "jdbc:oracle:thin:@//db/shop"])
def test_what_these_databases_do_not_do(library: Library, url: str) -> None:
    with pytest.raises(ConfigurationError, match="write a MERGE statement"):
        JdbcSink.upsert("words", ["word"], WORD, options(url))
    with pytest.raises(ConfigurationError, match="PostgreSQL"):
        JdbcSink.exactly_once_sink("INSERT INTO t VALUES (?, ?)", WORD, options(url))
    with pytest.raises(ConfigurationError, match="read it with Spark's JDBC format"):
        JdbcSource.builder().set_db_url(url).set_table("words").build()
    assert JdbcSink.sink("INSERT INTO t VALUES (?, ?)", WORD, options(url)).guarantee == "at-least-once"
