"""One local RocksDB: rows of bytes, written in batches together with the version that they form.

Nothing here is durable, and nothing needs to be: there is no write-ahead log. After a crash the store contains the
result of one of its batches, in the order in which they were written; the stored version identifies it.

Invariant: *a store that has just been opened either has a version, and then contains exactly the committed state of
that version, or has no version, and then contains no rows.* It follows from two rules:

- Every batch that changes rows also writes the version that they form, or removes it if they form none, so that rows
  and version always match, whichever batch was the last to reach the disk. Numbers of states are written separately,
  because they do not depend on rows.
- A store without a version, or a damaged one, is emptied when it is opened. Only changes are loaded afterwards: they
  replace and delete rows, but do not affect rows that they do not name.

:mod:`tidemill.checkpoint.versions` decides which versions may be built upon, and what must be loaded then.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rocksdict import Rdict, ReadOptions, WriteBatch, WriteOptions

from tidemill.config import RocksDBOptions
from tidemill.errors import LocalStateError
from tidemill.state.keyed.backend import BackendPlace, StateVersion
from tidemill.state.rocksdb.directories import directory_for
from tidemill.state.rocksdb.settings import RocksDBSettings

log = logging.getLogger(__name__)

_DATABASE: Final = "db"
_META: Final = b"\0\0"
_VERSION: Final = _META + b"version"
_STATE: Final = _META + b"state/"
#: Rows read at a time by a scan.
_CHUNK: Final = 1000
#: The messages of the system and of RocksDB for a disk without space for a file, whatever the reason.
_FULL: Final = {code: os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
#: The time to wait before checking again whether RocksDB accepts writes.
_STALL_SECONDS: Final = 0.005
#: The number of free bytes below which a disk may become full at any moment.
_LITTLE_ROOM: Final = 256 << 20
#: Properties of RocksDB that indicate whether it writes files in the background, or is about to.
_WRITING_FILES: Final = (
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending",
    "rocksdb.num-running-compactions",
)
#: The maximum time by which the files of a killed worker are older than its state.
_FLUSH_SECONDS: Final = 30.0


class Store:
    """A RocksDB in its own directory, owned by this process while it is open."""

    def __init__(self, place: BackendPlace, settings: RocksDBSettings) -> None:
        # configuration
        self._where = place.where
        self._settings = settings
        self._directory, found = directory_for(place, settings.directories, settings.choice)
        # transient
        self.damaged = False
        self._flushed = time.monotonic()
        self._batch: WriteBatch | None = None
        self._db: Rdict | None = None
        # stored with the version
        self.version: StateVersion | None = None
        #: Increases with every batch.
        self.sequence = 0
        #: By state, information that a worker that builds upon the version needs and that is not in the rows. Plain
        #: JSON.
        self.notes: dict[str, Any] = {}
        self._states: dict[str, int] = {}
        if found:
            self._reopen()
        else:
            self._open()

    @property
    def path(self) -> str:
        """The directory of the store."""
        return str(self._directory.path)

    # --- reading

    def get(self, row: bytes) -> bytes | None:
        """The value of a row."""
        try:
            return self._open_db().get(row)
        except Exception as error:
            raise self._failed(error) from error

    def get_many(self, rows: list[bytes]) -> list[bytes | None]:
        """The values of several rows."""
        try:
            found: list[bytes | None] = self._open_db().get(rows)  # type: ignore[arg-type,assignment]
        except Exception as error:
            raise self._failed(error) from error
        return found

    def scan(self, start: bytes, end: bytes, chunk: int = _CHUNK) -> Iterator[tuple[bytes, bytes]]:
        """The rows from ``start`` up to but excluding ``end``, in order; each with its content when it is reached."""
        while True:
            rows, written = self.first(start, end, chunk), self.sequence
            for row in rows:
                yield row
                if self.sequence != written:
                    start = row[0] + b"\0"
                    break
            else:
                if len(rows) < chunk:
                    return
                start = rows[-1][0] + b"\0"

    def first(self, start: bytes, end: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """The first rows from ``start`` up to but excluding ``end``. Leaves no iterator open."""
        try:
            bounds = ReadOptions()
            bounds.set_iterate_upper_bound(end)
            rows: list[tuple[bytes, bytes]] = []
            at = self._open_db().iter(read_opt=bounds)
            at.seek(start)
            while at.valid() and len(rows) < count:
                rows.append((at.key(), at.value()))
                at.next()
            at.status()  # an iterator also ends when it encounters damage
        except Exception as error:
            raise self._failed(error) from error
        return rows

    def estimated_rows(self) -> int:
        """The approximate number of rows."""
        try:
            return self._open_db().property_int_value("rocksdb.estimate-num-keys") or 0
        except Exception as error:
            raise self._failed(error) from error

    def estimated_bytes(self) -> int:
        """The approximate size of the rows in bytes: live data on disk, and data that is not on disk yet."""
        try:
            names = ("rocksdb.estimate-live-data-size", "rocksdb.cur-size-all-mem-tables")
            return sum(self._open_db().property_int_value(name) or 0 for name in names)
        except Exception as error:
            raise self._failed(error) from error

    # --- writing

    @contextmanager
    def writing(self, version: StateVersion | None) -> Iterator[WriteBatch]:
        """A batch that is written atomically at the end of the block, and sets the store to ``version``.

        With None the store has no version, until a later batch sets one.
        """
        self.sequence += 1
        batch = self._batch = WriteBatch(raw_mode=True)
        try:
            yield batch
        finally:
            self._batch = None
        self.version = version
        if version is None:
            batch.delete(_VERSION)
        else:
            about = {
                "lineage": version.lineage,
                "slot": version.slot,
                "epoch": version.epoch,
                "seq": self.sequence,
                "notes": self.notes,
            }
            batch.put(_VERSION, json.dumps(about).encode())
        try:
            db = self._open_db()
            self._wait_for_room(db)
            db.write(batch)
            now = time.monotonic()
            if now - self._flushed > _FLUSH_SECONDS:
                self._flushed = now
                self._directory.touch()
                db.flush(wait=False)
        except Exception as error:
            raise self._failed(error) from error

    def _wait_for_room(self, db: Rdict) -> None:
        """Wait while RocksDB accepts no writes because it is behind with its files; raise if the reason is a full disk.

        A write would wait too, but on a full disk for as long as the disk is full, because RocksDB hopes for space. If
        there is little space, also waits for files being written in the background, since one of them may not fit.
        """
        asked: tuple[str, ...] = ("rocksdb.is-write-stopped",)
        room = os.statvfs(self.path)
        if room.f_bavail * room.f_frsize < _LITTLE_ROOM:
            asked = (*asked, *_WRITING_FILES)
        while any(map(db.property_int_value, asked)):
            if db.property_int_value("rocksdb.background-errors"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            time.sleep(_STALL_SECONDS)

    @contextmanager
    def joining(self) -> Iterator[WriteBatch]:
        """The batch that is being written, or a new one."""
        if self._batch is not None:
            yield self._batch
        else:
            with self.writing(None) as batch:
                yield batch

    def prefix(self, state: str) -> bytes:
        """The prefix of the rows of a state: two bytes."""
        number = self._states.get(state)
        if number is None:
            number = self._states[state] = max(self._states.values(), default=0) + 1
            self._put_state(state, number)
        return number.to_bytes(2, "big")

    def _put_state(self, state: str, number: int) -> None:
        try:
            self._open_db().put(_STATE + state.encode("utf-8", "surrogatepass"), number.to_bytes(2, "big"))
        except Exception as error:
            raise self._failed(error) from error

    # --- opening and closing

    def reset(self) -> None:
        """Remove everything that is stored."""
        self._close_db()
        try:
            shutil.rmtree(self._directory.path / _DATABASE)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._failed(error) from error  # files that could not be removed must not be used
        self.version = None
        self.notes = {}
        self._open()
        for state, number in self._states.items():
            self._put_state(state, number)

    def close(self, *, remove: bool) -> None:
        """Close the store. It is kept for the next worker at this place, unless it is to be removed or is unusable."""
        remove = remove or self.damaged or self.version is None
        if not remove and self._db is not None:
            try:
                self._db.flush()
            except Exception as error:
                log.warning("%s: local state in %s could not be kept: %s", self._where, self.path, error)
                remove = True
        self._close_db()
        self._directory.close(remove=remove)

    def _open(self) -> None:
        try:
            db = self._db = Rdict(str(self._directory.path / _DATABASE), self._settings.options())
            options = WriteOptions()
            options.disable_wal = True  # type: ignore[method-assign,assignment]  # a property, contrary to the stubs
            db.set_write_options(options)
        except Exception as error:
            raise self._failed(error) from error

    def _reopen(self) -> None:
        """Open a store that another worker left. Start with an empty one if it is damaged, or has no version.

        Without a version, the worker was killed while it loaded state, or before its first fold: the meaning of the
        rows is unknown, and loading state would not remove them.
        """
        try:
            self._open()
            self._read_meta()
        except (LocalStateError, ValueError, KeyError):
            self.damaged = False
            self.version = None
        if self.version is None:
            self._states = {}
            self.reset()

    def _read_meta(self) -> None:
        data = self.get(_VERSION)
        if data is not None:
            about = json.loads(data)
            self.version = StateVersion(about["lineage"], about["slot"], about["epoch"])
            self.sequence = about["seq"]
            self.notes = about["notes"]
        for row, number in self.scan(_STATE, _STATE + b"\xff"):
            self._states[row[len(_STATE) :].decode("utf-8", "surrogatepass")] = int.from_bytes(number, "big")

    def _close_db(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            try:
                db.close()
            except Exception as error:
                log.warning("%s: local state in %s could not be closed: %s", self._where, self.path, error)

    def _open_db(self) -> Rdict:
        if self._db is None:
            raise LocalStateError(f"the local state of {self._where} is closed")
        return self._db

    def _failed(self, error: Exception) -> LocalStateError:
        """The error for an exception from RocksDB. The store becomes unusable: the next one is rebuilt."""
        if isinstance(error, LocalStateError):
            return error
        self.damaged = True
        if (isinstance(error, OSError) and error.errno in _FULL) or any(map(str(error).__contains__, _FULL.values())):
            return LocalStateError(
                f"the disk of {self.path} is full, where {self._where} keeps its state. Free some space, or set "
                f"{RocksDBOptions.LOCAL_DIRECTORIES.key} to directories with more space"
            )
        log.warning(
            "%s: local state in %s is damaged and will be rebuilt from the checkpoint: %s",
            self._where,
            self.path,
            error,
        )
        return LocalStateError(
            f"the local state of {self._where} in {self.path} is damaged ({error}). Nothing is lost: it is rebuilt "
            "from the checkpoint"
        )


def end_of(prefix: bytes) -> bytes:
    """The first row after all rows that begin with ``prefix``."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))
