"""A real Kafka broker on loopback for tests: one process that is broker and controller, on ports of its own.

It has a listener for everybody, and one for each way to secure them. A cluster of several is in tests.kafka_cluster.
Its jars come with the Ivy that is part of pyspark, once, into the cache folder of the project.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException

from tests.certificates import Authority
from tests.jars import fetched_jars
from tests.java import QUICK_JAVA
from tests.kafka_topics import SECONDS, KafkaTopics
from tests.ports import own_ports
from tests.shared_processes import outliving

VERSION = "4.1.1"
# The broker logs through slf4j 1.7, which says nothing unless one of its back ends is there.
MODULES = {("org.apache.kafka", "kafka_2.13"): VERSION, ("org.slf4j", "slf4j-simple"): "1.7.36"}
#: A user of the listeners that ask who one is.
USER, PASSWORD = "tidemill", "a secret of the tests"
_HOST = "127.0.0.1"
_CLUSTER = "dGlkZW1pbGwtdGVzdHMtMQ"  # any 16 bytes in base64
#: Listeners, and how they are secured.
_LISTENERS = {
    "OPEN": "PLAINTEXT",
    "LOGIN": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "BOTH": "SASL_SSL",
    "CONTROLLER": "PLAINTEXT",
}


class KafkaBroker(KafkaTopics):
    """A broker with its data in ``folder``; after a stop or a kill it starts again with the same ports and data."""

    def __init__(self, folder: Path, heap: str = "256m", settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = dict(zip(_LISTENERS, own_ports(len(_LISTENERS)), strict=True))
        super().__init__(self._address("OPEN"))
        #: Its other settings, from its first start on.
        self.settings = dict(settings or {})
        #: Wants ``USER`` and ``PASSWORD``, by SASL PLAIN or SCRAM-SHA-512.
        self.login_address = self._address("LOGIN")
        #: Has a certificate, and wants one that ``authority`` has signed, or another that it vouches for.
        self.tls_address = self._address("TLS")
        #: Has a certificate, and wants ``USER`` and ``PASSWORD``.
        self.tls_login_address = self._address("BOTH")
        self.controller_address = self._address("CONTROLLER")
        self.authority = Authority("the root of the tests")

    # ------------------------------------------------------------------------------------------------------ process

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, wait: bool = True) -> None:
        """Start it; returns when it answers, or at once."""
        assert self.pid is None, "it runs already"
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / "server.properties"
        if not settings.exists():
            self._write_certificates()
            settings.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
            user = f'SCRAM-SHA-512=[name="{USER}",password="{PASSWORD}"]'
            form = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings), "--add-scram", user)
            self._java(*form).wait(SECONDS)
        self._process = self._java("kafka.Kafka", str(settings))
        if wait:
            self.await_ready()

    def await_ready(self, seconds: float = SECONDS) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + seconds
        admin = self._admin()
        while True:
            try:
                admin.list_topics(timeout=0.5)
            except KafkaException:
                if self.pid is None or time.monotonic() > deadline:
                    raise RuntimeError(f"the broker did not start; the end of its log:\n{self._log_end()}") from None
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End it as an administrator would."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Kill it and start it again, on the same ports and data."""
        self.kill()
        self.start()

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        java = Path(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else "java"
        options = [*QUICK_JAVA.split(), f"-Xmx{self._heap}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [str(java), *options, "-cp", f"{broker_jars()}/*", *command], stdout=log, stderr=subprocess.STDOUT
            )

    def _log_end(self) -> str:
        return (self._folder / "broker.log").read_text(errors="replace")[-3000:]

    def _properties(self) -> dict[str, str]:
        listeners = {name: f"{name}://{self._address(name)}" for name in _LISTENERS}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.controller_address}",
            "listeners": ",".join(listeners.values()),
            "listener.security.protocol.map": ",".join(f"{name}:{how}" for name, how in _LISTENERS.items()),
            **self._security(),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "OPEN",
            "log.dirs": str(self._folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            # One broker: nothing is replicated, and its own topics need no spreading.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A test that waits for a transaction to time out waits for little more than the timeout.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
            # After a kill it is let in again only when the controller has given up on its former life.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
            "num.network.threads": "1",
            "num.io.threads": "2",
            "log.cleaner.enable": "false",
            **self.settings,
        }

    def _security(self) -> dict[str, str]:
        modules = "org.apache.kafka.common.security"
        settings = {"listener.name.tls.ssl.client.auth": "required"}
        for name in ("listener.name.login", "listener.name.both"):
            login = f'{modules}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            settings[f"{name}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-512"
            settings[f"{name}.plain.sasl.jaas.config"] = login
            settings[f"{name}.scram-sha-512.sasl.jaas.config"] = f"{modules}.scram.ScramLoginModule required;"
        for name in ("listener.name.tls", "listener.name.both"):
            for store in ("truststore", "keystore"):
                settings[f"{name}.ssl.{store}.type"] = "PEM"
                settings[f"{name}.ssl.{store}.location"] = str(self._folder / f"{store}.pem")
        return settings

    def _write_certificates(self) -> None:
        own = Authority("an authority of the tests", vouching=self.authority).issue("broker", _HOST)
        (self._folder / "truststore.pem").write_text(self.authority.certificate)
        (self._folder / "keystore.pem").write_text(own.key() + own.certificates)

    def _address(self, listener: str) -> str:
        return f"{_HOST}:{self._ports[listener]}"


# --------------------------------------------------------------------------------------------------------------- shared


@contextmanager
def shared_broker(folder: Path) -> Iterator[KafkaBroker]:
    """A running broker for all tests of a process."""
    broker = KafkaBroker(folder)
    with outliving(lambda: set() if broker.pid is None else {broker.pid}):
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


# ----------------------------------------------------------------------------------------------------------------- jars


def broker_jars() -> Path:
    """The folder with the broker's jars; the first call ever fetches them."""
    return fetched_jars(f"kafka-{VERSION}", MODULES)


if __name__ == "__main__":
    sys.stdout.write(f"{broker_jars()}\n")
