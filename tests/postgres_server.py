"""A PostgreSQL server on loopback for tests: started, stopped, killed and started again on the same data."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.ports import own_ports
from tidemill.connectors.jdbc.postgres import PostgresSession
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions

_HOST = "127.0.0.1"
USER = "tidemill"
#: If it ever shows in a message, a plan or a log, a test fails.
PASSWORD = "canary-b7e1-secret"  # noqa: S105 - of a server that lives as long as the tests
DATABASE = "postgres"
_INSTALL = Path(__file__).parents[1] / "tools" / "install_postgres.sh"
_SECONDS = 60.0
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


class PostgresServer:
    """One server with its own data and its own port; a superuser owns it all."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._programs = find_programs()
        self._settings = {**_SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._account = _unprivileged()
        user, group = self._account
        self._identity: dict[str, Any] = (
            {"user": user, "group": group, "extra_groups": []} if user != os.geteuid() else {}
        )
        (self.port,) = own_ports(1)

    @property
    def url(self) -> str:
        """The address, as JDBC writes it."""
        return f"jdbc:postgresql://{_HOST}:{self.port}/{DATABASE}"

    @property
    def options(self) -> JdbcConnectionOptions:
        """How a program connects to it."""
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(self.url)
        return builder.with_user_name(USER).with_password(PASSWORD).build()

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        """A connection of the test's own, which commits by itself."""
        return psycopg.connect(
            host=_HOST, port=self.port, user=USER, password=PASSWORD, dbname=DATABASE, autocommit=True, **more
        )

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser; its rows, if it has any."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[str]:
        """The transactions that are prepared, and neither committed nor rolled back."""
        return [gid for (gid,) in self.run("SELECT gid FROM pg_prepared_xacts ORDER BY gid")]

    def create(self) -> None:
        """Make the data directory."""
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        for path in (self._folder, secret):
            shutil.chown(path, *self._account)
        self._call(
            "initdb",
            *("--pgdata", str(self._data), "--username", USER, "--pwfile", str(secret)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )

    def start(self) -> None:
        """Start on the data that is there; returns when it answers."""
        settings = {**self._settings, "port": str(self.port), "listen_addresses": _HOST}
        settings["unix_socket_directories"] = str(self._folder)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self._folder,
                **self._identity,
            )
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self.connect(connect_timeout=5).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self._folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the PostgreSQL server did not start: {error}\n{text}") from None
                time.sleep(0.05)
            else:
                return

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
                process.wait(_SECONDS)
            except psutil.NoSuchProcess:
                continue

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_SECONDS)
            self._process = None

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            check=False,
            cwd=self._folder,
            **self._identity,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")


@contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    """A running server with no data in it; gone at the end, with all it kept."""
    # Not in the tests' own folder: that is open to the user of the tests only, and the server runs as another.
    folder = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
    server = PostgresServer(folder, **settings)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Sessions(list[PostgresSession]):
    """Connections that were made by the code under test."""

    def lose(self) -> None:
        """Close all of them, as the death of a process does."""
        while self:
            self.pop().close()


def find_programs() -> Path:
    """The folder of PostgreSQL's programs, the newest there is; installs them if they are missing, where it may."""
    done = subprocess.run([str(_INSTALL)], capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout.strip())
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
