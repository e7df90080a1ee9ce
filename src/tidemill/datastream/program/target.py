"""Where a program runs if it does not say so: on Spark, or in its own process where there is no Java."""

from __future__ import annotations

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
    """Return the configured ``execution.target``. If it is not set, it is ``local`` where no Java is found."""
    if configuration.contains(ExecutionOptions.TARGET) or configuration.get_string(_MASTER, "") or java_program():
        return configuration.get(ExecutionOptions.TARGET)
    log.warning(
        "no Java was found, which Spark needs: the job runs in this process, as with execution.target: local "
        "(docs/local.md)"
    )
    return "local"
