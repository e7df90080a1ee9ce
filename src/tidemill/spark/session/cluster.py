"""What a cluster is made of, as far as a job must know: its executors, and whether they have what tasks need."""

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

#: Executors register one by one: they are taken to be complete when no new one has come for so long ...
_SETTLED_SECONDS: Final = 1.0
#: ... and are waited for at most so long.
_MOST_SECONDS: Final = 15.0

#: What tasks import.
PACKAGES: Final = ("tidemill", "pyarrow", "cloudpickle", "numpy", "rocksdict", "yaml")
#: What Spark says if workers have no Python that fits the driver's.
_NO_INTERPRETER: Final = re.compile(r"PYTHON_VERSION_MISMATCH|Cannot run program|No module named '?pyspark")
_HOW_TO_BRING_PACKAGES: Final = (
    "Workers need the driver's version of Python, Tidemill and the packages of the program: install them there, and "
    "name the interpreter with spark.pyspark.python if it is at another path than the driver's, or send an "
    "environment along with spark.archives."
)


@dataclass(frozen=True)
class Executor:
    """An executor; ``location`` is how Spark's scheduler names it as a place for a task."""

    id: str
    host: str
    cores: int

    @property
    def location(self) -> str:
        return f"executor_{self.host}_{self.id}"


def is_clustered(context: SparkContext) -> bool:
    """Whether tasks run in processes of their own, not in the driver's."""
    master = str(context.master)
    return master != "local" and not master.startswith("local[")


def executors_of(context: SparkContext) -> list[Executor]:
    """The executors that are registered now, in the order of their ids."""
    known = context._jsc.sc().statusStore().executorList(True)
    found = []
    for position in range(known.size()):
        one = known.apply(position)
        if one.id() != "driver":
            found.append(Executor(one.id(), one.hostPort().rpartition(":")[0], one.totalCores()))
    return sorted(found, key=lambda executor: executor.id)


def cores_of(context: SparkContext) -> int:
    """How many tasks run at the same time; on a cluster, once its executors have registered."""
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
    log.warning("the cluster has %d executors after %.0f s; the job starts with them", count, _MOST_SECONDS)
    return max(1, context.defaultParallelism)


@dataclass(frozen=True)
class Look:
    """What a task has found on its host: packages that its interpreter lacks, and whether it sees a file of ours."""

    host: str
    interpreter: str
    missing: tuple[str, ...]
    sees: bool


def check_workers(context: SparkContext, directory: Path | None) -> None:
    """Raise :class:`ConfigurationError` unless all executors have the packages that tasks need, and see the files that
    the driver writes to a directory, if one is given."""
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
    """A function for tasks, which yields the parts of a :class:`Look`.

    It is a local one, since those travel whole: it must run where nothing of ours is installed.
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
    """What is wrong with the workers, in words for whoever must mend it; None if nothing is."""
    lacking = {look.host: look for look in found if look.missing}
    if lacking:
        told = (f"{look.interpreter} on {host} has no {', '.join(look.missing)}" for host, look in lacking.items())
        return f"the workers cannot run the job: {'; '.join(sorted(told))}. {_HOW_TO_BRING_PACKAGES}"
    blind = sorted({look.host for look in found if not look.sees})
    if blind:
        return (
            f"the checkpoint directory {directory} is not shared: what the driver writes there cannot be seen on "
            f"{', '.join(blind)}. Set execution.checkpointing.dir to a directory on a file system that the driver and "
            "all executors have mounted at the same path."
        )
    return None


@contextmanager
def _probe(directory: Path | None) -> Iterator[str | None]:
    """A file that is there for a moment."""
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
