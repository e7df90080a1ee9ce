"""A small Spark cluster of its own processes, for what needs more than one host."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.java import QUICK_SPARK
from tests.spark.processes import child_environment, tail
from tests.waiting import eventually

#: Settings of a job on such a cluster, beside its master.
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUICK_SPARK,
}
HOSTS = ("127.0.0.2", "127.0.0.3")
#: How long a busy machine may take to start a Java program.
_SECONDS = 300.0


class StandaloneCluster:
    """A Spark master with workers on several addresses of this machine: to Spark they are so many hosts.

    A program on an executor finds its address in the variable ``SPARK_LOCAL_IP``.
    """

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        """``processes`` ends them all when it is closed."""
        self._folder = folder
        self._processes = processes
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._master = self._start("master.Master", "127.0.0.1", "--port", "0")
        log = folder / "master.Master-127.0.0.1.log"
        found = eventually(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()),
            _SECONDS,
            shown=lambda: tail(log),
        )
        assert found is not None
        self.url = found[1]

    def pids(self) -> set[int]:
        """The processes of the cluster itself."""
        return {process.pid for process in (self._master, *self._workers.values())}

    def start_worker(self, host: str) -> None:
        """A worker with one core; it may take some seconds until the master knows it."""
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work-{host}")]
        self._workers[host] = self._start("worker.Worker", host, *size, self.url)

    def kill_worker(self, host: str) -> None:
        """Kill a worker and the executors it has started, at once."""
        worker = psutil.Process(self._workers.pop(host).pid)
        for process in [worker, *worker.children()]:
            process.kill()

    def _start(self, name: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = Path(pyspark.__file__).parent / "bin" / "spark-class"
        log = self._processes.enter_context((self._folder / f"{name}-{host}.log").open("wb"))
        process = subprocess.Popen(
            [str(command), f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0", *arguments],
            env={**child_environment(), "SPARK_LOCAL_IP": host},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self._processes.callback(process.wait)
        self._processes.callback(process.terminate)
        return process


@contextmanager
def running_cluster(folder: Path, hosts: Sequence[str] = HOSTS) -> Iterator[StandaloneCluster]:
    """A cluster whose workers can be killed, and joined by others."""
    with ExitStack() as processes:
        cluster = StandaloneCluster(folder, processes)
        for host in hosts:
            cluster.start_worker(host)
        yield cluster
