"""Where a program runs if it does not say so: on Spark, or in its own process where there is no Java or no PySpark."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions

__all__ = ["java_program", "target_of"]

log = logging.getLogger(__name__)

#: A program that sets it needs Spark, and must not run without it unnoticed.
_MASTER: Final = "spark.master"


def java_program() -> str | None:
    """Return the path of the Java that Spark would start, or None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


def target_of(configuration: Configuration) -> str:
    """Return the configured ``execution.target``. The default is ``local`` where Java or PySpark is missing."""
    if configuration.contains(ExecutionOptions.TARGET) or configuration.get_string(_MASTER, ""):
        return configuration.get(ExecutionOptions.TARGET)
    if importlib.util.find_spec("pyspark") is None:
        missing = "PySpark is not installed (pip install 'tidemill[spark]')"
    elif java_program() is None:
        missing = "no Java was found, which Spark needs"
    else:
        return configuration.get(ExecutionOptions.TARGET)
    log.warning("%s: the job runs in this process, as with execution.target: local (docs/local.md)", missing)
    return "local"
