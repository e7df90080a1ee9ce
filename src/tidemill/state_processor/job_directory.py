"""Finds a job's committed epochs in a directory: which exist, and which can still be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.manifest import decode_manifest
from tidemill.checkpoint.model import Epoch, Manifest
from tidemill.checkpoint.names import MANIFESTS, manifest_name, parse_manifest
from tidemill.checkpoint.retention import names_referenced
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage.api import NotFoundError
from tidemill.checkpoint.storage.storages import LocalStorage, Storage, storage_for
from tidemill.errors import CheckpointError

__all__ = ["EpochInfo", "JobDirectory", "described"]


@dataclass(frozen=True)
class EpochInfo:
    """A committed epoch that can be read.

    ``clock`` is its processing time in milliseconds. ``retained`` is whether it is a retained checkpoint; other epochs
    are deleted as the job proceeds. ``bytes`` is the size of its state in storage, some of which is shared with other
    epochs.
    """

    epoch: Epoch
    slot: int
    clock: int
    retained: bool
    finished: bool
    bytes: int


class JobDirectory:
    """The directory of one job, for reading. Claims nothing and changes nothing: the job may be running."""

    def __init__(self, storage: Storage, job_id: str, name: str) -> None:
        self.storage = storage
        self.job_id = job_id
        self.name = name
        self.log = ManifestLog(storage, job_id)

    @classmethod
    def open(cls, location: str | Storage, job_id: str | None = None) -> JobDirectory:
        """The job in a directory, or the job with this id in a directory of several jobs.

        Raises :class:`CheckpointError` if there is none, or if the choice is ambiguous.
        """
        storage = location if isinstance(location, Storage) else storage_for(location, durable=False)
        name = str(storage.root) if isinstance(storage, LocalStorage) else repr(storage)
        if any(parse_manifest(found) for found in storage.list(MANIFESTS)):
            return cls(storage, job_id or _owner(storage), name)
        jobs = _jobs_in(storage)
        if not jobs:
            raise CheckpointError(f"{name} is not the directory of a job: there are no manifests in it")
        if job_id is None and len(jobs) > 1:
            raise CheckpointError(f"{name} contains several jobs; pass one of them as job_id: {', '.join(jobs)}")
        if job_id is not None and job_id not in jobs:
            raise CheckpointError(f"{name} does not contain job {job_id!r}, only {', '.join(jobs)}")
        return cls.open(f"{name}/{job_id or jobs[0]}", job_id)

    def manifest(self, epoch: Epoch | None) -> Manifest:
        """The manifest of an epoch, by default the last one.

        Raises :class:`CheckpointError`, with the epochs that can be read, if this one cannot.
        """
        if epoch is None:
            head = self.log.read_head()
            if head is None:
                raise CheckpointError(f"{self.name} contains no committed epoch")
            return head
        for manifest in self._readable():
            if manifest.epoch == epoch:
                return manifest
        epochs = ", ".join(str(info.epoch) for info in self.epochs())
        raise CheckpointError(f"epoch {epoch} of job {self.job_id} cannot be read (any more); these can: {epochs}")

    def epochs(self) -> list[EpochInfo]:
        """The epochs that can be read, oldest first."""
        found: dict[int, EpochInfo] = {}
        retained: frozenset[int] | None = None
        for manifest in self._readable():  # newest first: the newest manifest wins if an epoch was committed twice
            if retained is None:
                retained = frozenset(manifest.checkpoints)
            found.setdefault(manifest.epoch, described(manifest, retained))
        return [found[epoch] for epoch in sorted(found)]

    def is_readable(self, manifest: Manifest) -> bool:
        """Whether everything the manifest refers to still exists."""
        try:
            names = names_referenced(
                manifest, self.log.read, lambda snapshot: read_snapshot_index(self.storage, snapshot)
            )
        except CheckpointError:
            return False
        return all(self.storage.exists(name) for name in names)

    def _readable(self) -> Iterator[Manifest]:
        slots = sorted(filter(None, map(parse_manifest, self.storage.list(MANIFESTS))), reverse=True)
        for slot in slots:
            try:
                manifest = self.log.read(slot)
            except CheckpointError:  # deleted in the meantime, or damaged
                continue
            if self.is_readable(manifest):
                yield manifest


def described(manifest: Manifest, retained: Collection[int]) -> EpochInfo:
    """The information about an epoch in its manifest; ``retained`` are the slots of the job's checkpoints."""
    size = sum(run.bytes for run in manifest.runs)
    return EpochInfo(manifest.epoch, manifest.slot, manifest.clock, manifest.slot in retained, manifest.finished, size)


def _jobs_in(storage: Storage) -> list[str]:
    """The jobs whose directories are direct children of a local directory."""
    if not isinstance(storage, LocalStorage) or not storage.root.is_dir():
        return []
    return sorted(child.name for child in storage.root.iterdir() if (child / MANIFESTS).is_dir())


def _owner(storage: Storage) -> str:
    """The id of the job that owns a directory, from the newest readable manifest."""
    failure: CheckpointError | None = None
    for slot in sorted(filter(None, map(parse_manifest, storage.list(MANIFESTS))), reverse=True):
        name = manifest_name(slot)
        try:
            return decode_manifest(storage.read(name), name).job_id
        except NotFoundError:
            continue
        except CheckpointError as error:
            failure = failure or error
    raise failure or CheckpointError("the job was removed while it was being read")
