"""The Spark session of a job: the active one, or a new one with settings that make epochs fast."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidemill.common.configuration import Configuration
from tidemill.config import SparkOptions
from tidemill.runtime.task.scratch import scratch_directory
from tidemill.spark.session.cluster import is_clustered
from tidemill.spark.session.java import check_java
from tidemill.spark.session.quiet_start import without_notices

log = logging.getLogger(__name__)

#: The settings for epochs of a few milliseconds. The effect of each was measured (docs/decisions/0002).
FAST_SETTINGS: Final[dict[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.locality.wait": "100ms",
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).with_name("fairscheduler.xml").as_uri(),
    # A lost executor does not come back: try to fetch its shuffle files for half a second, not for fifteen seconds.
    "spark.shuffle.io.maxRetries": "3",
    "spark.shuffle.io.retryWait": "150ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # Spark logs its own start in detail, before a program can set a log level.
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
}
#: A local session listens on the loopback interface only.
_LOCAL_SETTINGS: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
#: The directory for Spark's shuffles, spills and broadcasts; the environment variable has precedence.
_LOCAL_DIRECTORIES: Final = "spark.local.dir"
_LOCAL_DIRECTORIES_VARIABLE: Final = "SPARK_LOCAL_DIRS"
#: The variable in which ``spark-submit`` passes the port of its JVM to a program.
_STARTED_BY_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"
#: The interpreter of workers.
_INTERPRETER: Final = "spark.pyspark.python"
#: The longest reasonable wait of a task for the executor that has its state. With a longer wait, an executor that is
#: lost or busy delays every epoch by more than a cold start on another executor.
_MOST_WAIT_MS: Final = 1000


def new_session(configuration: Configuration) -> SparkSession:
    """Create a session, if there is none."""
    # Workers must run the interpreter of the driver, not the first python3 on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    asked_for = {
        **settings_of_submit(),
        **{key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")},
    }
    master = asked_for.get(SparkOptions.MASTER.key) or configuration.get(SparkOptions.MASTER)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("tidemill").master(master)
    for key, value in settings_for(master, asked_for).items():
        builder = builder.config(key, value)
    if starts_jvm():
        with without_notices(), _own_interrupts():
            session = builder.getOrCreate()
    else:
        with _own_interrupts():
            session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Spark itself reads this setting only in spark-submit.
    session.sparkContext.pythonExec = asked_for.get(_INTERPRETER, session.sparkContext.pythonExec)
    return session


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the handler of keyboard interrupts: an interrupt cancels the job, which cancels what it runs on Spark.

    PySpark's own handler sends a command to the JVM from within the command that it may have interrupted, and py4j
    reports that with several tracebacks.
    """
    if threading.current_thread() is not threading.main_thread():  # PySpark sets no handler then
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)


def starts_jvm() -> bool:
    """Whether a new session would start a JVM, instead of using the one that this process has."""
    return SparkContext._gateway is None and not is_started_by_submit()


def check_startable() -> None:
    """Raise :class:`ConfigurationError` if a new session would have to start a JVM, and cannot."""
    if starts_jvm():
        check_java()


def settings_for(master: str, asked_for: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new session: the defaults above, overridden by those in ``asked_for``."""
    settings = dict(FAST_SETTINGS)
    if master.startswith("local"):
        settings.update(_LOCAL_SETTINGS)
        if _LOCAL_DIRECTORIES not in asked_for and _LOCAL_DIRECTORIES_VARIABLE not in os.environ:
            settings[_LOCAL_DIRECTORIES] = str(private_directory())
    return {**settings, **asked_for}


@functools.cache
def private_directory() -> Path:
    """Return a directory of this process for Spark, which other users cannot read, just as with checkpoints.

    Spark itself creates world-readable temporary directories, with records and state in them. The directory is removed
    when the process ends. If the process is killed, the next process that creates such a directory removes it.
    """
    directory, remove = scratch_directory()
    owner = os.getpid()
    atexit.register(lambda: remove() if os.getpid() == owner else None)  # not in forked processes
    return directory


def adopt(session: SparkSession) -> None:
    """Prepare a session that the program has created."""
    use_own_interpreter(session)
    warn_of_long_waits(session.sparkContext)


def is_started_by_submit() -> bool:
    """Whether ``spark-submit`` has started this process, which is then a child of the JVM and not its parent."""
    return _STARTED_BY_SUBMIT in os.environ


def settings_of_submit() -> dict[str, str]:
    """Return the settings of ``spark-submit``, including its defaults files, if it has started this process."""
    if not is_started_by_submit():
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def running_session() -> SparkSession | None:
    """Return the session of this process, regardless of the thread that created it, or None."""
    context = SparkContext._active_spark_context
    if context is None or is_lost(context):
        return None
    # The active session is thread-local, but the session itself is not.
    return SparkSession.getActiveSession() or SparkSession(context)


def is_lost(context: SparkContext) -> bool:
    """Whether a session can no longer run anything, because it was stopped or its JVM has died."""
    java = context._jsc  # another thread may remove it from the context
    try:
        return java is None or bool(java.sc().isStopped())
    except (Py4JError, OSError):
        return True


def use_own_interpreter(session: SparkSession) -> None:
    """Let workers on this machine run the driver's interpreter, unless the user has chosen one.

    Spark's default is the python3 on the path. For a program started as ``.venv/bin/python program.py``, that
    interpreter does not have Tidemill and pyarrow.
    """
    context = session.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains(_INTERPRETER)
    if not chosen and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def warn_of_long_waits(context: SparkContext) -> None:
    """Log a warning if tasks wait too long for their executor, which is Spark's default on a cluster."""
    if not is_clustered(context):
        return
    settings = context._jsc.sc().conf()
    usual = settings.getTimeAsMs("spark.locality.wait", "3s")
    longest = max(settings.getTimeAsMs(f"spark.locality.wait.{level}", f"{usual}ms") for level in ("process", "node"))
    if longest > _MOST_WAIT_MS:
        log.warning(
            "in this Spark session a task waits %.1f s for the executor that has its state, each time the executor is "
            "busy or lost. Create the session with spark.locality.wait=%s",
            longest / 1000,
            FAST_SETTINGS["spark.locality.wait"],
        )
