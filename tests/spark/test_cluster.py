"""What a job asks of a cluster before it starts: its executors, its files, its patience. The cluster is a stand-in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.cloudpickle import dumps
from pyspark.errors import PySparkException

from tidemill.errors import ConfigurationError, JobExecutionError
from tidemill.spark.session import cluster
from tidemill.spark.session.cluster import check_workers, cores_of, look_for
from tidemill.spark.session.session import warn_of_long_waits


class Known:
    """An executor as Spark's status store knows it."""

    def __init__(self, name: str, cores: int = 2) -> None:
        self.id = lambda: name
        self.hostPort = lambda: f"host-{name}:7077"
        self.totalCores = lambda: cores


class Cluster:
    """The parts of a SparkContext that are used, and of the Java context behind it."""

    def __init__(self, *executors: Known, **settings: str) -> None:
        self.master = "spark://127.0.0.1:7077"
        self.defaultParallelism = 7
        self.executors = [Known("driver"), *executors]
        self.settings = {key.replace("_", "."): value for key, value in settings.items()}
        self.elsewhere: Callable[[], Any] = lambda: None
        self._jsc = self

    def getConf(self) -> dict[str, str]:
        return self.settings

    def sc(self) -> Cluster:
        return self

    def conf(self) -> Cluster:
        return self

    def statusStore(self) -> Cluster:
        return self

    def getTimeAsMs(self, key: str, default: str) -> int:
        text = self.settings.get(key, default)
        return int(text.removesuffix("ms")) if text.endswith("ms") else 1000 * int(text.removesuffix("s"))

    def executorList(self, active: bool) -> Cluster:
        return self

    def size(self) -> int:
        return len(self.executors)

    def apply(self, position: int) -> Known:
        return self.executors[position]

    def parallelize(self, items: Iterable[Any], tasks: int) -> Cluster:
        self.tasks = tasks
        return self

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> Cluster:
        self.function = function
        return self

    def distinct(self) -> Cluster:
        return self

    def collect(self) -> list[Any]:
        """Run the tasks on executors, where ``elsewhere`` has changed the file system."""
        self.elsewhere()
        return list({found for _ in range(self.tasks) for found in self.function(())})


def context(stand_in: Cluster) -> Any:
    return stand_in


# --- executors


class Clock:
    """Time that passes only during a sleep; what is scheduled for a time happens then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.later: dict[float, Callable[[], None]] = {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for time in [time for time in self.later if time <= self.now]:
            self.later.pop(time)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(cluster, "time", made)
    return made


def test_a_job_waits_until_no_more_executors_come(clock: Clock) -> None:
    late = Cluster()
    for name in "123":
        executor = Known(name)
        clock.later[0.8 * int(name)] = lambda executor=executor: late.executors.append(executor)  # type: ignore[misc]
    clock.later[5.0] = lambda: late.executors.append(Known("too late"))
    assert cores_of(context(late)) == 6
    assert 2.4 + cluster._SETTLED_SECONDS <= clock.now < 5


def test_a_job_that_knows_how_many_executors_come_waits_for_no_others(clock: Clock) -> None:
    complete = Cluster(Known("1"), Known("2", cores=3), spark_executor_instances="2")
    assert cores_of(context(complete)) == 5
    assert clock.now == 0


def test_a_job_does_not_wait_for_ever(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    short = Cluster(Known("1"), spark_executor_instances="2")
    assert cores_of(context(short)) == short.defaultParallelism
    assert "the cluster has only 1 executors after 15 s" in caplog.text
    assert clock.now == pytest.approx(cluster._MOST_SECONDS, abs=0.2)


def test_on_one_machine_there_is_nothing_to_wait_for() -> None:
    here = Cluster()
    here.master = "local[7]"
    assert cores_of(context(here)) == 7


# --- packages and files


def test_a_directory_that_all_executors_see_is_accepted_and_left_clean(tmp_path: Path) -> None:
    shared = Cluster(Known("1"), Known("2"))
    check_workers(context(shared), tmp_path / "checkpoints")
    assert shared.tasks == 4
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_directory_that_executors_do_not_see_is_refused(tmp_path: Path) -> None:
    blind = Cluster(Known("1"))
    here, hidden = tmp_path / "checkpoints", tmp_path / "on the driver"
    blind.elsewhere = lambda: here.rename(hidden)
    with pytest.raises(ConfigurationError, match=r"is not shared.*execution\.checkpointing\.dir"):
        check_workers(context(blind), here)


def test_executors_without_our_packages_are_refused_whatever_they_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PACKAGES", ("pyarrow", "none_of_ours", "nor_this"))
    with pytest.raises(ConfigurationError, match=r"python\S* on \S+ has no none_of_ours, nor_this.*spark\.archives"):
        check_workers(context(Cluster(Known("1"))), None)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ('java.io.IOException: Cannot run program "./environment/bin/python": error=2', True),
        ("PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.11", True),
        ("Job aborted due to stage failure: ExecutorLostFailure", False),
    ],
)
def test_executors_without_a_python_that_fits_are_refused(said: str, refused: bool) -> None:
    def fail() -> None:
        raise PySparkException(said)

    bare = Cluster(Known("1"))
    bare.elsewhere = fail
    with pytest.raises(ConfigurationError if refused else JobExecutionError, match=re.escape(said)):
        check_workers(context(bare), None)


def test_the_look_at_a_worker_needs_nothing_there_but_what_spark_brings(tmp_path: Path) -> None:
    """It travels whole: unpickled by an interpreter that has no packages, not even ours."""
    libraries = [str(path) for path in (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")]
    code = "import sys\nfrom pyspark.cloudpickle import loads\nprint(list(loads(sys.stdin.buffer.read())(())))\n"
    ended = subprocess.run(
        [sys.executable, "-S", "-c", code],
        input=dumps(look_for(("tidemill", "json"), str(tmp_path))),  # type: ignore[no-untyped-call]
        env={"PYTHONPATH": os.pathsep.join(libraries)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stdout.decode().strip().endswith("('tidemill',), True)]")


# --- patience


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "3.0 s"),  # Spark's own default
        ({"spark_locality_wait": "100ms"}, None),
        ({"spark_locality_wait": "100ms", "spark_locality_wait_process": "5s"}, "5.0 s"),
        ({"spark_locality_wait_process": "0s", "spark_locality_wait_node": "0s"}, None),
    ],
)
def test_a_session_that_lets_tasks_wait_long_for_their_executor_is_warned_about(
    settings: dict[str, str], told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_long_waits(context(Cluster(**settings)))
    assert [told] * bool(told) == [record.getMessage().split(" waits ")[1][:5] for record in caplog.records]
    assert not told or "spark.locality.wait=100ms" in caplog.text


def test_on_one_machine_no_task_waits_for_an_executor(caplog: pytest.LogCaptureFixture) -> None:
    here = Cluster()
    here.master = "local[2]"
    warn_of_long_waits(context(here))
    assert not caplog.records
