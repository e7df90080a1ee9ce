"""One Spark session for all tests that need one, in this process, on this machine only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.object_store import Server, object_store
from tests.shared_processes import outliving
from tests.spark.recovery import WITHOUT_SPARK, Result, Run
from tests.spark.standalone import StandaloneCluster, running_cluster

HERE = Path(__file__).parent
SECONDS_TO_STOP = 120

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "preloading_daemon",
    "spark.executorEnv.PYTHONPATH": str(HERE / "programs"),  # where the daemon is
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores and four attempts per task: plain `local[2]` would not retry at all."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2,4]").appName("tidemill-tests")
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        builder = builder.config("spark.local.dir", str(folder / "local"))
        builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        session = builder.getOrCreate()
        yield session
        session.stop()
        stop_jvm()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A cluster of two hosts, for all programs that this process starts, one after the other.

    A test may kill workers and start others, as long as two hosts are left.
    """
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running, outliving(running.pids):
        yield running


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """What the bounded keyed job leaves when nothing goes wrong; every run with faults is compared with it.

    It is run without Spark, so that each comparison also says that Spark changes nothing.
    """
    return Run(tmp_path_factory.mktemp("expected"), options=WITHOUT_SPARK).finish()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An object store for the tests of one module."""
    with object_store(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


def stop_jvm() -> None:
    """End the JVM that pyspark leaves behind a stopped session, and wait until it is gone."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    jvm: subprocess.Popen[bytes] = gateway.proc
    jvm.communicate(timeout=SECONDS_TO_STOP)  # closes its stdin, which is what it ends on
