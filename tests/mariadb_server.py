"""A MariaDB server on loopback for tests: started, stopped and killed by its process id, on data of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pymysql

from tests.database_server import HOST, DatabaseServer, install, running
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions

USER = "tidemill"
#: If it ever shows in a message, a plan or a log, a test fails.
PASSWORD = "canary-4f2c-secret"  # noqa: S105 - of a server that lives as long as the tests
DATABASE = "shop"
#: Quick to start and cheap to commit; the server is killed, never the machine.
_SETTINGS = (
    "--innodb-buffer-pool-size=16M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-fast-shutdown=2",
    "--innodb-lock-wait-timeout=2",
    "--skip-name-resolve",
    "--skip-log-bin",
    "--character-set-server=utf8mb4",
    "--max-connections=60",
    "--default-time-zone=+05:00",
)


class MariadbServer(DatabaseServer):
    """One server with its own data and its own port."""

    name = "MariaDB"
    unavailable = pymysql.MySQLError

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = find_program()
        # The server refuses to run as root without this option.
        self._account = ("--user=root",) if os.geteuid() == 0 else ()

    def options(self, query: str = "", scheme: str = "mariadb", password: str = PASSWORD) -> JdbcConnectionOptions:
        """How a program connects to it."""
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        builder.with_url(f"jdbc:{scheme}://{HOST}:{self.port}/{DATABASE}{query}")
        return builder.with_user_name(USER).with_password(password).with_connection_check_timeout_seconds(5).build()

    def run(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in a connection of the test's own; its rows, if it has any."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(sql, parameters)
            rows: list[tuple[Any, ...]] = list(cursor.fetchall()) if cursor.description else []
            return rows

    def connect(self) -> Any:
        return pymysql.connect(
            host=HOST, port=self.port, user=USER, password=PASSWORD, database=DATABASE, autocommit=True
        )

    def create(self) -> None:
        """Make the data directory, and what the server runs when it starts."""
        self._call(
            *("mariadb-install-db", "--no-defaults", f"--datadir={self._data}", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", *self._account),
        )
        (self._folder / "init.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%';\n"
        )

    def start(self) -> None:
        self._start(
            [
                *(str(self._program), "--no-defaults", f"--datadir={self._data}", f"--port={self.port}"),
                *(f"--bind-address={HOST}", f"--socket={self._folder / 'socket'}"),
                *(f"--pid-file={self._folder / 'pid'}", f"--init-file={self._folder / 'init.sql'}"),
                *(*_SETTINGS, *self._account),
            ]
        )


def mariadb_server() -> AbstractContextManager[MariadbServer]:
    """A running server with an empty database; gone at the end, with all it kept."""
    return running(MariadbServer)


def find_program() -> Path:
    """MariaDB's server program; installs it if it is missing, where it may."""
    install("install_mariadb.sh")
    found = [Path("/usr/sbin/mariadbd"), Path("/usr/libexec/mariadbd")]
    found += Path("/opt/homebrew/opt").glob("mariadb*/bin/mariadbd")
    on_path = shutil.which("mariadbd")
    return Path(on_path) if on_path else next(path for path in found if path.exists())
