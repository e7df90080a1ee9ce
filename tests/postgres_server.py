"""A PostgreSQL server on loopback for tests: started, stopped, killed and started again on the same data."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.database_server import HOST, SECONDS, DatabaseServer, install, running
from tidemill.connectors.jdbc.postgres import PostgresSession
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions

USER = "tidemill"
#: If it ever shows in a message, a plan or a log, a test fails.
PASSWORD = "canary-b7e1-secret"  # noqa: S105 - of a server that lives as long as the tests
DATABASE = "postgres"
#: Quick to start and cheap to commit; the server is killed, never the machine: nothing is lost without fsync.
_SETTINGS = {
    "fsync": "off",
    "autovacuum": "off",
    "max_connections": "60",
    "max_prepared_transactions": "40",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "fatal",
}


class PostgresServer(DatabaseServer):
    """One server with its own data and its own port; a superuser owns it all."""

    name = "PostgreSQL"
    unavailable = psycopg.OperationalError

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder)
        self._programs = find_programs()
        self._settings = {**_SETTINGS, **settings}
        self._account = _unprivileged()
        user, group = self._account
        self._identity: dict[str, Any] = (
            {"user": user, "group": group, "extra_groups": []} if user != os.geteuid() else {}
        )

    @property
    def url(self) -> str:
        """The address, as JDBC writes it."""
        return f"jdbc:postgresql://{HOST}:{self.port}/{DATABASE}"

    @property
    def options(self) -> JdbcConnectionOptions:
        """How a program connects to it."""
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(self.url)
        return builder.with_user_name(USER).with_password(PASSWORD).build()

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        address = f"host={HOST} port={self.port} dbname={DATABASE} connect_timeout={int(SECONDS)}"
        return psycopg.connect(address, user=USER, password=PASSWORD, autocommit=True, **more)

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser; its rows, if it has any."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[str]:
        """The transactions that are prepared, and neither committed nor rolled back."""
        return [gid for (gid,) in self.run("SELECT gid FROM pg_prepared_xacts ORDER BY gid")]

    def create(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        for path in (self._folder, secret):
            shutil.chown(path, *self._account)
        self._call(
            str(self._programs / "initdb"),
            *("--pgdata", str(self._data), "--username", USER, "--pwfile", str(secret)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
            **self._identity,
        )

    def start(self) -> None:
        settings = {**self._settings, "port": str(self.port), "listen_addresses": HOST}
        settings["unix_socket_directories"] = str(self._folder)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._start([str(self._programs / "postgres"), "-D", str(self._data), *options], **self._identity)

    def stop(self) -> None:
        """End it at once, in order; connections are cut."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """It is gone in the middle of whatever it does, all its processes with it."""
        if self._process is None:
            return
        family = psutil.Process(self._process.pid).children(recursive=True)
        self._end(signal.SIGKILL)
        for process in family:
            try:
                process.kill()
                process.wait(SECONDS)
            except psutil.NoSuchProcess:
                continue

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()


def postgres_server(**settings: str) -> AbstractContextManager[PostgresServer]:
    """A running server with no data in it; gone at the end, with all it kept."""
    return running(lambda folder: PostgresServer(folder, **settings))


class Sessions(list[PostgresSession]):
    """Connections that were made by the code under test."""

    def lose(self) -> None:
        """Close all of them, as the death of a process does."""
        while self:
            self.pop().close()


def find_programs() -> Path:
    """The folder of PostgreSQL's programs, the newest there is; installs them if they are missing, where it may."""
    install("install_postgres.sh")
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if folders:
        return max(folders, key=lambda folder: int(folder.parent.name))
    on_path = shutil.which("postgres")
    others = [
        *Path("/usr/libexec").glob("postgresql*/postgres"),
        *Path("/opt/homebrew/opt").glob("postgresql*/bin/postgres"),
    ]
    return Path(on_path).parent if on_path else max(others).parent


def _unprivileged() -> tuple[int, int]:
    """Who the server runs as: the user of the tests, unless that is root, as which it refuses to run."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no user 'postgres' or 'nobody' to run it as")
