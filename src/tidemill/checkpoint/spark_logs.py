"""Records which of Spark's own logs a manifest depends on, and detects damage in them.

A Spark streaming query keeps a log for each source: which files it has seen, where a topic began. A manifest has
Spark's offsets, which are meaningless without these logs. So it also has the length and SHA-256 of each entry that a
restore reads, under ``logs`` in its ``spark`` field::

    {"lineage": "000000000003-8c1f…", "entries": [["0/9.compact", 1204, "5d6e…"], ["0/10", 96, "77af…"]]}

Names are relative to ``spark/<lineage>/sources``. A log is append-only, and an entry never changes. From time to time
Spark merges all entries into one, ``<number>.compact``; a restore reads the newest of these and the entries after it. A
record whose lineage differs from that of the positions does not apply to them: it was copied along by a version of
Tidemill that does not support these records.
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
#: The lines of an entry of Spark's offset log that precede those of the sources: version, and timestamps and settings.
HEADER_LINES: Final = 2
#: The entry in Spark's offset log for a source that has not been read.
NO_OFFSET: Final = "-"
#: The kind of source whose offset is meaningless without its log.
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
        """Raise :class:`CorruptFileError` unless ``data`` is the recorded content; None represents a missing file.

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


#: What the user can do about a missing or damaged log of a source.
WAYS_OUT: Final = (
    "It is part of the log that Spark keeps for a source of the job, which records what the source has read. Start "
    "another job id from a savepoint, or start without state with execution.resume-mode: none"
)


def entry_id(name: str) -> int | None:
    """The number of an entry, from its name in its folder; None if the name is not that of a log entry."""
    match = _ENTRY.fullmatch(name)
    return None if match is None else int(match[1])


def needed(names: Iterable[str]) -> list[str]:
    """The entries of one source's log that Spark reads when it resumes: the newest merged one and those after it."""
    ids = {name: number for name in names if (number := entry_id(name)) is not None}
    first = max((number for name, number in ids.items() if name.endswith(".compact")), default=-1)
    chosen = (name for name, number in ids.items() if number > first or name == f"{first}.compact")
    return sorted(chosen, key=lambda name: ids[name])


def with_logs(spark: Mapping[str, Any], lineage: str, entries: Iterable[LogEntry]) -> dict[str, Any]:
    """The positions for a manifest, with a record of the logs of ``lineage`` that they depend on."""
    listed = [[entry.name, entry.length, entry.sha256] for entry in entries]
    return {**spark, _LOGS: {"lineage": lineage, "entries": listed}}


def without_logs(spark: Mapping[str, Any]) -> dict[str, Any]:
    """The positions without their record of logs."""
    return {name: value for name, value in spark.items() if name != _LOGS}


def recorded_logs(spark: Mapping[str, Any]) -> dict[str, LogEntry] | None:
    """The record of the logs that the positions depend on, by name; None if there is none. Raises CorruptFileError."""
    logs = spark.get(_LOGS)
    if logs is None:
        return None
    try:
        if logs["lineage"] != spark["lineage"]:
            return None
        return {str(name): LogEntry(str(name), int(length), str(sha)) for name, length, sha in logs["entries"]}
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(f"the record of Spark's logs in a manifest is malformed: {error!r}") from error


def check_logs_are_there(spark: Mapping[str, Any], folders: Collection[str], place: str) -> None:
    """Raise :class:`CorruptFileError` if a source has read files and the log of them is missing: it would reread them.

    ``folders`` are the numbers of the sources that have a log. Other kinds of sources do not need one.
    """
    lines = spark["offsets"].split("\n")[HEADER_LINES:]
    for uid, sources in (spark.get("sources") or {}).items():
        for line, log, kind in sources:
            has_read = line < len(lines) and lines[line] != NO_OFFSET
            if kind == FILE_SOURCE and has_read and str(log) not in folders:
                raise CorruptFileError(
                    f"{place}/{SOURCES}{log} is missing: it records which files the source with uid {uid!r} has read. "
                    "Start another job id from an earlier savepoint, or start without state with "
                    "execution.resume-mode: none"
                )
