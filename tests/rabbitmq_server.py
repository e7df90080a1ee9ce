"""A RabbitMQ server on loopback for tests, and connections to it that can be cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import psutil

from tests.memory import TEMPORARY
from tests.ports import own_ports
from tidemill.connectors.rabbitmq import RMQConnectionConfig

_HOST = "127.0.0.1"
_INSTALL = Path(__file__).parents[1] / "tools" / "install_rabbitmq.sh"
_SECONDS = 500.0


class RabbitServer:
    """One server with its own data and its own ports, among them that of Erlang's port mapper, epmd."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port, self._between_nodes, self._mapper = own_ports(3)
        self._programs = find_programs()

    @property
    def config(self) -> RMQConnectionConfig:
        """How a program connects to it; a lost connection is restored soon."""
        return RMQConnectionConfig.Builder().set_uri(self.uri).set_network_recovery_interval(100).build()

    @property
    def uri(self) -> str:
        return f"amqp://guest:guest@{_HOST}:{self.port}/%2F"

    def start(self) -> None:
        """Start; returns when it answers."""
        (self._folder / "rabbitmq.conf").write_text("log.file.level = error\nvm_memory_high_watermark.relative = 0.9\n")
        (self._folder / "enabled_plugins").write_text("[].\n")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "rabbitmq-server")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self._folder,
                env=self._environment,
            )
        deadline = time.monotonic() + _SECONDS
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = (self._folder / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the RabbitMQ server did not start:\n{text}")
            time.sleep(0.1)

    def _listens(self) -> bool:
        try:
            socket.create_connection((_HOST, self.port), timeout=5).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End it, with all processes that it has started: its port mapper is none of its children."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("RABBITMQ_MNESIA_BASE") == self._environment["RABBITMQ_MNESIA_BASE"]:
                    process.kill()
                    if process.pid != (self._process and self._process.pid):
                        process.wait(_SECONDS)
        if self._process is not None:
            self._process.wait(_SECONDS)
            self._process = None

    # --- queues

    def connect(self) -> Any:
        """A connection of the test's own."""
        return pika.BlockingConnection(pika.URLParameters(self.uri))

    def publish(self, queue: str, bodies: Sequence[bytes], ids: Sequence[str] | None = None) -> None:
        """Publish messages that survive a restart, with their numbers as correlation ids."""
        connection = self.connect()
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.tx_select()
        names = [str(number) for number in range(len(bodies))] if ids is None else ids
        for name, body in zip(names, bodies, strict=True):
            properties = pika.BasicProperties(delivery_mode=2, correlation_id=name or None)
            channel.basic_publish("", queue, body, properties)
        channel.tx_commit()
        connection.close()

    def messages(self, queue: str) -> list[bytes]:
        """All messages that wait in a queue; they stay there."""
        connection = self.connect()
        channel = connection.channel()
        found: list[bytes] = []
        while True:
            method, _, body = channel.basic_get(queue)
            if method is None:
                connection.close()  # which puts them back
                return found
            found.append(body)

    def count(self, queue: str) -> int:
        """The number of messages that nobody has received."""
        connection = self.connect()
        number: int = connection.channel().queue_declare(queue, passive=True).method.message_count
        connection.close()
        return number

    def delete(self, queue: str) -> None:
        connection = self.connect()
        connection.channel().queue_delete(queue)
        connection.close()

    @property
    def _environment(self) -> dict[str, str]:
        folder = str(self._folder)
        return {
            **os.environ,
            "HOME": folder,
            "ERL_EPMD_PORT": str(self._mapper),
            "ERL_EPMD_ADDRESS": _HOST,
            "RABBITMQ_NODENAME": f"tidemill{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": _HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._between_nodes),
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/logs",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            # Two cores are enough for a test, and the start is quicker.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }


@contextmanager
def rabbitmq_server() -> Iterator[RabbitServer]:
    """A running server with no queues in it; gone at the end, with all it kept."""
    folder = Path(tempfile.mkdtemp(prefix="tidemill-rabbitmq-", dir=os.environ.get(TEMPORARY)))
    server = RabbitServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Wire:
    """What connections to a server go through, and may be cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listening = socket.create_server((_HOST, 0))
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> int:
        """Cut all connections; how many there were."""
        with self._lock:
            found, self._open = self._open, []
        for end in found:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        return len(found) // 2

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            there = socket.create_connection((_HOST, self._to))
            with self._lock:
                self._open += [here, there]
            threading.Thread(target=self._pass_both, args=(here, there), daemon=True).start()

    def _pass_both(self, here: socket.socket, there: socket.socket) -> None:
        with here, there:
            back = threading.Thread(target=self._pass, args=(there, here), daemon=True)
            back.start()
            self._pass(here, there)
            back.join()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def find_programs() -> Path:
    """The folder of the server's programs; installs them if they are missing, where it may."""
    done = subprocess.run([str(_INSTALL)], capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout.strip())
    for folder in (Path("/usr/lib/rabbitmq/bin"), Path("/opt/homebrew/opt/rabbitmq/sbin")):
        if (folder / "rabbitmq-server").exists():
            return folder
    on_path = shutil.which("rabbitmq-server")
    assert on_path is not None
    return Path(on_path).parent
