"""What is checked before an engine starts, which takes seconds and leaves little to read when it fails.

The steps, in this order: no other driver runs the job; the checkpoint directory can be written; the savepoint that is
to be restored exists, and so does the job's last epoch, undamaged.
"""

from __future__ import annotations

import errno
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import MemoryStorage, Storage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.common.job_id import JobID
from tidemill.config import CheckpointingOptions, ExecutionOptions
from tidemill.errors import CheckpointError, ConfigurationError
from tidemill.runtime.start.driver_record import DriverHeartbeat, check_no_other_driver
from tidemill.runtime.start.starting_point import check_start_over, decide_start

__all__ = ["Checked", "check_before_engine"]

#: Reasons of the operating system for a directory that cannot be written, which no repetition changes.
_LASTING: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
)


@dataclass(frozen=True)
class Checked:
    """The id of the job, and the record of this driver if the job has durable storage."""

    job_id: str
    record: DriverHeartbeat | None = None


def check_before_engine(configuration: Configuration, held: ExitStack, job_id: str | None = None) -> Checked:
    """Check what can be checked without an engine; ``held`` closes the driver's record.

    ``job_id`` is the id of the job, by default the configured or a new one.

    Raises :class:`~tidemill.errors.FencedError` if a driver that is alive runs the job,
    :class:`~tidemill.errors.ConfigurationError` for a directory that cannot be written, and otherwise what the start
    itself would raise.
    """
    job_id = job_id or configuration.get(ExecutionOptions.JOB_ID) or str(JobID.generate())
    directory = configuration.get(CheckpointingOptions.DIRECTORY)
    if directory is None:
        _check_start(configuration, MemoryStorage(), job_id)
        return Checked(job_id)
    # A record is worthless after a power failure: it needs no sync to disk.
    storage = storage_for(f"{directory.rstrip('/')}/{job_id}", durable=False, options=store_options(configuration))
    with ExitStack() as failing:
        failing.callback(storage.close)
        check_no_other_driver(storage, job_id, take_over=configuration.get(ExecutionOptions.TAKE_OVER))
        _check_start(configuration, storage, job_id)
        record = _record(configuration, storage)
        failing.pop_all()
    held.callback(record.close)
    return Checked(job_id, record)


def _check_start(configuration: Configuration, storage: Storage, job_id: str) -> None:
    if configuration.get(ExecutionOptions.RESUME_MODE) == "none":
        check_start_over(configuration, job_id)
        return
    manifests = ManifestLog(storage, job_id)
    manifests.read_head()
    decide_start(configuration, manifests, job_id)


def _record(configuration: Configuration, storage: Storage) -> DriverHeartbeat:
    interval = configuration.get(ExecutionOptions.DRIVER_HEARTBEAT_INTERVAL).total_seconds()
    try:
        return DriverHeartbeat(storage, interval)
    except CheckpointError as error:
        reason = error.__cause__
        if isinstance(reason, OSError) and reason.errno in _LASTING:
            key = CheckpointingOptions.DIRECTORY.key
            raise ConfigurationError(f"{error}. Set {key} to a directory that this user can write to") from error
        raise
