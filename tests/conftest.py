"""For all suites: a test module leaves no thread and no process behind."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

# Inherited by every process started from here, also by one whose parent was killed, so that it is no child of ours now.
RUN_MARK = "TIDEMILL_TEST_RUN"
# An orphaned JVM notices within about a second that its driver is gone; threads that were told to stop need less.
GRACE_SECONDS = 10.0


def live_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.daemon}


def live_processes(mark: str) -> set[psutil.Process]:
    """Every process that descends from this one, except the JVM of a Spark session of this process and what it runs."""
    mine = psutil.Process()
    marked = {process for process in psutil.process_iter() if has_mark(process, mark)}
    found = marked.union(mine.children(recursive=True)) - {mine} - processes_of_spark()
    return {process for process in found if process.is_running() and not is_zombie(process)}


def has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(RUN_MARK) == mark
    except (psutil.Error, OSError):
        return False  # gone in the meantime, or of another user


def is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_of_spark() -> set[psutil.Process]:
    """The JVM that pyspark started from this process, with its Python workers: it outlives the sessions in it."""
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    if gateway is None:
        return set()
    try:
        jvm = psutil.Process(gateway.proc.pid)
        return {jvm, *jvm.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def describe(process: psutil.Process) -> str:
    try:
        return f"process {process.pid}: {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return f"process {process.pid}"


@pytest.fixture(scope="session")
def run_mark() -> Iterator[str]:
    mark = uuid.uuid4().hex
    os.environ[RUN_MARK] = mark
    yield mark
    del os.environ[RUN_MARK]


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind(run_mark: str) -> Iterator[None]:
    threads, processes = live_threads(), live_processes(run_mark)
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        left = [
            *(f"thread {thread.name}" for thread in live_threads() - threads),
            *(describe(process) for process in live_processes(run_mark) - processes),
        ]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert not left, "left running by the tests of this module: " + "; ".join(left)
