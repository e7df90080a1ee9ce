"""What a cluster is made of, as far as a job must know: its executors, and whether they see the same files."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext

from tidemill.errors import ConfigurationError

log = logging.getLogger(__name__)

#: Executors register one by one: they are taken to be complete when no new one has come for so long ...
_SETTLED_SECONDS: Final = 1.0
#: ... and are waited for at most so long.
_MOST_SECONDS: Final = 15.0


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


def check_shared(context: SparkContext, directory: Path) -> None:
    """Raise :class:`ConfigurationError` unless all executors see the files that the driver writes to a directory."""
    if not is_clustered(context):
        return
    directory.mkdir(parents=True, exist_ok=True)
    probe = directory / f".probe-{secrets.token_hex(8)}"
    probe.write_bytes(b"")
    try:
        tasks = 2 * max(1, len(executors_of(context)))
        blind = context.parallelize(range(tasks), tasks).mapPartitions(_Look(str(probe))).distinct().collect()
    finally:
        probe.unlink(missing_ok=True)
    if blind:
        raise ConfigurationError(
            f"the checkpoint directory {directory} is not shared: what the driver writes there cannot be seen on "
            f"{', '.join(sorted(blind))}. Set execution.checkpointing.dir to a directory on a file system that the "
            "driver and all executors have mounted at the same path."
        )


class _Look:
    """In a task: the name of this host, if the file cannot be seen from it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, items: Iterable[Any]) -> Iterator[str]:
        import socket

        if not Path(self._path).exists():
            yield socket.gethostname()
