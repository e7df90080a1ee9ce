"""Who uses a Spark session, and what becomes of it: stopped with its last user, or replaced if Spark dies under it."""

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
from tidemill.spark.session.session import adopt, is_started_by_submit, new_session, running_session

__all__ = ["SessionLease"]

log = logging.getLogger(__name__)

#: How long what is left of a JVM may take to end.
_SECONDS_TO_END: Final = 10.0
#: The exit code of a process of Spark that has run out of memory, and how long it may take to end by itself.
_OUT_OF_MEMORY: Final = 52
_SECONDS_TO_EXIT: Final = 3.0

_lock = threading.RLock()


class _MadeHere:
    """The session that Tidemill has made in this process, and how many use it."""

    context: SparkContext | None = None
    users = 0


class SessionLease:
    """A hold on a Spark session: the one that is there, or a new one with the settings that make epochs fast.

    One that was made here is stopped when the last hold on it is released; one that the program has brought along is
    the program's. Raises :class:`EngineLostError` if Spark has died under the program's session: it knows how to make
    another, and nobody else does.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.session = self._take()

    def loss(self) -> JobExecutionError:
        """The error for a job under which Spark is gone.

        If that can be mended here, because the JVM of a session that was made here has died, restart strategies treat
        it as any other; an :class:`EngineLostError` ends the job. Who ends an application in its cluster means that.
        """
        with _lock:
            hint = f". {MORE_MEMORY}" if _exit_code() == _OUT_OF_MEMORY else ""
            is_replaced = self.session.sparkContext is not _MadeHere.context  # by another user of it
            if self._is_made_here and not is_started_by_submit() and (is_replaced or not _answers()):
                return JobExecutionError(
                    "Spark is gone: its process in the driver has died. It is started again with the job, by the "
                    f"restart strategy or by another execute(): the job goes on from its last committed epoch{hint}"
                )
        return EngineLostError(
            "Spark is gone: its process in the driver has died, or the cluster has ended the application. "
            f"Start the driver again: the job goes on from its last committed epoch{hint}"
        )

    def renew(self) -> SparkSession:
        """Another session in the place of one that is lost; all who renew have the same."""
        with _lock:
            if running_session() is not None and self.session.sparkContext is _MadeHere.context:
                return self.session  # it only seemed to be lost
            self.session = self._take()
        return self.session

    def release(self) -> None:
        """The session is not used any more, by this user."""
        context = self.session.sparkContext
        with _lock:
            if context is not _MadeHere.context:
                return  # it was brought along, or lost and replaced
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
                try:
                    session = new_session(self._configuration)
                except (Py4JError, OSError) as error:
                    raise JobExecutionError("Spark has died while it was started: execute the job again") from error
                finally:  # what is left if Spark dies meanwhile was made here too, and nobody uses it
                    _MadeHere.context, _MadeHere.users = SparkContext._active_spark_context, 0
            self._is_made_here = session.sparkContext is _MadeHere.context
            if self._is_made_here:
                _MadeHere.users += 1
            else:
                adopt(session)
            return session


def _make_way() -> None:
    """See to it that a session can be made where none runs."""
    lost = SparkContext._active_spark_context
    if lost is not None and lost is not _MadeHere.context:
        raise EngineLostError(
            "the Spark session that the program has made is gone: its process has died, or the cluster has ended the "
            "application. Start the program again: its jobs go on from their last committed epochs"
        )
    if SparkContext._gateway is None:
        return
    if not _answers():
        if is_started_by_submit():
            raise EngineLostError(
                "the process in which spark-submit runs Spark for this program has died. Submit the program again: its "
                "jobs go on from their last committed epochs"
            )
        log.warning("the process of Spark has died: another one is started")
        _forget_jvm()
    elif lost is not None:
        lost.stop()


def _answers() -> bool:
    """Whether the JVM of this process is there."""
    java: Any = SparkContext._jvm
    try:
        java.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        return False
    return True


def _exit_code() -> int | None:
    """What the JVM of this process has ended with, which it may be about to do; None if it goes on, or is not ours."""
    gateway: Any = SparkContext._gateway
    jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    with suppress(subprocess.TimeoutExpired):
        return None if jvm is None else jvm.wait(_SECONDS_TO_EXIT)
    return None


def _forget_jvm() -> None:
    """Let PySpark forget its JVM, which has died: it would ask it for ever, and no other session could be made.

    If anything is left of the JVM, it ends before this returns: there is never a second one beside it.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None:
        context._jsc = None
        context.stop()  # what is left on this side of it
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SparkContext._gateway = SparkContext._jvm = None
    java: Any = gateway
    with suppress(Py4JError, OSError):
        java.close()
    jvm: subprocess.Popen[bytes] | None = java.proc
    if jvm is None:
        return  # it was spark-submit's
    try:
        jvm.communicate(timeout=_SECONDS_TO_END)  # closes its input, which is what it ends on
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
