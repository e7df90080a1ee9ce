"""The Spark session a job runs in: the one that is there, or a new one with the settings that make epochs fast."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidemill.common.configuration import Configuration
from tidemill.config import SparkOptions
from tidemill.runtime.task.scratch import scratch_directory
from tidemill.spark.session.cluster import is_clustered

log = logging.getLogger(__name__)

#: What an epoch of a few milliseconds needs; each was measured (docs/decisions/0002).
FAST_SETTINGS: Final[dict[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.locality.wait": "100ms",
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).with_name("fairscheduler.xml").as_uri(),
    # An executor that is gone does not come back: ask it for its shuffle files for half a second, not for fifteen.
    "spark.shuffle.io.maxRetries": "3",
    "spark.shuffle.io.retryWait": "150ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # Spark tells of its own start at length, before a program can set a level.
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
}
#: A session on this machine listens on this machine only.
_LOCAL_SETTINGS: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
#: Where Spark keeps what it shuffles, spills and broadcasts; the variable has precedence.
_LOCAL_DIRECTORIES: Final = "spark.local.dir"
_LOCAL_DIRECTORIES_VARIABLE: Final = "SPARK_LOCAL_DIRS"
#: Where ``spark-submit`` tells a program the JVM that it has started for it.
_STARTED_BY_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"
#: The interpreter of workers.
_INTERPRETER: Final = "spark.pyspark.python"
#: How long a task may wait for the executor that holds its state. Longer, an executor that is lost or busy holds every
#: epoch up for longer than a cold start elsewhere takes.
_MOST_WAIT_MS: Final = 1000


def new_session(configuration: Configuration) -> SparkSession:
    """Make a session where there is none."""
    # Workers must run the interpreter of the driver, not whatever is called python3 on the path.
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
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Spark itself looks at this setting only in spark-submit.
    session.sparkContext.pythonExec = asked_for.get(_INTERPRETER, session.sparkContext.pythonExec)
    return session


def settings_for(master: str, asked_for: Mapping[str, str]) -> dict[str, str]:
    """The settings of a new session: ours where nothing else is asked for."""
    settings = dict(FAST_SETTINGS)
    if master.startswith("local"):
        settings.update(_LOCAL_SETTINGS)
        if _LOCAL_DIRECTORIES not in asked_for and _LOCAL_DIRECTORIES_VARIABLE not in os.environ:
            settings[_LOCAL_DIRECTORIES] = str(private_directory())
    return {**settings, **asked_for}


@functools.cache
def private_directory() -> Path:
    """A directory of this process for Spark, which others cannot read, as they cannot read checkpoints.

    Spark itself makes directories that everybody can read, with records and state in them, among the temporary ones.
    It is removed when the process ends; if that was killed, by the next process that makes one.
    """
    directory, remove = scratch_directory()
    owner = os.getpid()
    atexit.register(lambda: remove() if os.getpid() == owner else None)  # forked processes leave it alone
    return directory


def adopt(session: SparkSession) -> None:
    """Make the best of a session that the program has brought along."""
    use_own_interpreter(session)
    warn_of_long_waits(session.sparkContext)


def is_started_by_submit() -> bool:
    """Whether ``spark-submit`` has started this process, which then belongs to the JVM, and not the JVM to it."""
    return _STARTED_BY_SUBMIT in os.environ


def settings_of_submit() -> dict[str, str]:
    """What ``spark-submit`` was told, with its files of defaults, if it has started this process; else nothing."""
    if not is_started_by_submit():
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def running_session() -> SparkSession | None:
    """The session of this process, whichever thread it was made in."""
    context = SparkContext._active_spark_context
    if context is None or is_lost(context):
        return None
    # The active session is a matter of the thread; the session itself is not.
    return SparkSession.getActiveSession() or SparkSession(context)


def is_lost(context: SparkContext) -> bool:
    """Whether a session can run nothing any more: it was stopped, by whomever, or its JVM has died."""
    java = context._jsc  # another thread may take it away from the context
    try:
        return java is None or bool(java.sc().isStopped())
    except (Py4JError, OSError):
        return True


def use_own_interpreter(session: SparkSession) -> None:
    """Let workers on this machine run the driver's interpreter, where the user has not chosen one.

    Spark's default is python3 on the path: for a program started as ``.venv/bin/python program.py`` that is one without
    Tidemill and pyarrow.
    """
    context = session.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains(_INTERPRETER)
    if not chosen and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def warn_of_long_waits(context: SparkContext) -> None:
    """Tell who brought a session along for a cluster that it lets tasks wait for their executor: Spark's default."""
    if not is_clustered(context):
        return
    settings = context._jsc.sc().conf()
    usual = settings.getTimeAsMs("spark.locality.wait", "3s")
    longest = max(settings.getTimeAsMs(f"spark.locality.wait.{level}", f"{usual}ms") for level in ("process", "node"))
    if longest > _MOST_WAIT_MS:
        log.warning(
            "in this Spark session a task waits %.1f s for the executor that holds its state, each time it is busy or "
            "gone. Make the session with spark.locality.wait=%s",
            longest / 1000,
            FAST_SETTINGS["spark.locality.wait"],
        )
