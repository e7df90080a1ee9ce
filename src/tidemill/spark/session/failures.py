"""Translates Spark's exceptions to short errors about a worker or a task, without JVM stack traces."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tidemill.errors import LASTING, CheckpointError, JobExecutionError, TidemillError

_PYTHON_TRACEBACK = re.compile(
    r"(Traceback \(most recent call last\):.*?)(?:\n\s*SQLSTATE|\n\tat |\n\nDriver|\Z)", re.DOTALL
)
_OURS = re.compile(r"^tidemill\.errors\.(\w+): ", re.MULTILINE)
#: The maximum number of lines of a message and its causes.
_MOST_LINES = 12
#: Java's error, or the exit code of a Spark process that has run out of memory.
_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError|\bcode:? 52\b|exitCode=52\b", re.IGNORECASE)
#: The advice for that case.
MORE_MEMORY: Final = (
    "Spark has run out of memory; its default is 1g. Set spark.driver.memory (local masters) or spark.executor.memory "
    "(clusters) before the program starts. Long lines and large records are kept in memory in several copies: provide "
    "at least twenty times the size of the largest."
)
_LOST = re.compile(r"(ExecutorLostFailure[^\n]*|Python worker exited unexpectedly[^\n]*|EOFException)")


@contextlib.contextmanager
def translated(task: str = "run the epoch") -> Iterator[None]:
    """Convert exceptions of Spark to :class:`JobExecutionError` with the task and the relevant part of the message.

    If checkpoint storage fails in a worker more often than Spark retries, the error is still a
    :class:`CheckpointError`: the job's settings define whether it is tolerated. Errors that a restart cannot fix, such
    as a damaged file, keep their class, and the job is not restarted.
    """
    try:
        yield
    except TidemillError:
        raise
    except (PySparkException, Py4JError) as error:
        text = summary(error, task)
        raise _kind(text)(text) from error


def _kind(text: str) -> type[TidemillError]:
    """Return the class of an error that a task raised outside user functions: the last one that is Tidemill's own."""
    raised = _OURS.findall(text)
    known = {kind.__name__: kind for kind in (CheckpointError, *LASTING)}
    return known.get(raised[-1], JobExecutionError) if raised else JobExecutionError


def summary(error: BaseException, task: str = "run the epoch") -> str:
    """Return the Python traceback of the failed task if there is one, else the first lines of Spark's message."""
    text = str(error)
    if isinstance(error, Py4JJavaError) and error.java_exception is not None:
        text = "\n".join([str(error.java_exception.toString()), *_causes(error.java_exception)])
    hint = f"\n{MORE_MEMORY}" if _OUT_OF_MEMORY.search(text) else ""
    traceback = _PYTHON_TRACEBACK.search(text)
    if traceback is not None:
        return f"{traceback.group(1).rstrip()}\n\nraised in a Spark task of the job, outside of user functions"
    lost = _LOST.search(text)
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    if lost is not None:
        return f"Spark lost a worker more often than it retries: {lost.group(1)}\n{' '.join(lines[:3])}{hint}"
    return f"Spark could not {task}: " + "\n".join(lines[:_MOST_LINES]) + hint


def _causes(exception: Any) -> Iterator[str]:
    """Return the first lines of the causes of a Java exception, which contain, for example, the value of a file."""
    seen: set[str] = set()
    cause = exception.getCause()
    while cause is not None:
        message = cause.getMessage()
        if message is not None and message not in seen:
            seen.add(message)
            yield "caused by: " + "\n".join(str(message).splitlines()[:2])
        cause = cause.getCause()
