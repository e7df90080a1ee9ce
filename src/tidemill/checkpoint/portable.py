"""A committed epoch in a form that is independent of its job: the content of savepoints.

In a job's directory the state of an epoch is spread over the deltas of many epochs, named by lineage and attempt, and
over manifests that contain small ones. In portable form each run is a separate snapshot whose names do not refer to the
job: another job can copy the files unchanged into its own directory and start from them with
:meth:`~tidemill.checkpoint.log.ManifestLog.open_lineage`. Nothing is decoded or merged in the process, so the form is
independent of backend and parallelism, just as the files are.

The state is accompanied by the logs of Spark's sources and by input that was materialised for this job only.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Piece, RunRef
from tidemill.checkpoint.names import (
    INPUT,
    SINKS,
    SPARK,
    input_name,
    input_prefix,
    lineage_id,
    lineage_slot,
    parse_sink_log,
    snapshot_file_name,
    snapshot_id,
    snapshot_index_name,
    spark_location,
)
from tidemill.checkpoint.restore import committed_pieces
from tidemill.checkpoint.snapshot_index import SnapshotIndex, encode_snapshot_index
from tidemill.checkpoint.spark_logs import (
    SOURCES,
    LogEntry,
    check_logs_are_there,
    entry_id,
    recorded_logs,
    with_logs,
    without_logs,
)
from tidemill.checkpoint.storage.api import NotFoundError, Storage
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.errors import CheckpointError, CorruptFileError

#: The marker that names the valid materialised input of a source (see ``tidemill.runtime.stored_input``).
CHOSEN = "chosen"
#: The number of files copied concurrently from or to an object store; each is held in memory.
_COPIERS = 4


@dataclass(frozen=True)
class PortableFile:
    """A file that is copied to ``name``, either from ``source`` in another storage or from ``data``.

    Length and SHA-256 are None if they have not been computed yet; otherwise what is read must match them.
    """

    name: str
    length: int | None = None
    sha256: str | None = None
    source: str = ""
    data: bytes | None = None


@dataclass(frozen=True)
class PortableState:
    """A committed epoch with all the files it needs, which are still at their original place in ``storage``.

    The runs of ``manifest`` refer to snapshots only, and these are among ``files``, under their future names. ``where``
    is the location shown in messages. ``id`` identifies a savepoint regardless of its location, or a particular epoch
    of a job; if the last epoch of a job was requested, it identifies the job, whichever epoch that is.
    """

    where: str
    storage: Storage
    manifest: Manifest
    files: tuple[PortableFile, ...]
    id: str = ""

    def copy_into(
        self,
        target: Storage,
        *,
        wanted: Callable[[str], bool] = lambda name: True,
        stopped: Callable[[], bool] = lambda: False,
    ) -> tuple[PortableFile, ...]:
        """Copy the ``wanted`` files, verifying each one; returns them with length and SHA-256.

        Copying again is harmless. Raises :class:`~tidemill.errors.CorruptFileError` for a file that is missing or has
        changed, and :class:`~tidemill.errors.CheckpointError` if a file cannot be written or ``stopped`` returns True.
        """

        def copy(file: PortableFile) -> PortableFile:
            if stopped():
                raise CheckpointError(f"copying {self.where} was canceled: the job has ended")
            data = self.read(file)
            target.write(file.name, data)
            return PortableFile(file.name, len(data), hashlib.sha256(data).hexdigest(), file.name)

        chosen = [file for file in self.files if wanted(file.name)]
        if not any(isinstance(storage, ObjectStorage) for storage in (self.storage, target)):
            return tuple(map(copy, chosen))
        # Requests to an object store are slow but independent, so they run concurrently. The markers that make other
        # files valid are copied last.
        markers = [file for file in chosen if file.name.endswith(f"/{CHOSEN}")]
        with ThreadPoolExecutor(_COPIERS, thread_name_prefix="tidemill-copy") as pool:
            copied = tuple(pool.map(copy, (file for file in chosen if file not in markers)))  # stops at a failure
        return copied + tuple(map(copy, markers))

    def read(self, file: PortableFile) -> bytes:
        """The bytes of one of the files, verified."""
        if file.data is not None:
            return file.data
        try:
            if file.length is None:
                return self.storage.read(file.source)
            data = self.storage.read_range(file.source, 0, file.length + 1)
        except NotFoundError as error:
            raise CorruptFileError(f"{file.source} of {self.where} is missing: {error}") from error
        if len(data) != file.length or hashlib.sha256(data).hexdigest() != file.sha256:
            raise CorruptFileError(
                f"{file.source} of {self.where} is corrupt: its {len(data)} bytes are not the {file.length} that were "
                "written"
            )
        return data


def is_input(name: str) -> bool:
    """Whether a portable file is input of a source, which a job needs before anything else."""
    return name.startswith(INPUT)


def portable(
    storage: Storage, log: ManifestLog, manifest: Manifest, token: str, where: str, *, pending: bool = False
) -> PortableState:
    """The portable form of a manifest of ``log``. Reads manifests and indexes, no state.

    ``token`` (hex) makes its names unique. With ``pending``, the manifest's results may not have been committed yet,
    and its committables are included; without it, they have been committed.
    """
    owner = lineage_id(0, token)
    files: list[PortableFile] = []
    runs = tuple(
        _snapshot(owner, number, run, pieces, files)
        for number, (run, pieces) in enumerate(committed_pieces(storage, log, manifest))
    )
    spark = manifest.spark
    if spark is not None:
        logs = _spark_files(storage, log, spark, owner)
        files += logs
        spark = _moved(spark, owner, logs)
    if pending and manifest.committables:
        files += _sink_logs(storage, manifest.epoch)
    if not manifest.finished:
        for uid in sorted(manifest.sources):
            files += _input_files(storage, uid)
    return PortableState(
        where=where,
        storage=storage,
        manifest=replace(
            manifest,
            kind="epoch",
            lineage=owner,
            rerun=0,
            attempts={},
            spark=spark,
            pieces=(),
            runs=runs,
            committables=manifest.committables if pending else {},
            operators=log.operators_of(manifest),
            metrics={},
            operators_slot=None,
            checkpoints=(),
            history={},
        ),
        files=tuple(files),
    )


def _snapshot(owner: Lineage, number: int, run: RunRef, pieces: list[Piece], files: list[PortableFile]) -> RunRef:
    """One run as a separate snapshot; its files are added to ``files``."""
    snapshot = snapshot_id(owner, run.through, str(number))
    moved = []
    for part, piece in enumerate(pieces):
        if piece.file is not None:
            name = snapshot_file_name(snapshot, part)
            files.append(PortableFile(name, piece.length, piece.sha256, source=piece.file))
            piece = replace(piece, file=name)  # noqa: PLW2901 - the same piece, elsewhere
        moved.append(piece)
    index = SnapshotIndex(snapshot, run.through, tuple(moved))
    data = encode_snapshot_index(index)
    files.append(PortableFile(snapshot_index_name(snapshot), len(data), hashlib.sha256(data).hexdigest(), data=data))
    return index.run()


def _spark_files(storage: Storage, log: ManifestLog, spark: Mapping[str, Any], owner: Lineage) -> list[PortableFile]:
    """The logs of Spark's sources (which files were seen, where a topic began) at the given positions, or later ones.

    A later log contains everything that an earlier one does, and the offsets in the manifest determine how much of it
    is used. The log is stored under the number that its source has in the manifest, which may have changed by now. All
    recorded entries must exist: the record is read before the log is listed.
    """
    lineage: str = spark["lineage"]
    since = lineage_slot(lineage) or 0
    newest = spark
    with contextlib.suppress(CorruptFileError):  # an earlier epoch does not need the head
        head = log.read_head()
        if head is not None and head.spark is not None and (lineage_slot(head.spark["lineage"]) or 0) >= since:
            newest = head.spark
    by_lineage: dict[str, set[str]] = {}
    for name in storage.list(SPARK):
        place, _, inside = name.removeprefix(SPARK).partition("/")
        if inside.startswith(SOURCES) and not inside.rpartition("/")[2].startswith("."):
            by_lineage.setdefault(place, set()).add(inside.removeprefix(SOURCES))
    # Spark may have merged and deleted an entry since it was recorded for earlier positions.
    whole = lineage in by_lineage and by_lineage[lineage].issuperset(recorded_logs(spark) or ())
    chosen = spark if whole and newest["lineage"] != lineage else newest
    place, numbers, recorded = chosen["lineage"], chosen.get("sources"), recorded_logs(chosen)
    places = sorted(one for one in by_lineage if (lineage_slot(one) or 0) >= since)
    if place not in by_lineage and places:
        place, numbers, recorded = places[0], spark.get("sources"), None
    files = []
    for name in sorted(_needed(by_lineage.get(place, ()), recorded)):
        folder, _, entry = name.partition("/")
        known = (recorded or {}).get(name)
        files += [
            PortableFile(
                f"{spark_location(owner)}/{SOURCES}{number}/{entry}",
                None if known is None else known.length,
                None if known is None else known.sha256,
                source=f"{SPARK}{place}/{SOURCES}{name}",
            )
            for number in _folders(folder, numbers, spark.get("sources"))
        ]
    check_logs_are_there(spark, {file.name.split("/")[3] for file in files}, f"{SPARK}{lineage}")
    return files


def _needed(found: Iterable[str], recorded: Mapping[str, LogEntry] | None) -> set[str]:
    """The names of a log's files to copy: not those that have been merged into a recorded one."""
    if recorded is None:
        return set(found)
    first: dict[str, int] = {}
    for name in recorded:
        folder, _, entry = name.partition("/")
        first[folder] = min(first.get(folder, 1 << 62), entry_id(entry) or 0)
    later = {
        name
        for name in found
        for folder, _, entry in [name.partition("/")]
        if (number := entry_id(entry)) is None or number >= first.get(folder, 0)
    }
    return later | recorded.keys()


