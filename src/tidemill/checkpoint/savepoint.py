"""Savepoints: a committed epoch in a separate directory, which the user owns. Any storage can be used.

::

    savepoint-<6 characters of the job's id>-<12 hex digits>/
                _metadata                      describes the savepoint; written last, so without it the savepoint is
                invalid
                _unfinished                    exists while the savepoint is being written
        snapshots/<id>.tm              a run of the state
        snapshots/<id>/<part>.tms      its files
        spark/<id>/sources/...         logs of Spark's sources
                input/<source>/...             input that was materialised for the job, if some of it has not been read
                yet
                sinks/<sink>/...               write-ahead logs of sinks, if it is unknown whether they were committed

All names are relative to the directory, so it can be moved or copied as a whole. ``_metadata`` is a
:mod:`~tidemill.checkpoint.frame` with magic ``TMSAVEP\\n``, version 1. Its header has ``files``, a list of ``[name,
length, sha256]``, and ``created``, milliseconds since 1970; its one attachment is the epoch's manifest, as
:mod:`~tidemill.checkpoint.manifest` writes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tidemill.checkpoint.frame import pack, unpack
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.lost_manifests import and_more, beyond, evidence, read_head
from tidemill.checkpoint.manifest import decode_header, decode_manifest, encode_manifest
from tidemill.checkpoint.model import Epoch, Manifest, Slot
from tidemill.checkpoint.names import (
    INPUT,
    MANIFESTS,
    SINKS,
    SNAPSHOTS,
    SPARK,
    check_name,
    manifest_name,
    parse_manifest,
    snapshot_index_name,
    spark_location,
)
from tidemill.checkpoint.portable import PortableFile, PortableState, portable
from tidemill.checkpoint.spark_logs import SOURCES, check_logs_are_there
from tidemill.checkpoint.storage.api import NotFoundError, Storage
from tidemill.checkpoint.storage.local import LocalStorage
from tidemill.checkpoint.storage.storages import storage_for
from tidemill.errors import CheckpointError, CorruptFileError, NoSavepointError
from tidemill.faults import reach

MAGIC: Final = b"TMSAVEP\n"
VERSION: Final = 1
METADATA: Final = "_metadata"
UNFINISHED: Final = "_unfinished"

#: The options for connecting to an object store.
Options = Mapping[str, str] | None

#: The folders a savepoint may contain in addition to its metadata; nothing else is read, copied or deleted.
_FOLDERS: Final = (SNAPSHOTS, SPARK, INPUT, SINKS)
_CHECKPOINT = re.compile(r"(.+)/chk-(\d+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


# --- writing


class SavepointFiles:
    """Writes one savepoint below ``directory``. Creating an instance verifies that the directory is writable."""

    def __init__(self, directory: str, job_id: str, options: Options = None) -> None:
        """Raises :class:`CheckpointError` or :class:`ConfigurationError` if the directory is not writable."""
        self.token = secrets.token_hex(6)
        path = f"{directory.rstrip('/')}/savepoint-{job_id[:6]}-{self.token}"
        self._storage = storage = storage_for(path, options=options)
        #: The path of the savepoint; absolute if it is a local directory.
        self.path = str(storage.root) if isinstance(storage, LocalStorage) else path
        storage.create(UNFINISHED, b"")

    def write(self, state: PortableState, stopped: Callable[[], bool] = lambda: False) -> str:
        """Copy the files, then write the metadata, which completes the savepoint. Returns the path."""
        reach("savepoint.begun")
        files = state.copy_into(self._storage, stopped=stopped)
        reach("savepoint.copied")
        self._storage.create(METADATA, encode_metadata(state.manifest, files, time.time_ns() // 1_000_000))
        reach("savepoint.written")
        with contextlib.suppress(CheckpointError):
            self._storage.delete([UNFINISHED])
        return self.path

    def give_up(self) -> None:
        """Remove what was written of a failed savepoint; leftovers that cannot be removed do not form a savepoint."""
        with contextlib.suppress(CheckpointError):
            _remove(self._storage)


def encode_metadata(manifest: Manifest, files: tuple[PortableFile, ...], created: int) -> bytes:
    """The bytes of ``_metadata``."""
    entries = [[file.name, file.length, file.sha256] for file in files]
    return pack(MAGIC, VERSION, {"files": entries, "created": created}, [encode_manifest(manifest)])


# --- reading


def read_savepoint(storage: Storage, where: str) -> PortableState:
    """The savepoint in a directory, called ``where`` in messages. Its files are verified when they are copied.

    Raises :class:`~tidemill.errors.NoSavepointError` if there is none, :class:`CheckpointError` if its version is newer
    than supported, and :class:`~tidemill.errors.CorruptFileError` if its metadata is damaged.
    """
    try:
        data = storage.read(METADATA)
    except NotFoundError as error:
        if storage.exists(UNFINISHED):
            raise NoSavepointError(
                f"{where} is not a savepoint: it was never finished. No state of its job is lost; remove it with "
                "dispose_savepoint, and take another savepoint"
            ) from error
        raise NoSavepointError(f"{where} is not a savepoint: there is no {METADATA} in it") from error
    name = f"{where}/{METADATA}"
    frame = unpack(data, MAGIC, VERSION, name)
    manifest, files = decode_header(name, lambda: _from_header(frame.header, frame.attachments, name))
    if manifest.spark is not None:
        place = spark_location(manifest.spark["lineage"])
        logs = {file.name.split("/")[3] for file in files if file.name.startswith(f"{place}/{SOURCES}")}
        check_logs_are_there(manifest.spark, logs, f"{where}/{place}")
    return PortableState(where, storage, manifest, files, f"savepoint {hashlib.sha256(data).hexdigest()}")


def _from_header(
    header: dict[str, Any], attachments: tuple[bytes, ...], name: str
) -> tuple[Manifest, tuple[PortableFile, ...]]:
    if header.keys() - {"attachments"} != {"files", "created"} or len(attachments) != 1:
        raise ValueError(f"the fields are {sorted(header)}, with {len(attachments)} attachments")
    manifest = decode_manifest(attachments[0], name)
    files = []
    for file, length, sha256 in header["files"]:
        if not check_name(file).startswith(_FOLDERS) or type(length) is not int or length < 0:
            raise ValueError(f"a file {file!r:.200} of {length!r:.50} bytes")
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"the checksum of {file} is {sha256!r:.100}")
        files.append(PortableFile(file, length, sha256, source=file))
    names = {file.name for file in files}
    if manifest.pieces or any(run.snapshot is None for run in manifest.runs):
        raise ValueError("there is state outside of snapshots")
    if missing := [run for run in manifest.runs if snapshot_index_name(run.snapshot or "") not in names]:
        raise ValueError(f"snapshot {missing[0].snapshot} is not among the files")
    return manifest, tuple(files)


def open_state(path: str, options: Options = None) -> PortableState:
    """Open the state that a job can start from: a savepoint, or a checkpoint of another job, which is not modified.

    ``path`` is the directory of a savepoint (or the ``_metadata`` in it), the directory of a job, whose last committed
    epoch is used, or ``<directory of the job>/chk-<epoch>`` for an earlier, retained epoch.

    Raises :class:`~tidemill.errors.NoSavepointError` if it is none of these, or if the epoch does not exist (any more).
    """
    path = path.rstrip("/").removesuffix(f"/{METADATA}")
    if (match := _CHECKPOINT.fullmatch(path)) is not None:
        return _checkpoint(storage_for(match[1], options=options), path, Epoch(int(match[2])))
    storage = storage_for(path, options=options)
    if storage.exists(METADATA) or storage.exists(UNFINISHED):
        return read_savepoint(storage, path)
    return _checkpoint(storage, path, None)


def _checkpoint(storage: Storage, where: str, epoch: Epoch | None) -> PortableState:
    """A committed epoch of the job in a directory, by default the last one."""
    slots = sorted(filter(None, map(parse_manifest, storage.list(MANIFESTS))), reverse=True)
    if not slots:
        if left := beyond(None, evidence(storage)):
            raise CorruptFileError(
                f"{where} is the directory of a job whose manifests are lost: there are none under {MANIFESTS}, but "
                f"what they referred to exists: {and_more(left[0].name, len(left) - 1)}. Restore the manifests, or "
                "start from a savepoint"
            )
        raise NoSavepointError(
            f"{where} is neither a savepoint nor the directory of a job: it has neither {METADATA} nor {MANIFESTS}"
        )
    job_id = _owner(storage, slots)
    log = ManifestLog(storage, job_id)
    last = ""
    try:
        head = log.read_head() if epoch is not None else read_head(storage, log)
        if head is None:
            raise CheckpointError(f"{where} was removed while it was being read")
        if epoch is None or epoch == head.epoch:
            state = portable(storage, log, head, secrets.token_hex(6), where, pending=True)
            return replace(state, id=f"job {job_id}" if epoch is None else _checkpoint_id(head))
        last = f"the last one is {head.epoch}, in the job's own directory"
    except CorruptFileError as error:
        if epoch is None:
            raise
        last = f"the last one cannot be read: {error}"
    for slot in slots:
        with contextlib.suppress(NotFoundError, CorruptFileError):  # a damaged manifest is not the requested one
            manifest = log.read(slot)
            if manifest.epoch == epoch:
                break
    else:
        raise NoSavepointError(f"epoch {epoch} of job {job_id} is not retained; {last}")
    return replace(portable(storage, log, manifest, secrets.token_hex(6), where), id=_checkpoint_id(manifest))


def _checkpoint_id(manifest: Manifest) -> str:
    """Identifies an epoch of a job uniquely: its number may be reused after the job was reset to an earlier epoch."""
    return f"checkpoint {manifest.job_id} {manifest.epoch} {manifest.clock}"


def _owner(storage: Storage, slots: list[Slot]) -> str:
    """The id of the job that owns the manifests; each contains it, and some may be damaged. Raises if all are."""
    newest: CheckpointError | None = None
    for slot in slots:
        name = manifest_name(slot)
        try:
            return decode_manifest(storage.read(name), name).job_id
        except (NotFoundError, CorruptFileError) as error:
            newest = newest or error
    raise newest or CheckpointError("there is no manifest")


# --- removing


def dispose_savepoint(path: str, options: Options = None) -> None:
    """Delete a savepoint, or the leftovers of an unfinished one. ``options`` are those of an object store.

    >>> import tempfile
    >>> from tidemill.testing import JobHarness
    >>> def count(env, words):
    ...     return words.map(lambda word: (word, 1)).key_by(0).sum(1).uid("count")
    >>> with tempfile.TemporaryDirectory() as directory, JobHarness(count, inputs=["words"]) as job:
    ...     job.epoch(words=["a"])
    ...     path = job.savepoint(directory)
    ...     dispose_savepoint(path)
    ...     dispose_savepoint(path)
    Traceback (most recent call last):
      ...
    tidemill.errors.NoSavepointError: ... is not a savepoint: nothing was deleted

    Raises :class:`~tidemill.errors.NoSavepointError`, without deleting anything, for any other directory, including a
    job's own directory.
    """
    path = path.rstrip("/").removesuffix(f"/{METADATA}")
    storage = storage_for(path, options=options)
    found = storage.exists(METADATA) and storage.read_range(METADATA, 0, len(MAGIC)) == MAGIC
    if not (found or storage.exists(UNFINISHED)):
        raise NoSavepointError(f"{path} is not a savepoint: nothing was deleted")
    _remove(storage)


def _remove(storage: Storage) -> None:
    """Delete a savepoint: its metadata first, so that a partial savepoint is never taken for a complete one."""
    with contextlib.suppress(CheckpointError):  # marks the rest as removable if a crash interrupts the removal
        storage.create(UNFINISHED, b"")
    storage.delete([METADATA])
    storage.delete([*(name for folder in _FOLDERS for name in storage.list(folder)), UNFINISHED])
    if isinstance(storage, LocalStorage):
        storage.sweep_temporary(older_than=0)
        for folder in sorted((path for path in storage.root.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):  # not empty: it contains files that are not part of the savepoint
                folder.rmdir()
        with contextlib.suppress(OSError):
            storage.root.rmdir()
