"""The Java that Spark starts: which one it is, and whether it is recent enough. Does not import PySpark."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidemill.datastream.program.target import java_program
from tidemill.errors import ConfigurationError

__all__ = ["OLDEST_JAVA", "Java", "check_java", "find_java"]

OLDEST_JAVA: Final = 17
_WANTED: Final = f"install Java {OLDEST_JAVA} or later, and set JAVA_HOME if it is not in PATH"
#: The version in the file ``release`` of a Java installation, and in the output of ``java -version``.
_RELEASE: Final = re.compile(r'^JAVA_VERSION="((?:1\.)?(\d+)[^"]*)"', re.MULTILINE)
_PRINTED: Final = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_SECONDS: Final = 30


@dataclass(frozen=True)
class Java:
    """A Java installation."""

    program: str
    version: str


def find_java() -> Java:
    """Return the Java that Spark would start: that of ``JAVA_HOME``, otherwise the first in the path.

    Raises :class:`ConfigurationError` with the reason and what to do if there is none, or if it is too old for Spark.
    """
    home = os.environ.get("JAVA_HOME")
    program = java_program()
    if program is None:
        raise ConfigurationError(f"{f'JAVA_HOME={home} has no bin/java' if home else 'Java is not found'}: {_WANTED}")
    found = _released(Path(program)) or _printed(program)
    if found is None or int(found[2]) < OLDEST_JAVA:
        raise ConfigurationError(f"{program} is {f'Java {found[1]}' if found else 'of an unknown version'}: {_WANTED}")
    return Java(program, found[1])


def check_java() -> None:
    """Raise :class:`ConfigurationError`, in one sentence, if Spark cannot be started for lack of Java."""
    try:
        find_java()
    except ConfigurationError as error:
        raise ConfigurationError(f"Spark needs Java {OLDEST_JAVA}, but {error}") from None


def _released(program: Path) -> re.Match[str] | None:
    """Read the version from the installation. Starting Java to ask for it takes a good part of a second."""
    try:
        return _RELEASE.search((program.resolve().parents[1] / "release").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _printed(program: str) -> re.Match[str] | None:
    try:
        result = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=_SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{program} cannot be run: {error}") from error
    return _PRINTED.search(result.stderr + result.stdout)