def _moved(spark: Mapping[str, Any], owner: Lineage, files: Iterable[PortableFile]) -> dict[str, Any]:
    """The positions with the new names of their logs, and a record of those log entries that were recorded before."""
    prefix = f"{spark_location(owner)}/{SOURCES}"
    entries = [
        LogEntry(file.name.removeprefix(prefix), file.length, file.sha256)
        for file in files
        if file.length is not None and file.sha256 is not None
    ]
    moved = {**without_logs(spark), "lineage": owner}
    return with_logs(moved, owner, entries) if entries else moved


def _folders(folder: str, numbers: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> list[str]:
    """The folders of the log in ``folder``, once sources have the ``wanted`` numbers. They are matched by uid."""
    if numbers == wanted or not numbers or not wanted:
        return [folder]
    found = {
        str(there)
        for uid in numbers.keys() & wanted.keys()
        for (_, here, _), (_, there, _) in zip(numbers[uid], wanted[uid], strict=False)
        if str(here) == folder
    }
    return sorted(found)


def _sink_logs(storage: Storage, epoch: Epoch) -> list[PortableFile]:
    """The write-ahead logs of sinks in an epoch; the names stay the same, because the committables contain them."""
    found = ((name, parse_sink_log(name)) for name in storage.list(SINKS))
    return [PortableFile(name, source=name) for name, log in found if log is not None and log.epoch == epoch]


def _input_files(storage: Storage, uid: str) -> list[PortableFile]:
    """The materialised input of a source, if there is any; the marker that makes it valid comes last."""
    marker = input_name(uid, CHOSEN)
    try:
        chosen = storage.read(marker).decode()
    except NotFoundError:
        return []
    names = storage.list(f"{input_prefix(uid)}{chosen}/")
    rows = [name for name in names if not name.rpartition("/")[2].startswith((".", "_"))]
    return [PortableFile(name, source=name) for name in [*rows, marker]]
