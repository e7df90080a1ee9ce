"""What a manifest relies on of Spark's own logs, and how damage in them is noticed.

A streaming query of Spark keeps a log for each source: which files it has seen, where a topic began. A manifest has
Spark's offsets, which mean nothing without these logs. So it also has the length and SHA-256 of each entry that a
restore reads, under ``logs`` in its ``spark`` field::

    {"lineage": "000000000003-8c1f…", "entries": [["0/9.compact", 1204, "5d6e…"], ["0/10", 96, "77af…"]]}

Names are relative to ``spark/<lineage>/sources``. A log is append-only, and an entry never changes. Every so often
Spark merges all entries into one, ``<number>.compact``, so that a restore reads the newest of these and what follows
it. A record that is of another lineage than the positions says nothing about them: a version of Tidemill that knows no
records has carried it along.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidemill.errors import CorruptFileError

#: The folder of the sources' logs in a Spark checkpoint location.
SOURCES: Final = "sources/"
#: The lines of an entry of Spark's offset log before those of the sources: its version, and times and settings.
HEADER_LINES: Final = 2
#: What stands in Spark's offset log for a source that has not been read.
NO_OFFSET: Final = "-"
#: The kind of source whose offset is nothing without its log.
FILE_SOURCE: Final = "FileSource"

_LOGS: Final = "logs"
_ENTRY: Final = re.compile(r"(\d{1,18})(\.compact)?")


@dataclass(frozen=True)
class LogEntry:
    """An entry of a source's log as a manifest records it; its name is relative to the folder of all sources."""

    name: str
    length: int
    sha256: str

    @classmethod
    def of(cls, name: str, data: bytes) -> LogEntry:
        """The record of an entry with this content."""
        return cls(name, len(data), hashlib.sha256(data).hexdigest())

    def check(self, data: bytes | None, place: str) -> None:
        """Raise :class:`CorruptFileError` unless this is the content that was recorded; None stands for a missing file.

        ``place`` is the Spark checkpoint location, relative to the job's directory.
        """
        if data is None:
            problem = "is missing"
        elif len(data) != self.length:
            problem = f"is corrupt at offset {min(len(data), self.length)}: it has {len(data)} bytes, not {self.length}"
        elif hashlib.sha256(data).hexdigest() != self.sha256:
            problem = f"is corrupt: its {self.length} bytes do not match their SHA-256"
        else:
            return
        raise CorruptFileError(f"{place}/{SOURCES}{self.name} {problem}. {WAYS_OUT}")


#: What a person can do about a source's log that is gone.
WAYS_OUT: Final = (
    "It is a part of the log that Spark keeps for a source of the job, and says what the source has read. Start "
    "another job id from a savepoint, or begin anew with execution.resume-mode: none"
)


def entry_id(name: str) -> int | None:
    """The number of an entry by its name in its folder, None for what is not an entry of a log."""
    match = _ENTRY.fullmatch(name)
    return None if match is None else int(match[1])


def needed(names: Iterable[str]) -> list[str]:
    """Of the entries of one source's log, those that Spark reads when it resumes: the newest merged one, and others
    after it."""
    ids = {name: number for name in names if (number := entry_id(name)) is not None}
    first = max((number for name, number in ids.items() if name.endswith(".compact")), default=-1)
    chosen = (name for name, number in ids.items() if number > first or name == f"{first}.compact")
    return sorted(chosen, key=lambda name: ids[name])


def with_logs(spark: Mapping[str, Any], lineage: str, entries: Iterable[LogEntry]) -> dict[str, Any]:
    """Positions for a manifest, with a record of the logs that they rely on, which are those of ``lineage``."""
    listed = [[entry.name, entry.length, entry.sha256] for entry in entries]
    return {**spark, _LOGS: {"lineage": lineage, "entries": listed}}


def without_logs(spark: Mapping[str, Any]) -> dict[str, Any]:
    """Positions without what they record of logs."""
    return {name: value for name, value in spark.items() if name != _LOGS}


def recorded_logs(spark: Mapping[str, Any]) -> dict[str, LogEntry] | None:
    """The record of the logs that positions rely on, by name, None if there is none. Raises CorruptFileError."""
    logs = spark.get(_LOGS)
    if logs is None:
        return None
    try:
        if logs["lineage"] != spark["lineage"]:
            return None
        return {str(name): LogEntry(str(name), int(length), str(sha)) for name, length, sha in logs["entries"]}
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(f"the record of Spark's logs in a manifest does not have its form: {error!r}") from error


def check_logs_are_there(spark: Mapping[str, Any], folders: Collection[str], place: str) -> None:
    """Raise :class:`CorruptFileError` if a source has read files, and no log says which: it would read them again.

    ``folders`` are the sources that have a log, by number. Other kinds of sources can do without.
    """
    lines = spark["offsets"].split("\n")[HEADER_LINES:]
    for uid, sources in (spark.get("sources") or {}).items():
        for line, log, kind in sources:
            has_read = line < len(lines) and lines[line] != NO_OFFSET
            if kind == FILE_SOURCE and has_read and str(log) not in folders:
                raise CorruptFileError(
                    f"{place}/{SOURCES}{log} is missing: it says which files the source with uid {uid!r} has read. "
                    "Start another job id from an earlier savepoint, or begin anew with execution.resume-mode: none"
                )
