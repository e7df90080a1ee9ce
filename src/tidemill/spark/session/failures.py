"""Spark's own failures in our words: what happened to a worker or a task, without the wall of JVM frames."""

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
#: Of a message and its causes.
_MOST_LINES = 12
#: Java says so, or a process of Spark has ended with the exit code that Spark has for it.
_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError|\bcode:? 52\b|exitCode=52\b", re.IGNORECASE)
#: What to do then.
MORE_MEMORY: Final = (
    "Spark has run out of memory, of which it has 1g unless you set more. Set spark.driver.memory (local masters) or "
    "spark.executor.memory (clusters) before the program starts. Long lines and large records are held in memory as a "
    "whole, several times over: count on at least twenty times the largest."
)
_LOST = re.compile(r"(ExecutorLostFailure[^\n]*|Python worker exited unexpectedly[^\n]*|EOFException)")


@contextlib.contextmanager
def translated(task: str = "run the epoch") -> Iterator[None]:
    """Turn exceptions of Spark into :class:`JobExecutionError` with the task and the part that matters.

    Checkpoint storage that failed in a worker, more often than Spark retries, stays a :class:`CheckpointError`: the
    job's settings say whether it is tolerated. What another start cannot mend, a damaged file for one, stays what it
    is: the job is not started again.
    """
    try:
        yield
    except TidemillError:
        raise
    except (PySparkException, Py4JError) as error:
        text = summary(error, task)
        raise _kind(text)(text) from error


def _kind(text: str) -> type[TidemillError]:
    """The class of an error that a task has raised outside of user functions: of our own the last one counts."""
    raised = _OURS.findall(text)
    known = {kind.__name__: kind for kind in (CheckpointError, *LASTING)}
    return known.get(raised[-1], JobExecutionError) if raised else JobExecutionError


def summary(error: BaseException, task: str = "run the epoch") -> str:
    """The Python traceback of the failed task if there is one, else the first lines of Spark's message."""
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
    """What the causes of a Java exception say, each with its first lines: which value of a file it was, for example."""
    seen: set[str] = set()
    cause = exception.getCause()
    while cause is not None:
        message = cause.getMessage()
        if message is not None and message not in seen:
            seen.add(message)
            yield "caused by: " + "\n".join(str(message).splitlines()[:2])
        cause = cause.getCause()
