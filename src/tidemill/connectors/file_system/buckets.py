"""Bucket assigners, which determine the directory of a record, and the names of part files."""

from __future__ import annotations

import abc
import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

__all__ = ["BucketAssigner", "OutputFileConfig", "named_assigner"]

#: Supported letters of Java's date patterns, with Python's equivalents.
_JAVA_DATE: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
#: A quoted text, or a run of one letter, or any other character.
_PATTERN_PARTS: Final = re.compile(r"'([^']*)'|(([A-Za-z])\3*|[^A-Za-z'])")


#: Java classes of bucket assigners, which programs for PyFlink 1.12 name.
_JAVA_CLASSES: Final = "org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners."


class BucketAssigner(abc.ABC):
    """Assigns each record to a bucket, a directory below the sink's directory."""

    @abc.abstractmethod
    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        """Return the bucket as a relative path; the empty string is the sink's own directory."""

    #: Whether all records of an epoch have the same bucket, which is then computed once.
    per_epoch: bool = False

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Use no buckets: all files are in the sink's directory."""
        return _BasePath()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Use one bucket per hour, or per unit of the date pattern, by the epoch's processing time.

        >>> BucketAssigner.date_time_bucket_assigner(timezone_id="UTC").get_bucket_id(None, None, 3_600_000)
        '1970-01-01--01'
        """
        return _DateTime(format_str, timezone_id)


def named_assigner(given: Any) -> BucketAssigner:
    """Return an assigner, which programs for PyFlink 1.12 give as the name of a class in Java.

    >>> named_assigner(_JAVA_CLASSES + "BasePathBucketAssigner") == BucketAssigner.base_path_bucket_assigner()
    True
    """
    if isinstance(given, BucketAssigner):
        return given
    if given == f"{_JAVA_CLASSES}BasePathBucketAssigner":
        return BucketAssigner.base_path_bucket_assigner()
    if given == f"{_JAVA_CLASSES}DateTimeBucketAssigner":
        return BucketAssigner.date_time_bucket_assigner()
    raise TypeError(f"a BucketAssigner is needed, not {given!r}: extend BucketAssigner, or use one of its own")


@dataclass(frozen=True)
class _BasePath(BucketAssigner):
    per_epoch = True

    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return ""


@dataclass(frozen=True)
class _DateTime(BucketAssigner):
    format_str: str
    timezone_id: str | None = None

    per_epoch = True

    def __post_init__(self) -> None:
        _python_pattern(self.format_str)
        if self.timezone_id is not None:
            ZoneInfo(self.timezone_id)

    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        zone = None if self.timezone_id is None else ZoneInfo(self.timezone_id)
        moment = dt.datetime.fromtimestamp(processing_time / 1000, dt.timezone.utc).astimezone(zone)
        return moment.strftime(_python_pattern(self.format_str))


def _python_pattern(pattern: str) -> str:
    """Convert a Java date pattern to a Python one.

    >>> _python_pattern("yyyy/MM/dd 'at' HH")
    '%Y/%m/%d at %H'
    """
    result = []
    for match in _PATTERN_PARTS.finditer(pattern.replace("%", "%%")):
        quoted, run = match[1], match[2]
        if run is None:
            result.append(quoted)
        elif run[0].isalpha():
            if run not in _JAVA_DATE:
                raise ValueError(f"date pattern {pattern!r}: {run!r} is not one of {', '.join(_JAVA_DATE)}")
            result.append(_JAVA_DATE[run])
        else:
            result.append(run)
    return "".join(result)


@dataclass(frozen=True)
class OutputFileConfig:
    """The prefix and suffix of part files: ``<prefix>-...<suffix>``."""

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        for text in (self.part_prefix, self.part_suffix):
            if "/" in text or "\0" in text:
                raise ValueError(f"a part of a file name cannot contain a slash: {text!r}")
        if not self.part_prefix or self.part_prefix.startswith((".", "_")):
            raise ValueError(f"files with the prefix {self.part_prefix!r} would be hidden from readers")

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Start building a configuration."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix of file names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix of file names."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Builds an :class:`OutputFileConfig`."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the prefix of file names."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the suffix of file names."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Build the configuration."""
            return OutputFileConfig(self._prefix, self._suffix)
