"""Brings Python files, archives and requirements to the executors, where the workers unpack and install them."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext, SparkFiles

from tidemill.errors import ConfigurationError
from tidemill.runtime.task.delivery import Installed, Packed, Shipment, directories, install
from tidemill.spark.session.cluster import executors_of
from tidemill.spark.session.session import private_directory

__all__ = ["STARTED_IN", "bring", "folder_of_files", "import_from_anywhere", "install_everywhere", "installed_here"]

#: The working directory that Spark gave this process. On executors, Spark's paths are relative to it, and a job with
#: archives changes the working directory.
STARTED_IN: Final = Path.cwd()


def folder_of_files() -> Path:
    """The folder of the files that are sent. It exists as long as this process.

    Executors that join later fetch all files of the session, also those of jobs that have ended, and Spark refuses a
    file of the same name from another folder.
    """
    return private_directory() / "dependencies"


def bring(context: SparkContext, python_files: Sequence[str], packed: Packed) -> None:
    """Let Spark send files to executors. They fetch them before their next task, also those that join later.

    Directories of Python code are part of ``packed``, because Spark does not send directories.
    """
    within = directories(python_files)
    for path in python_files:
        if path not in within:
            context.addPyFile(path)
    for file in packed.files.values():
        context.addFile(str(file))


def install_everywhere(context: SparkContext, delivery: Shipment) -> None:
    """Unpack and install on all executors. Raises :class:`ConfigurationError` with the hosts where it fails."""
    if not delivery.items:
        return
    tasks = 2 * max(1, len(executors_of(context)))
    found = context.parallelize(range(tasks), tasks).mapPartitions(_InstallFunction(delivery)).distinct().collect()
    if found:
        host, problem = min(found)
        others = sorted({name for name, _ in found} - {host})
        also = f" (the same on {', '.join(others)})" if others else ""
        raise ConfigurationError(f"the dependencies of the job cannot be installed on {host}{also}: {problem}")


def installed_here(delivery: Shipment) -> Installed:
    """The result on this executor, whose directory of files all its workers share. Called within a task."""
    if not delivery.items:
        return Installed()
    root = STARTED_IN / SparkFiles.getRootDirectory()
    return install(delivery, lambda name: root / name, root)


def import_from_anywhere() -> None:
    """Let Python find the modules that Spark has sent, whatever the working directory is from now on."""
    for place in [path for path in sys.path if path and not Path(path).is_absolute()]:
        absolute = str((STARTED_IN / place).resolve())
        if absolute not in sys.path:
            sys.path.insert(sys.path.index(place), absolute)


class _InstallFunction:
    """Installs, and yields the host and the problem if that fails."""

    def __init__(self, delivery: Shipment) -> None:
        self._delivery = delivery

    def __call__(self, items: Iterable[Any]) -> Iterator[tuple[str, str]]:
        try:
            installed_here(self._delivery)
        except (ConfigurationError, OSError) as error:
            yield socket.gethostname(), str(error)
