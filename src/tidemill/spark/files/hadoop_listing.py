"""Lists the files of a watched path in any file system that Spark has a connector for, such as HDFS or ``s3a://``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidemill.connectors.file_system.listing import FileListing, FoundFile, is_hidden
from tidemill.errors import ConnectorError

__all__ = ["HadoopListing", "has_connector"]

#: The string form of Hadoop's file status; only the fields that are used here.
_STATUS: Final = re.compile(
    r"\w+\{path=(?P<path>.*?); isDirectory=(?P<folder>true|false); (?:length=(?P<size>\d+); )?"
    r".*?modification_time=(?P<time>\d+)",
    re.DOTALL,
)


def has_connector(session: SparkSession, path: str) -> bool:
    """Whether Spark can read paths of this scheme."""
    jvm: Any = session._jvm
    scheme = path.partition(":")[0]
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, session._jsc.hadoopConfiguration())
    except Py4JError:
        return False
    return True


class HadoopListing(FileListing):
    """Lists files with Hadoop's client, which uses Spark's credentials."""

    interval = 1.0

    def __init__(
        self,
        session: SparkSession,
        path: str,
        *,
        recursive: bool,
        accepts: Callable[[str], bool] = lambda name: True,
    ) -> None:
        """``path`` may be a pattern."""
        jvm: Any = session._jvm
        self._new_path = jvm.org.apache.hadoop.fs.Path
        self._text_of = jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray
        self._root = self._new_path(path)
        self._path = path
        self._recursive = recursive
        self._accepts = accepts
        try:
            self._files = self._root.getFileSystem(session._jsc.hadoopConfiguration())
        except Py4JError as error:
            raise ConnectorError(f"the watched path {path} cannot be listed: {_first_line(error)}") from error

    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        try:
            roots = self._files.globStatus(self._root)
            if roots is None:
                raise ConnectorError(f"the watched path {self._path} does not exist")
            found: list[FoundFile] = []
            waiting: list[str] = []
            for file, folder in self._shown(roots):
                if folder:
                    waiting.append(file.path)
                elif not is_known(file.path):
                    found.append(file)
            while waiting:
                for file, folder in self._shown(self._files.listStatus(self._new_path(waiting.pop()))):
                    name = file.path.rpartition("/")[2]
                    if is_hidden(name):
                        continue
                    if folder:
                        if self._recursive or "=" in name:
                            waiting.append(file.path)
                    elif self._accepts(name) and not is_known(file.path):
                        found.append(file)
        except Py4JError as error:
            raise ConnectorError(f"the watched path {self._path} cannot be listed: {_first_line(error)}") from error
        return found

    def present(self, paths: Iterable[str]) -> dict[str, FoundFile]:
        found = {}
        for path in paths:
            try:
                status = self._files.getFileStatus(self._new_path(path))
            except Py4JError as error:
                if "FileNotFoundException" in str(error):
                    continue
                raise ConnectorError(f"file {path} cannot be looked up: {_first_line(error)}") from error
            found[path] = FoundFile(path, int(status.getLen()), status.getModificationTime() / 1000)
        return found

    def _shown(self, statuses: Any) -> list[tuple[FoundFile, bool]]:
        """Return the status of several files, with one call to the JVM instead of five for each file."""
        count = len(statuses)
        if not count:
            return []
        separator = "\n\0\n"
        texts = str(self._text_of(statuses).mkString(separator)).split(separator)
        matches = [_STATUS.match(text) for text in texts]
        if len(texts) == count and all(matches):
            return [_found(match) for match in matches if match is not None]
        return [  # a file system whose status has another string form
            (
                FoundFile(str(s.getPath().toString()), int(s.getLen()), s.getModificationTime() / 1000),
                bool(s.isDirectory()),
            )
            for s in statuses
        ]


def _found(match: re.Match[str]) -> tuple[FoundFile, bool]:
    return FoundFile(match["path"], int(match["size"] or 0), int(match["time"]) / 1000), match["folder"] == "true"


def _first_line(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    return str(error if cause is None else cause.toString()).splitlines()[0]
