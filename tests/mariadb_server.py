"""A MariaDB server on loopback for tests: started, stopped and killed by its process id, on data of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from tests.ports import own_ports
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions

_HOST = "127.0.0.1"
USER = "tidemill"
#: If it ever shows in a message, a plan or a log, a test fails.
PASSWORD = "canary-4f2c-secret"  # noqa: S105 - of a server that lives as long as the tests
DATABASE = "shop"
_INSTALL = Path(__file__).parents[1] / "tools" / "install_mariadb.sh"
_SECONDS = 60.0
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


class MariadbServer:
    """One server with its own data and its own port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = find_program()
        self._process: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root without this option.
        self._account = ("--user=root",) if os.geteuid() == 0 else ()
        (self.port,) = own_ports(1)

    def options(self, query: str = "", scheme: str = "mariadb", password: str = PASSWORD) -> JdbcConnectionOptions:
        """How a program connects to it."""
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        builder.with_url(f"jdbc:{scheme}://{_HOST}:{self.port}/{DATABASE}{query}")
        return builder.with_user_name(USER).with_password(password).with_connection_check_timeout_seconds(5).build()

    def run(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in a connection of the test's own; its rows, if it has any."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(sql, parameters)
            rows: list[tuple[Any, ...]] = list(cursor.fetchall()) if cursor.description else []
            return rows

    def connect(self) -> Any:
        """A connection of the test's own, which commits by itself."""
        return pymysql.connect(
            host=_HOST, port=self.port, user=USER, password=PASSWORD, database=DATABASE, autocommit=True
        )

    def create(self) -> None:
        """Make the data directory, and what the server runs when it starts."""
        done = subprocess.run(
            [
                *("mariadb-install-db", "--no-defaults", f"--datadir={self._data}", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", *self._account),
            ],
            capture_output=True,
            check=False,
            cwd=self._folder,
        )
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db failed: {done.stderr.decode(errors='replace')}")
        (self._folder / "init.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%';\n"
        )

    def start(self) -> None:
        """Start on the data that is there; returns when it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(self._program), "--no-defaults", f"--datadir={self._data}", f"--port={self.port}"),
                    *(f"--bind-address={_HOST}", f"--socket={self._folder / 'socket'}"),
                    *(f"--pid-file={self._folder / 'pid'}", f"--init-file={self._folder / 'init.sql'}"),
                    *(*_SETTINGS, *self._account),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self._folder,
            )
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self.connect().close()
            except pymysql.MySQLError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self._folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the MariaDB server did not start: {error}\n{text}") from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """End it in order; connections are cut."""
        if self._process is not None:
            self._process.terminate()
            self._wait()

    def kill(self) -> None:
        """It is gone in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._wait()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _wait(self) -> None:
        assert self._process is not None
        self._process.wait(_SECONDS)
        self._process = None


@contextmanager
def mariadb_server() -> Iterator[MariadbServer]:
    """A running server with an empty database; gone at the end, with all it kept."""
    folder = Path(tempfile.mkdtemp(prefix="tidemill-mariadb-"))
    server = MariadbServer(folder)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def find_program() -> Path:
    """MariaDB's server program; installs it if it is missing, where it may."""
    done = subprocess.run([str(_INSTALL)], capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout.strip())
    found = [Path("/usr/sbin/mariadbd"), Path("/usr/libexec/mariadbd")]
    found += Path("/opt/homebrew/opt").glob("mariadb*/bin/mariadbd")
    on_path = shutil.which("mariadbd")
    return Path(on_path) if on_path else next(path for path in found if path.exists())
