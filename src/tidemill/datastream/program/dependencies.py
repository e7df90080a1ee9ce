"""What the functions of a program need where they run: Python files, archives, requirements, an interpreter.

The program declares it, by methods of the environment or by configuration keys. ``tidemill.runtime.task.delivery``
prepares it for workers.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from tidemill.common.configuration import Configuration
from tidemill.config import PythonOptions
from tidemill.errors import ConfigurationError

__all__ = ["Archive", "Dependencies", "Requirements", "local_path"]

#: What separates a path from its target in Flink's keys, and one entry of a list from the next.
_TARGET: Final = "#"
_NEXT: Final = ","
#: The names under which workers start the driver's interpreter anyway.
_USUAL: Final = ("python", "python3")
_VERSION: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


@dataclass(frozen=True)
class Archive:
    """A zip or tar file, unpacked to the directory ``target`` of the working directory of functions."""

    path: str
    target: str

    @staticmethod
    def parse(text: str) -> Archive:
        """An archive in the form of Flink's key: ``path`` or ``path#target``.

        >>> Archive.parse("/data/model.zip"), Archive.parse("/data/model.zip#model")
        (Archive(path='/data/model.zip', target='model.zip'), Archive(path='/data/model.zip', target='model'))
        """
        path, _, target = text.partition(_TARGET)
        return Archive(path, target or PurePosixPath(path).name)


@dataclass(frozen=True)
class Requirements:
    """A requirements file for pip, and the directory with the packages that it names, if there is one."""

    file: str
    cache: str | None = None

    @staticmethod
    def parse(text: str) -> Requirements:
        """Requirements in the form of Flink's key: ``file`` or ``file#directory``."""
        file, _, cache = text.partition(_TARGET)
        return Requirements(file, cache or None)


@dataclass(frozen=True)
class Dependencies:
    """Everything that a program declares. Paths are as given: relative to the working directory of the program."""

    files: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    requirements: Requirements | None = None
    executable: str | None = None

    @staticmethod
    def of(configuration: Configuration, files: Iterable[str]) -> Dependencies:
        """The dependencies in a configuration, with these Python files.

        Raises :class:`ConfigurationError` for a file that does not exist, an archive of an unknown kind, and a target
        outside of the working directory.
        """
        archives = [Archive.parse(text) for text in entries(configuration.get(PythonOptions.ARCHIVES))]
        given = configuration.get(PythonOptions.REQUIREMENTS)
        found = Dependencies(
            tuple(files),
            tuple(archives),
            Requirements.parse(given) if given else None,
            configuration.get(PythonOptions.EXECUTABLE),
        )
        found._check()
        return found

    def _check(self) -> None:
        for archive in self.archives:
            file = local_path(archive.path, "archive")
            if not (zipfile.is_zipfile(file) or tarfile.is_tarfile(file)):
                raise ConfigurationError(f"the archive {archive.path} is neither a zip nor a tar file")
            target = PurePosixPath(archive.target)
            if target.is_absolute() or ".." in target.parts or not target.parts:
                raise ConfigurationError(
                    f"the archive {archive.path} cannot be unpacked to {archive.target!r}: the target must be a "
                    "directory below the working directory of the functions"
                )
        targets = [archive.target for archive in self.archives]
        for target_name in targets:
            if targets.count(target_name) > 1:
                raise ConfigurationError(
                    f"two archives would be unpacked to {target_name!r}: give one of them another target_dir"
                )
        if self.requirements is not None:
            local_path(self.requirements.file, "requirements file")
            cache = self.requirements.cache
            if cache is not None and not local_path(cache, "directory of cached packages").is_dir():
                raise ConfigurationError(f"the cached packages {cache} are not a directory")

    def interpreter_note(self) -> str | None:
        """One line that explains why ``python.executable`` has no effect, or None if it makes no difference."""
        if self.executable is None or self.executable in _USUAL:
            return None
        ours = f"{sys.version_info.major}.{sys.version_info.minor}"
        found = shutil.which(self.executable)
        version = None if found is None else _version_of(found)
        if version == ours:
            return None
        other = "cannot be started on this machine" if version is None else f"is Python {version}"
        return (
            f"python.executable has no effect: {self.executable} {other}, and functions run in the version of the "
            f"driver, Python {ours}. To choose the interpreter of Spark's workers, set spark.pyspark.python."
        )


def entries(text: str | None) -> list[str]:
    """The entries of a list in the form of Flink's keys, separated by commas."""
    return [one.strip() for one in (text or "").split(_NEXT) if one.strip()]


def with_entry(text: str | None, path: str, target: str | None, what: str) -> str:
    """Such a list with one more entry. Raises :class:`ConfigurationError` for a path that it cannot contain."""
    for character in (_TARGET, _NEXT):
        if character in path or character in (target or ""):
            raise ConfigurationError(f"the path of {what} must not contain {character!r}: {target or path}")
    entry = path if target is None else f"{path}{_TARGET}{target}"
    return _NEXT.join([*entries(text), entry])


def local_path(path: str, what: str) -> Path:
    """The absolute path of a file or directory on this machine. Raises :class:`ConfigurationError` if it is elsewhere,
    or does not exist."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        found = Path(unquote(parts.path)).absolute()
    elif "://" in path:
        raise ConfigurationError(f"the {what} {path} is not on this machine: download it and give its path")
    else:
        found = Path(path).absolute()
    if not found.exists():
        raise ConfigurationError(f"the {what} {path} does not exist ({found})")
    return found


def _version_of(interpreter: str) -> str | None:
    try:
        ended = subprocess.run(  # noqa: S603 - what the program names
            [interpreter, "-c", _VERSION], capture_output=True, text=True, timeout=10, check=False, shell=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None
