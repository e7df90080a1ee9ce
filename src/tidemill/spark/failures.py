"""Spark's own failures in our words: what happened to a worker or a task, without the wall of JVM frames."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tidemill.errors import CheckpointError, JobExecutionError, TidemillError

_PYTHON_TRACEBACK = re.compile(
    r"(Traceback \(most recent call last\):.*?)(?:\n\s*SQLSTATE|\n\tat |\n\nDriver|\Z)", re.DOTALL
)
_STORAGE = re.compile(r"^tidemill\.errors\.CheckpointError: ", re.MULTILINE)
#: Of a message and its causes.
_MOST_LINES = 12
_LOST = re.compile(r"(ExecutorLostFailure[^\n]*|Python worker exited unexpectedly[^\n]*|EOFException)")


@contextlib.contextmanager
def translated(task: str = "run the epoch") -> Iterator[None]:
    """Turn exceptions of Spark into :class:`JobExecutionError` with the task and the part that matters.

    Checkpoint storage that failed in a worker, more often than Spark retries, stays a :class:`CheckpointError`: the
    job's settings say whether it is tolerated.
    """
    try:
        yield
    except TidemillError:
        raise
    except (PySparkException, Py4JError) as error:
        text = summary(error, task)
        raise (CheckpointError if _STORAGE.search(text) else JobExecutionError)(text) from error


def summary(error: BaseException, task: str = "run the epoch") -> str:
    """The Python traceback of the failed task if there is one, else the first lines of Spark's message."""
    text = str(error)
    if isinstance(error, Py4JJavaError) and error.java_exception is not None:
        text = "\n".join([str(error.java_exception.toString()), *_causes(error.java_exception)])
    traceback = _PYTHON_TRACEBACK.search(text)
    if traceback is not None:
        return f"{traceback.group(1).rstrip()}\n\nraised in a Spark task of the job, outside of user functions"
    lost = _LOST.search(text)
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    if lost is not None:
        return f"Spark lost a worker more often than it retries: {lost.group(1)}\n{' '.join(lines[:3])}"
    return f"Spark could not {task}: " + "\n".join(lines[:_MOST_LINES])


def _causes(exception: Any) -> Iterator[str]:
    """What the causes of a Java exception say, each with its first lines: which value of a file it was, for example."""
    seen: set[str] = set()
    cause = exception.getCause()
    while cause is not None:
        message = cause.getMessage()
        if message is not None and message not in seen:
            seen.add(message)
            yield "caused by: " + "\n".join(str(message).splitlines()[:2])
        cause = cause.getCause()
