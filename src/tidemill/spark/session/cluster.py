"""The executors of a cluster, and checks that they have everything that tasks need."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext

from tidemill.errors import ConfigurationError, JobExecutionError
from tidemill.spark.session.failures import translated

log = logging.getLogger(__name__)

#: Executors register one by one. They are considered complete if no new one has registered for this time.
_SETTLED_SECONDS: Final = 1.0
#: The maximum time to wait for executors.
_MOST_SECONDS: Final = 15.0

#: The packages that tasks import.
PACKAGES: Final = ("tidemill", "pyarrow", "cloudpickle", "numpy", "rocksdict", "yaml")
#: Spark's errors if workers have no Python, or another version than the driver.
_NO_INTERPRETER: Final = re.compile(r"PYTHON_VERSION_MISMATCH|Cannot run program|No module named '?pyspark")
_HOW_TO_BRING_PACKAGES: Final = (
    "Workers need the driver's version of Python, Tidemill and the packages of the program: install them on the "
    "workers, and set spark.pyspark.python if the interpreter has another path than on the driver, or send an "
    "environment with the job by setting spark.archives."
)


@dataclass(frozen=True)
class Executor:
    """An executor; ``location`` is its name as a preferred location in Spark's scheduler."""

    id: str
    host: str
    cores: int

    @property
    def location(self) -> str:
        return f"executor_{self.host}_{self.id}"


def is_clustered(context: SparkContext) -> bool:
    """Whether tasks run in separate processes, not in that of the driver."""
    master = str(context.master)
    return master != "local" and not master.startswith("local[")


def executors_of(context: SparkContext) -> list[Executor]:
    """Return the currently registered executors, ordered by id."""
    known = context._jsc.sc().statusStore().executorList(True)
    found = []
    for position in range(known.size()):
        one = known.apply(position)
        if one.id() != "driver":
            found.append(Executor(one.id(), one.hostPort().rpartition(":")[0], one.totalCores()))
    return sorted(found, key=lambda executor: executor.id)


def cores_of(context: SparkContext) -> int:
    """Return the number of tasks that run at the same time. On a cluster, this waits for executors to register."""
    if not is_clustered(context):
        return context.defaultParallelism
    wanted = int(context.getConf().get("spark.executor.instances") or 0)
    deadline = time.monotonic() + _MOST_SECONDS
    count, since = 0, time.monotonic()
    while time.monotonic() < deadline:
        executors = executors_of(context)
        if len(executors) != count:
            count, since = len(executors), time.monotonic()
        if count >= (wanted or 1) and time.monotonic() - since >= (0.0 if wanted else _SETTLED_SECONDS):
            return max(1, sum(executor.cores for executor in executors))
        time.sleep(0.1)
    log.warning("the cluster has only %d executors after %.0f s; the job starts anyway", count, _MOST_SECONDS)
    return max(1, context.defaultParallelism)


@dataclass(frozen=True)
class Look:
    """The result of a check on a worker's host: the missing packages, and whether it sees the driver's file."""

    host: str
    interpreter: str
    missing: tuple[str, ...]
    sees: bool


def check_workers(context: SparkContext, directory: Path | None) -> None:
    """Raise :class:`ConfigurationError` unless all executors have the required packages, and see the files that the
    driver writes to ``directory``, if it is not None."""
    if not is_clustered(context):
        return
    tasks = 2 * max(1, len(executors_of(context)))
    with _probe(directory) as probe:
        try:
            with translated("run a task on its workers"):
                work = context.parallelize(range(tasks), tasks).mapPartitions(look_for(PACKAGES, probe))
                found = [Look(*one) for one in work.distinct().collect()]
        except JobExecutionError as error:
            if _NO_INTERPRETER.search(str(error)):
                raise ConfigurationError(f"{error}\n\n{_HOW_TO_BRING_PACKAGES}") from error
            raise
    if (problem := complaint(found, directory)) is not None:
        raise ConfigurationError(problem)


def look_for(packages: tuple[str, ...], path: str | None) -> Callable[[Iterable[Any]], Iterator[tuple[Any, ...]]]:
    """Return a function for tasks, which yields the fields of a :class:`Look`.

    It is a local function, because those are pickled by value: it must run where Tidemill is not installed.
    """

    def look(items: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        import importlib.util
        import os
        import socket
        import sys

        missing = tuple(name for name in packages if importlib.util.find_spec(name) is None)
        yield socket.gethostname(), sys.executable, missing, path is None or os.path.exists(path)  # noqa: PTH110

    return look


def complaint(found: Sequence[Look], directory: Path | None) -> str | None:
    """Return a message that describes what is wrong with the workers and how to fix it, or None."""
    lacking = {look.host: look for look in found if look.missing}
    if lacking:
        told = (f"{look.interpreter} on {host} has no {', '.join(look.missing)}" for host, look in lacking.items())
        return f"the workers cannot run the job: {'; '.join(sorted(told))}. {_HOW_TO_BRING_PACKAGES}"
    blind = sorted({look.host for look in found if not look.sees})
    if blind:
        return (
            f"the checkpoint directory {directory} is not shared: files that the driver writes are not visible on "
            f"{', '.join(blind)}. Set execution.checkpointing.dir to a directory on a file system that the driver and "
            "all executors have mounted at the same path."
        )
    return None


@contextmanager
def _probe(directory: Path | None) -> Iterator[str | None]:
    """Create a temporary file in a directory."""
    if directory is None:
        yield None
        return
    directory.mkdir(parents=True, exist_ok=True)
    probe = directory / f".probe-{secrets.token_hex(8)}"
    probe.write_bytes(b"")
    try:
        yield str(probe)
    finally:
        probe.unlink(missing_ok=True)
