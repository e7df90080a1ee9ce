"""The drivers that ``tidemill run`` has started on this machine: a record of each, as a file of its user.

A driver holds a lock on its record for as long as it lives, however it dies: that is how others know. Records of ended
drivers stay, the newest ones, so that their logs can be found.
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
    "new_log",
    "recorded",
    "records_directory",
]

log = logging.getLogger(__name__)

VERSION: Final = 1
#: Ended drivers that are remembered, with their logs.
MOST_ENDED: Final = 50


@dataclass(frozen=True)
class DriverJob:
    """A job that a driver has started; ``directory`` is where it keeps what is durable, if that outlives it.

    ``status`` and ``savepoint``, the path of its last one, are known when the driver has ended.
    """

    id: str
    name: str
    directory: str | None = None
    status: str | None = None
    savepoint: str | None = None


@dataclass(frozen=True)
class RestAddress:
    """A driver's REST server; ``token`` says where the token is (env:NAME, file:PATH).

    ``certificate`` is the file of the one it has, or of its authority; ``identity`` that of the one to show, with its
    key, which no record has.
    """

    url: str
    token: str | None = None
    certificate: str | None = None
    identity: str | None = None


@dataclass(frozen=True)
class Driver:
    """What a record says about a driver; times are in milliseconds since 1970, ``ended`` None if it was killed."""

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
    """Where records and logs are kept: the user's directory for the state of programs, closed to others.

    Raises :class:`ConfigurationError` if there can be none.
    """
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    directory = Path(home) / "tidemill"
    with _writing(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def new_log(program: str, settings: str) -> tuple[Path, Path]:
    """A new, empty log file for a driver, and a file with its settings beside it, both their owner's alone.

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
    """Says what to do if the block cannot write there."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot keep logs and records of drivers in {directory}: {error.strerror}. Set XDG_STATE_HOME to a "
            "directory of yours, with room for them"
        ) from error


class DriverRecord:
    """The record of this process, while it runs a program. Raises :class:`ConfigurationError` if there can be none.

    What cannot be noted later, because the disk is full, say, is logged: no job ends for that.
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
        """Note a job that was started, or what became of it, and where the driver can be asked about it."""
        jobs = {one.id: one for one in (*self._driver.jobs, job)}
        self._driver = replace(self._driver, jobs=tuple(jobs.values()), rest=rest or self._driver.rest)
        self._note()

    def close(self, exit_code: int) -> None:
        """The program has ended."""
        self._driver = replace(self._driver, exit_code=exit_code, ended=time.time_ns() // 1_000_000)
        self._note()
        os.close(self._lock)

    def _note(self) -> None:
        try:
            self._write()
        except OSError as error:
            log.warning("'tidemill list' and the like may not know of this driver's jobs: %s: %s", self._path, error)

    def _write(self) -> None:
        content = {"version": VERSION, **asdict(self._driver)}
        del content["alive"]
        unfinished = self._path.with_suffix(".unfinished")
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump(content, file)
        unfinished.replace(self._path)


@contextmanager
def recorded(program: str, log: str | None) -> Iterator[DriverRecord]:
    """A record of this process; whoever opens it closes it with an exit code, or else it died."""
    started = time.time_ns() // 1_000_000
    # A process may have several within a millisecond: one that waited for its own lock would do so for ever.
    while (path := records_directory() / f"driver-{started:015d}-{os.getpid()}.json").with_suffix(".lock").exists():
        started += 1
    _forget_old()
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
    """All that are known, newest first."""
    found = []
    for path in sorted(records_directory().glob("driver-*.json"), reverse=True):
        driver = _read(path)
        if driver is not None:
            found.append(driver)
    return found


def driver_of(job: str) -> tuple[Driver, DriverJob]:
    """A job, by its id or the beginning of it, and its driver: one that lives, else the newest.

    Raises :class:`NotThereError` if no job is called so, or several.
    """
    known = [(driver, one) for driver in drivers() for one in driver.jobs if job and one.id.startswith(job)]
    ids = sorted({one.id for _, one in known})
    if not ids:
        raise NotThereError(f"no driver on this machine has started a job {job!r}: see 'tidemill list'")
    if len(ids) > 1 and job not in ids:
        raise NotThereError(f"several jobs begin with {job!r}: {', '.join(ids)}")
    meant = [(driver, one) for driver, one in known if one.id == (job if job in ids else ids[0])]
    return next((pair for pair in meant if pair[0].alive), meant[0])


def _read(path: Path) -> Driver | None:
    """A record; None if it is gone meanwhile, or of a version we do not know."""
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


def _forget_old() -> None:
    paths = sorted(records_directory().glob("driver-*.json"), reverse=True)
    ended = [path for path in paths if not _is_held(path.with_suffix(".lock"))]
    for path in ended[MOST_ENDED:]:
        driver = _read(path)
        # A log that was put elsewhere by its user is the user's.
        if driver is not None and driver.log is not None and Path(driver.log).parent == records_directory():
            Path(driver.log).unlink(missing_ok=True)
        _delete(path)


def _delete(record: Path) -> None:
    for suffix in (".json", ".lock", ".unfinished"):
        record.with_suffix(suffix).unlink(missing_ok=True)
