"""Counts the users of a Spark session, stops it after its last user, and replaces it if Spark dies."""

from __future__ import annotations

import logging
import subprocess
import threading
from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemill.common.configuration import Configuration
from tidemill.errors import EngineLostError, JobExecutionError
from tidemill.spark.session.failures import MORE_MEMORY
from tidemill.spark.session.session import adopt, check_startable, is_started_by_submit, new_session, running_session

__all__ = ["SessionLease"]

log = logging.getLogger(__name__)

#: The maximum time for the rest of a JVM to end.
_SECONDS_TO_END: Final = 10.0
#: The exit code of a Spark process that has run out of memory, and the maximum time for it to end by itself.
_OUT_OF_MEMORY: Final = 52
_SECONDS_TO_EXIT: Final = 3.0

_lock = threading.RLock()


class _MadeHere:
    """The session that Tidemill has created in this process, and the number of its users."""

    context: SparkContext | None = None
    users = 0


class SessionLease:
    """A lease on a Spark session: the active one, or a new one with settings that make epochs fast.

    A session that was created here is stopped when its last lease is released. A session that the program has created
    is never stopped. Raises :class:`EngineLostError` if Spark has died and the program has created the session: only
    the program can create another one.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.session = self._take()

    def loss(self) -> JobExecutionError:
        """Return the error for a job that has lost Spark.

        If the session was created here and its JVM has died, Spark can be restarted, and restart strategies treat the
        error like any other. An :class:`EngineLostError` ends the job: a user who stops an application in its cluster
        does so intentionally.
        """
        with _lock:
            hint = f". {MORE_MEMORY}" if _exit_code() == _OUT_OF_MEMORY else ""
            is_replaced = self.session.sparkContext is not _MadeHere.context  # by another user of it
            if self._is_made_here and not is_started_by_submit() and (is_replaced or not _answers()):
                return JobExecutionError(
                    "Spark is lost: its process in the driver has died. It is restarted with the job, by the restart "
                    f"strategy or by another execute(): the job resumes from its last committed epoch{hint}"
                )
        return EngineLostError(
            "Spark is lost: its process in the driver has died, or the cluster has ended the application. "
            f"Start the driver again: the job resumes from its last committed epoch{hint}"
        )

    def renew(self) -> SparkSession:
        """Replace a lost session. All leases that renew get the same new session."""
        with _lock:
            if running_session() is not None and self.session.sparkContext is _MadeHere.context:
                return self.session  # it only seemed to be lost
            self.session = self._take()
        return self.session

    def release(self) -> None:
        """Release the session of this lease."""
        context = self.session.sparkContext
        with _lock:
            if context is not _MadeHere.context:
                return  # it was created by the program, or lost and replaced
            _MadeHere.users -= 1
            if _MadeHere.users == 0:
                _MadeHere.context = None
                if context is not SparkContext._active_spark_context:
                    return  # the program has stopped it
                if _answers():
                    self.session.stop()
                else:
                    _forget_jvm()

    def _take(self) -> SparkSession:
        with _lock:
            session = running_session()
            if session is None:
                _make_way()
                check_startable()
                try:
                    session = new_session(self._configuration)
                except (Py4JError, OSError) as error:
                    raise JobExecutionError("Spark has died while it was started: execute the job again") from error
                finally:  # if Spark dies meanwhile, its context was created here too, and has no users
                    _MadeHere.context, _MadeHere.users = SparkContext._active_spark_context, 0
            self._is_made_here = session.sparkContext is _MadeHere.context
            if self._is_made_here:
                _MadeHere.users += 1
            else:
                adopt(session)
            return session


def _make_way() -> None:
    """Ensure that a new session can be created if none is running."""
    lost = SparkContext._active_spark_context
    if lost is not None and lost is not _MadeHere.context:
        raise EngineLostError(
            "the Spark session that the program has created is lost: its process has died, or the cluster has ended "
            "the application. Start the program again: its jobs resume from their last committed epochs"
        )
    if SparkContext._gateway is None:
        return
    if not _answers():
        if is_started_by_submit():
            raise EngineLostError(
                "the process in which spark-submit runs Spark for this program has died. Submit the program again: its "
                "jobs resume from their last committed epochs"
            )
        log.warning("Spark's process has died: a new one is started")
        _forget_jvm()
    elif lost is not None:
        lost.stop()


def _answers() -> bool:
    """Whether the JVM of this process responds."""
    java: Any = SparkContext._jvm
    try:
        java.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        return False
    return True


def _exit_code() -> int | None:
    """Return the exit code of this process's JVM, which may be about to end; None if it still runs or is not ours."""
    gateway: Any = SparkContext._gateway
    jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    with suppress(subprocess.TimeoutExpired):
        return None if jvm is None else jvm.wait(_SECONDS_TO_EXIT)
    return None


def _forget_jvm() -> None:
    """Remove PySpark's references to its dead JVM, which would prevent the creation of another session.

    If the JVM has not ended completely, this waits until it has: there are never two of them at the same time.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None:
        context._jsc = None
        context.stop()  # its Python side
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SparkContext._gateway = SparkContext._jvm = None
    java: Any = gateway
    with suppress(Py4JError, OSError):
        java.close()
    jvm: subprocess.Popen[bytes] | None = java.proc
    if jvm is None:
        return  # it was started by spark-submit
    try:
        jvm.communicate(timeout=_SECONDS_TO_END)  # closes its input, which makes it end
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
