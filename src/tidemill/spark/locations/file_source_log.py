"""Reads which files Spark's own streaming source has read, from its log in a checkpoint location.

Jobs of versions in which Spark listed watched directories have their positions in such a log. The log has one entry for
each batch, ``<number>``, and occasionally ``<number>.compact``, which replaces all entries up to its own number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import SPARK
from tidemill.checkpoint.spark_logs import HEADER_LINES, NO_OFFSET, SOURCES, check_logs_are_there
from tidemill.errors import CorruptFileError, GraphError
from tidemill.runtime.watched.watched_files import LoggedFiles
from tidemill.spark.locations.job_locations import SparkLocations
from tidemill.spark.locations.locations import former_location

__all__ = ["former_files", "logged_files", "plain_path"]

_ENTRY: Final = re.compile(r"(\d+)(\.compact)?")
_VERSION: Final = "v1"
_KIND: Final = "FileSource"


def former_files(
    head: Manifest, lineage: str, uids: Collection[str], locations: Callable[[], SparkLocations]
) -> dict[str, LoggedFiles]:
    """Return the files in such logs, for those of ``uids`` whose position in the manifest refers to one.

    ``uids`` are the uids of all sources that watch files now. Raises :class:`GraphError` if a position belongs to
    another kind of source, and :class:`~tidemill.errors.CorruptFileError` if a log is missing or damaged.
    """
    wanted = set(uids) - head.sources.keys()
    if head.spark is None or not wanted:
        return {}
    lines = head.spark["offsets"].split("\n")[HEADER_LINES:]
    numbers = head.spark.get("sources") or {}
    if not numbers:
        if len(lines) != 1 or len(uids) != 1:
            raise GraphError(
                f"the job was stored with {len(lines)} Spark sources, and their uids are not known. Start it with the "
                "sources it had"
            )
        numbers = {next(iter(wanted)): [[0, 0, _KIND]]}
    stored = {uid: streams for uid, streams in numbers.items() if uid in wanted}
    if not stored:
        return {}
    places = locations()
    places.bring(lineage, head)
    location = former_location(places.directory, lineage, head)
    if location is None:
        return {}
    folders = {entry.name for entry in (location / SOURCES).glob("*")}
    check_logs_are_there({**head.spark, "sources": stored}, folders, f"{SPARK}{location.name}")
    found = {}
    for uid, streams in stored.items():
        kinds = [kind for _, _, kind in streams]
        if kinds != [_KIND]:
            raise GraphError(
                f"the source with uid {uid!r} was stored with a position in {' and '.join(kinds)}, and now watches "
                "files: give the new source another uid"
            )
        (line, number, _) = streams[0]
        if lines[line] != NO_OFFSET:
            found[uid] = logged_files(location / SOURCES / str(number), lines[line])
    return found


def logged_files(folder: Path, offset: str) -> LoggedFiles:
    """Return the files in a source's log, relative to a position in it such as ``{"logOffset": 7}``.

    Raises :class:`~tidemill.errors.CorruptFileError` if a part of the log is missing: files would be read twice.
    """
    try:
        through = int(json.loads(offset)["logOffset"])
        entries = [(int(match[1]), match[2] is not None, path) for path in folder.iterdir() if (match := _entry(path))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{folder}, the log of files that were read, is corrupt: {error}") from error
    compacted = max((number for number, compact, _ in entries if compact), default=-1)
    there = {number for number, _, _ in entries}
    missing = [number for number in range(compacted + 1, through + 1) if number not in there]
    if missing:
        raise CorruptFileError(
            f"entry {missing[0]} of {folder}, the log of files that were read, is missing: files would be read twice. "
            "Start from an earlier savepoint"
        )
    read: set[str] = set()
    begun: dict[str, None] = {}
    for _, _, path in sorted(entries):
        for file, batch in _files(path):
            if batch <= through:
                read.add(file)
            else:
                begun[file] = None
    return LoggedFiles(read, [file for file in begun if file not in read])


def plain_path(logged: str) -> str:
    """Convert a URI that Spark writes to a path as Tidemill lists it.

    >>> plain_path("file:///data/first%20one.json"), plain_path("hdfs://host/a%23b")
    ('/data/first one.json', 'hdfs://host/a#b')
    """
    path = unquote(logged)
    return "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def _entry(path: Path) -> re.Match[str] | None:
    return _ENTRY.fullmatch(path.name)


def _files(path: Path) -> list[tuple[str, int]]:
    try:
        version, *lines = path.read_text(encoding="utf-8").split("\n")
        if version != _VERSION:
            raise ValueError(f"its version is {version[:20]!r}")
        found = [json.loads(line) for line in lines if line]
        return [(plain_path(str(entry["path"])), int(entry["batchId"])) for entry in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{path}, an entry in the log of files that were read, is corrupt: {error}") from error
