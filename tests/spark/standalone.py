"""A small Spark cluster of its own processes, for what needs more than one host."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.java import QUICK_JAVA
from tests.spark.processes import child_environment

#: Settings of a job on such a cluster, beside its master.
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
}


@contextmanager
def standalone_cluster(folder: Path, hosts: Sequence[str] = ("127.0.0.2", "127.0.0.3")) -> Iterator[str]:
    """A Spark master with workers on several addresses of this machine: to Spark they are so many hosts."""
    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for host in hosts:
        size = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"work-{host}")]
        commands.append(["worker.Worker", "--host", host, *size, url])
    environment = child_environment()
    with ExitStack() as stack:
        for index, (name, *arguments) in enumerate(commands):
            log = stack.enter_context((folder / f"cluster-{index}.log").open("wb"))
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                env={**environment, "SPARK_LOCAL_IP": arguments[1]},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield url
