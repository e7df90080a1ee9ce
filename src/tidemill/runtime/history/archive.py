"""The files of a history: one record for each start of a job, in a directory or object store.

The names are relative to the directory of the history::

    <job id>/<started>-<token>.json            the record of a start whose driver runs, or was killed; overwritten
    <job id>/<started>-<token>-<ended>.json    the final record

Times are in milliseconds since 1970, with 15 digits, so that names sort by time. The history is not in the directory of
its job, because it remains when that is deleted.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tidemill.checkpoint.storage.storages import NotFoundError, Storage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, HistoryOptions
from tidemill.errors import CheckpointError
from tidemill.runtime.history.job_record import JobRecord

__all__ = ["HISTORY_FOLDER", "HistoryFiles", "RecordName", "history_of"]

log = logging.getLogger(__name__)

#: The directory of the history in the checkpoint directory. The id of a job cannot begin with an underscore.
HISTORY_FOLDER: Final = "_history"
#: After how many milliseconds without an update the record of an unfinished start may be deleted: its driver was
#: killed. A driver that still runs would write it again.
_ABANDONED: Final = 3_600_000
_NAME: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,127})/(\d{15})-([0-9a-f]{1,32})(?:-(\d{15}))?\.json")


@dataclass(frozen=True)
class RecordName:
    """The information in the name of a record; ``ended`` is None as long as the record is not final."""

    job_id: str
    started: int
    token: str
    ended: int | None = None

    @property
    def file(self) -> str:
        """The name of the file."""
        end = "" if self.ended is None else f"-{self.ended:015d}"
        return f"{self.job_id}/{self.started:015d}-{self.token}{end}.json"

    @classmethod
    def parse(cls, file: str) -> RecordName | None:
        """Parse the name of a file; None if it is not that of a record.

        >>> RecordName.parse("shop/000001700000000000-0a.json") is None
        True
        >>> RecordName.parse(RecordName("shop", 5, "0a", 7).file)
        RecordName(job_id='shop', started=5, token='0a', ended=7)
        """
        found = _NAME.fullmatch(file)
        if found is None:
            return None
        return cls(found[1], int(found[2]), found[3], None if found[4] is None else int(found[4]))


def history_of(configuration: Configuration) -> str | None:
    """Return the directory to which jobs with this configuration write their records, or None if they write none."""
    if not configuration.get(HistoryOptions.ENABLED):
        return None
    directory = configuration.get(HistoryOptions.DIRECTORY)
    if directory is not None:
        return directory
    checkpoints = configuration.get(CheckpointingOptions.DIRECTORY)
    return None if checkpoints is None else f"{checkpoints.rstrip('/')}/{HISTORY_FOLDER}"


class HistoryFiles:
    """The records in one directory. All methods may raise :class:`CheckpointError`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @classmethod
    def at(cls, directory: str, configuration: Configuration) -> HistoryFiles:
        """Return the history in a directory or object store, with the credentials of a configuration. Does no I/O."""
        # Not synced to disk: a record is written again, and a power failure costs no more than a killed driver.
        return cls(storage_for(directory, durable=False, options=store_options(configuration)))

    def names(self) -> list[RecordName]:
        """Return the names of all records. A start that has ended is listed once, with its final record."""
        found: dict[tuple[str, int, str], RecordName] = {}
        for file in self._storage.list():
            name = RecordName.parse(file)
            if name is not None:
                start = (name.job_id, name.started, name.token)
                if start not in found or name.ended is not None:
                    found[start] = name
        return list(found.values())

    def read(self, name: RecordName) -> JobRecord:
        """Return a record.

        Raises :class:`~tidemill.errors.NewerFormatError` or :class:`~tidemill.errors.CorruptFileError` if it cannot be
        read, and :class:`NotFoundError` if it has been deleted or replaced by the final one.
        """
        return JobRecord.from_json(self._storage.read(name.file), name.file)

    def write(self, name: RecordName, record: JobRecord) -> None:
        """Store a record. A final one replaces the other of the same start."""
        self._storage.write(name.file, record.to_json())
        if name.ended is not None:
            self._storage.delete([RecordName(name.job_id, name.started, name.token).file])

    def prune(self, now: int, retained: int, lifetime: timedelta | None) -> list[RecordName]:
        """Delete records beyond the newest ``retained`` (-1: all) and those older than ``lifetime``; return them.

        Records that a running driver still updates are kept.
        """
        names = sorted(self.names(), key=lambda name: name.ended or name.started, reverse=True)
        oldest = 0 if lifetime is None else now - int(lifetime / timedelta(milliseconds=1))
        surplus = names[retained:] if retained >= 0 else []
        old = [name for name in names if (name.ended or name.started) < oldest and name not in surplus]
        gone = [
            *(name for name in surplus if self._is_over(name, now - _ABANDONED)),
            *(name for name in old if self._is_over(name, min(oldest, now - _ABANDONED))),
        ]
        self._storage.delete(name.file for name in gone)
        return gone

    def close(self) -> None:
        """Release connections."""
        self._storage.close()

    def _is_over(self, name: RecordName, before: int) -> bool:
        """Whether a record is final, or was last updated before a time."""
        if name.ended is not None:
            return True
        try:
            return self.read(name).written < before
        except NotFoundError:
            return False
        except CheckpointError as error:
            log.warning("a record of the history cannot be read, and is deleted: %s", error)
            return True
