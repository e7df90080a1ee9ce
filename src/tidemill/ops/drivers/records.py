"""Records of the drivers that ``tidemill run`` has started on this machine, as files of the user.

A driver holds a lock on its record while it runs. The lock is released however the driver ends, so that other processes
can tell whether it is running. The records of the last ended drivers are kept, so that their logs can be found.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tidemill.errors import ConfigurationError
from tidemill.ops.errors import NotThereError

__all__ = [
    "Driver",
    "DriverJob",
    "DriverRecord",
    "RestAddress",
    "driver_of",
    "drivers",
    "forget_ended",
    "new_log",
    "recorded",
    "records_directory",
]

log = logging.getLogger(__name__)

VERSION: Final = 1
#: Maximum number of ended drivers whose records and logs are kept.
MOST_ENDED: Final = 50


@dataclass(frozen=True)
class DriverJob:
    """A job that a driver has started; ``directory`` is its durable directory, if it outlives the driver.

    ``history`` is the directory with its record, if it writes one. ``status``, ``savepoint``, the path of its last
    savepoint, ``epoch``, the last committed one, and ``restarts`` are set when the driver has ended.
    """

    id: str
    name: str
    directory: str | None = None
    status: str | None = None
    savepoint: str | None = None
    history: str | None = None
    epoch: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class RestAddress:
    """The REST server of a driver; ``token`` is the location of the token (env:NAME, file:PATH).

    ``certificate`` is the file with the certificate of the server or of its authority. ``identity`` is the file with
    the client certificate and its key; it is never recorded.
    """

    url: str
    token: str | None = None
    certificate: str | None = None
    identity: str | None = None


@dataclass(frozen=True)
class Driver:
    """The record of a driver; times are in milliseconds since 1970, ``ended`` is None if the driver was killed."""

    pid: int
    program: str
    started: int
    log: str | None = None
    rest: RestAddress | None = None
    jobs: tuple[DriverJob, ...] = ()
    exit_code: int | None = None
    ended: int | None = None
    alive: bool = field(default=True, compare=False)


def records_directory() -> Path:
    """Return the directory of records and logs, in the user's XDG state directory, which other users cannot access.

    Raises :class:`ConfigurationError` if it cannot be created.
    """
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    directory = Path(home) / "tidemill"
    with _writing(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def new_log(program: str, settings: str) -> tuple[Path, Path]:
    """Create an empty log file for a driver, and a file with its settings, both accessible only by their owner.

    Raises :class:`ConfigurationError` if they cannot be written.
    """
    stem = Path(program.partition(":")[0]).stem[:40]
    directory = records_directory()
    log = directory / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{stem}-{secrets.token_hex(3)}.log"
    beside = log.with_suffix(".yaml")
    with _writing(directory):
        log.touch(mode=0o600)
        try:
            with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write(settings)
        except BaseException:
            log.unlink()
            beside.unlink(missing_ok=True)
            raise
    return log, beside


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Raise a :class:`ConfigurationError` that explains what to do if the block cannot write to the directory."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot write logs and records of drivers to {directory}: {error.strerror}. Set XDG_STATE_HOME to a "
            "directory that you can write to, with sufficient space"
        ) from error


class DriverRecord:
    """The record of this process while it runs a program.

    Raises :class:`ConfigurationError` if it cannot be written. If a later update fails, for example because the disk is
    full, a warning is logged, and the job continues.
    """

    def __init__(self, path: Path, driver: Driver) -> None:
        self._path = path
        self._driver = driver
        with _writing(path.parent):
            self._lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                self._write()
            except BaseException:
                _delete(path)
                os.close(self._lock)
                raise

    def put(self, job: DriverJob, rest: RestAddress | None = None) -> None:
        """Record a job that was started or has ended, and the REST address of the driver."""
        jobs = {one.id: one for one in (*self._driver.jobs, job)}
        self._driver = replace(self._driver, jobs=tuple(jobs.values()), rest=rest or self._driver.rest)
        self._note()

    def close(self, exit_code: int) -> None:
        """Record that the program has ended."""
        self._driver = replace(self._driver, exit_code=exit_code, ended=time.time_ns() // 1_000_000)
        self._note()
        os.close(self._lock)

    def _note(self) -> None:
        try:
            self._write()
        except OSError as error:
            log.warning("commands such as 'tidemill list' may not find this driver's jobs: %s: %s", self._path, error)

    def _write(self) -> None:
        content = {"version": VERSION, **asdict(self._driver)}
        del content["alive"]
        unfinished = self._path.with_suffix(".unfinished")
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump(content, file)
        unfinished.replace(self._path)


@contextmanager
def recorded(program: str, log: str | None) -> Iterator[DriverRecord]:
    """Create a record of this process, and close it with the exit code at the end of the block.

    A record that was not closed is that of a driver that was killed.
    """
    started = time.time_ns() // 1_000_000
    # A process may create several records within a millisecond, and would wait forever for its own lock.
    while (path := records_directory() / f"driver-{started:015d}-{os.getpid()}.json").with_suffix(".lock").exists():
        started += 1
    forget_ended(MOST_ENDED)
    record = DriverRecord(path, Driver(os.getpid(), program, started, log))
    code = 1
    try:
        yield record
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        raise
    finally:
        record.close(code)


def drivers() -> list[Driver]:
    """Return all recorded drivers, newest first."""
    found = []
    for path in sorted(records_directory().glob("driver-*.json"), reverse=True):
        driver = _read(path)
        if driver is not None:
            found.append(driver)
    return found


def driver_of(job: str) -> tuple[Driver, DriverJob]:
    """Return the job with an id or prefix, and its driver: a running one, otherwise the newest.

    Raises :class:`NotThereError` if no job matches, or several do.
    """
    known = [(driver, one) for driver in drivers() for one in driver.jobs if job and one.id.startswith(job)]
    ids = sorted({one.id for _, one in known})
    if not ids:
        raise NotThereError(f"no driver on this machine has started a job {job!r}: see 'tidemill list'")
    if len(ids) > 1 and job not in ids:
        raise NotThereError(f"the ids of several jobs start with {job!r}: {', '.join(ids)}")
    meant = [(driver, one) for driver, one in known if one.id == (job if job in ids else ids[0])]
    return next((pair for pair in meant if pair[0].alive), meant[0])


def _read(path: Path) -> Driver | None:
    """Read a record. Returns None if it was deleted meanwhile, or has an unknown version."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("version") != VERSION:
            return None
        jobs = tuple(DriverJob(**job) for job in content.pop("jobs"))
        rest = content.pop("rest")
        return Driver(
            **content,
            rest=None if rest is None else RestAddress(**rest),
            jobs=jobs,
            alive=_is_held(path.with_suffix(".lock")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_held(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)


def forget_ended(kept: int = 0) -> int:
    """Delete the records and logs of drivers that have ended, except for the last ``kept``; return how many."""
    paths = sorted(records_directory().glob("driver-*.json"), reverse=True)
    ended = [path for path in paths if not _is_held(path.with_suffix(".lock"))]
    for path in ended[kept:]:
        driver = _read(path)
        # A log that the user put in another directory is not deleted.
        if driver is not None and driver.log is not None and Path(driver.log).parent == records_directory():
            Path(driver.log).unlink(missing_ok=True)
        _delete(path)
    return len(ended[kept:])


def _delete(record: Path) -> None:
    for suffix in (".json", ".lock", ".unfinished"):
        record.with_suffix(suffix).unlink(missing_ok=True)
