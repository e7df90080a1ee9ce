"""The thread of a driver that writes the records of its job to the history."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from datetime import timedelta

from tidemill.config import HistoryOptions
from tidemill.errors import TidemillError
from tidemill.runtime.history.archive import HistoryFiles, RecordName, history_of
from tidemill.runtime.history.recording import Subject, record_of

__all__ = ["Archiver"]

log = logging.getLogger(__name__)


class Archiver:
    """Writes a record when the job starts, at an interval while it runs, and when it has ended.

    The history is not part of the job: if it cannot be written, a warning is logged, and the job continues.
    """

    def __init__(self, subject: Subject, archive: HistoryFiles) -> None:
        get = subject.configuration.get
        # configuration
        self._subject = subject
        self._archive = archive
        self._pause: float = get(HistoryOptions.INTERVAL).total_seconds()
        self._retained = get(HistoryOptions.RETAINED)
        self._lifetime: timedelta | None = get(HistoryOptions.RETAINED_FOR)
        self._token = secrets.token_hex(4)
        # transient
        self._over = threading.Event()
        self._has_failed = False
        self._thread = threading.Thread(target=self._main, name="tidemill-history", daemon=True)

    @classmethod
    def of(cls, subject: Subject) -> Archiver | None:
        """Return the archiver of a job, or None if its configuration has no place for the history."""
        directory = history_of(subject.configuration)
        return None if directory is None else cls(subject, HistoryFiles.at(directory, subject.configuration))

    def start(self) -> None:
        """Start writing, in a separate thread."""
        self._thread.start()

    def finish(self) -> None:
        """Write the final record, and delete old ones. The status of the job is the final one.

        Returns when the record is written, so that the process may end.
        """
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            if self._written(final=True):
                self._archive.prune(time.time_ns() // 1_000_000, self._retained, self._lifetime)
        except TidemillError as error:
            log.warning("old records of the history were not deleted: %s", error)
        finally:
            self._archive.close()

    def _main(self) -> None:
        # Also if nothing has changed: a record is the sign that its driver is alive.
        while not self._over.is_set():
            self._written()
            self._over.wait(self._pause)

    def _written(self, *, final: bool = False) -> bool:
        """Take a record and write it; return whether that succeeded. The first of several failures is logged."""
        try:
            record = record_of(self._subject, int(self._pause * 1000))
            name = RecordName(record.job_id, record.started, self._token, record.written if final else None)
            self._archive.write(name, record)
        except Exception as error:  # whatever a report contains, the job must not depend on it
            if not self._has_failed or final:
                job_id = self._subject.client.get_job_id()
                log.warning("the history of job %s cannot be written, the job continues: %s", job_id, error)
            self._has_failed = True
        else:
            self._has_failed = False
        return not self._has_failed
