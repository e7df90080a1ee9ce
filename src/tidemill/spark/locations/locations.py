"""Spark's checkpoint locations: which one a lineage resumes from, what it takes over, and what it may delete.

Spark identifies the sources of a query only by numbers. The lines of an entry in its offset log are numbered by the
places in the plan where a stream is read, the folders of the sources' own logs by streams, and the same stream may be
read in two places. The manifest records which numbers belong to which operator. If a program has its sources in another
order, or has more or fewer of them, a location is built in which each source has its own position and its own log under
its new number.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import SPARK, lineage_slot, spark_location
from tidemill.checkpoint.spark_logs import SOURCES, check_logs_are_there, recorded_logs, without_logs
from tidemill.runtime.start.spark_positions import SourceNumbers, arranged
from tidemill.spark.locations.build_location import METADATA, Origin, build_location

#: The plan nodes that represent a stream and have the kind of its source.
_NAMED_RELATIONS: Final = frozenset({"StreamingRelation", "StreamingRelationV2"})


def source_numbers(query: DataFrame, frames: Mapping[str, DataFrame]) -> SourceNumbers:
    """Number the sources of a query that combines these frames, by uid, in this order.

    A frame may itself read several streams.
    """
    numbers: SourceNumbers = {}
    known: list[Any] = []
    streams = enumerate(_streams(query))
    for uid, frame in frames.items():
        for line, stream in islice(streams, len(_streams(frame))):
            if stream not in known:
                known.append(stream)
            named = stream.getClass().getSimpleName() in _NAMED_RELATIONS
            # Some names contain a path after the kind, and the path may change.
            kind = stream.sourceName().partition("[")[0] if named else ""
            numbers.setdefault(uid, []).append([line, known.index(stream), kind])
    return numbers


def _streams(frame: DataFrame) -> list[Any]:
    """Return the nodes that represent streams in a plan, in the order in which Spark numbers them."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [leaf for leaf in (leaves.apply(index) for index in range(leaves.size())) if leaf.isStreaming()]


def take_over(
    directory: Path,
    lineage: str,
    restored: Manifest | None,
    numbers: SourceNumbers,
    *,
    allow_non_restored: bool,
    revise: Callable[[str, Mapping[str, Any]], str] | None = None,
    sealed: bool = False,
    durable: bool = True,
    elsewhere: Collection[str] = frozenset(),
) -> dict[str, Any] | None:
    """Build the location of a lineage; returns the positions of Spark's sources in it, None if nothing was read.

    ``restored`` is the manifest from which the job resumes. ``revise`` may change the offsets from which its sources
    resume: it is called with the offsets as the query writes them, and everything that was stored with them. In a
    ``sealed`` directory, files without a Spark checksum are complete. A ``durable`` directory survives a power failure.
    ``elsewhere`` are the uids of sources whose positions are now stored elsewhere. A source without a position starts
    at its beginning. Raises :class:`GraphError`, before anything runs, if positions and sources do not match, and
    :class:`~tidemill.errors.CorruptFileError` for a log that is missing or damaged.
    """
    location = directory / spark_location(lineage)
    before = former_location(directory, lineage, restored)
    if before is None:
        return None
    stored = None if restored is None else restored.spark
    positions, moves, recorded = None, None, None
    if stored is not None:
        recorded = recorded_logs(stored)
        folders = {entry.name for entry in (before / SOURCES).glob("*")}
        check_logs_are_there(stored, folders, f"{SPARK}{before.name}")
        offsets, moves = arranged(stored, numbers, allow_non_restored=allow_non_restored, elsewhere=elsewhere)
        revised = offsets if revise is None else revise(offsets, stored)
        positions = {**without_logs(stored), "offsets": revised, "lineage": lineage, "sources": numbers}
        if revised != offsets:
            # An additional empty batch moves to the revised offsets. The former boundaries of the next batch must not
            # be reused: it would end before it begins.
            positions["batch_id"] = int(stored["batch_id"]) + 1
            moves = moves or {log: log for sources in numbers.values() for _, log, _ in sources}
    # Files from a savepoint were verified when they were copied, and stored completely.
    origin = Origin(before, recorded, sealed=sealed or lineage_slot(before.name) == 0)
    build_location(origin, location, positions, numbers, moves, durable=durable)
    forget_locations(directory, lineage, before)
    return positions


def former_location(directory: Path, lineage: str, restored: Manifest | None) -> Path | None:
    """Return the Spark checkpoint location to resume from: that of the last committed batch.

    If no batch has been committed yet, it is the newest location of an earlier lineage, which contains the starting
    positions of the sources and the boundaries of the first batch. A location without ``metadata``, which Spark writes
    first and :func:`~tidemill.spark.locations.build_location.build_location` last, was never complete.
    """
    if restored is not None and restored.spark is not None:
        return directory / spark_location(restored.spark["lineage"])
    earlier = [location for location in earlier_locations(directory, lineage) if (location / METADATA).exists()]
    return earlier[-1] if earlier else None


def earlier_locations(directory: Path, lineage: str) -> list[Path]:
    """Return the Spark checkpoint locations of earlier lineages, oldest first. Later ones belong to other drivers."""
    own = lineage_slot(lineage) or 0
    found = [
        (slot, location)
        for location in (directory / SPARK).glob("*")
        if (slot := lineage_slot(location.name)) is not None and slot < own
    ]
    return [location for _, location in sorted(found)]


def forget_locations(directory: Path, lineage: str, needed: Path) -> None:
    """Remove the Spark checkpoint locations of earlier lineages that no start can return to.

    The location in which the head manifest was committed stays until an epoch of the new lineage is committed.
    """
    for location in earlier_locations(directory, lineage):
        if location != needed:
            shutil.rmtree(location, ignore_errors=True)
