"""The common part of the database servers of tests: each is ended by its process id, and has data of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from tests.memory import TEMPORARY
from tests.ports import own_ports

HOST = "127.0.0.1"
SECONDS = 60.0


class DatabaseServer(ABC):
    """One server with its own data in ``folder``, and its own port."""

    #: Its name in messages.
    name: ClassVar[str]
    #: What :meth:`connect` raises as long as the server does not answer.
    unavailable: ClassVar[type[Exception]]

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = own_ports(1)

    @abstractmethod
    def create(self) -> None:
        """Make the data directory."""

    @abstractmethod
    def start(self) -> None:
        """Start on the data that is there; returns when it answers."""

    @abstractmethod
    def connect(self) -> Any:
        """A connection of the test's own, which commits by itself."""

    def stop(self) -> None:
        """End it in order; connections are cut."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """It is gone in the middle of whatever it does."""
        self._end(signal.SIGKILL)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _start(self, command: Sequence[str], **identity: Any) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder, **identity
            )
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self.connect().close()
            except self.unavailable as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self._folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the {self.name} server did not start: {error}\n{text}") from None
                time.sleep(0.05)
            else:
                return

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(SECONDS)
            self._process = None

    def _call(self, program: str, *arguments: str, **identity: Any) -> None:
        done = subprocess.run([program, *arguments], capture_output=True, check=False, cwd=self._folder, **identity)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")


_Server = TypeVar("_Server", bound=DatabaseServer)


@contextmanager
def running(make: Callable[[Path], _Server]) -> Iterator[_Server]:
    """A running server; gone at the end, with all it kept."""
    # Not in the tests' own folder: that is open to the user of the tests only, and a server may run as another.
    folder = Path(tempfile.mkdtemp(prefix="tidemill-database-", dir=os.environ.get(TEMPORARY)))
    server = make(folder)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def install(script: str) -> None:
    """Install a server's programs by a script of ``tools``, if they are missing and where it may."""
    done = subprocess.run(
        [str(Path(__file__).parents[1] / "tools" / script)], capture_output=True, check=False, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stdout.strip())
