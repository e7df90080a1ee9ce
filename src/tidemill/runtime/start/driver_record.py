"""The record of the driver that runs a job, and how another driver determines whether that one is alive.

The log of manifests alone decides which driver owns a job. The record is advice for a driver that starts: without it,
a job started twice by mistake would be taken from the first driver. A driver writes its record to the directory of the
job before its engine starts, again at each *beat*, and deletes it when the job ends. What counts as alive:

1. A driver whose process is known to be gone, because it ran on this machine, is dead at once.
2. A driver on this machine is alive if its process exists and its last beat is recent. A process that is stopped or
   hangs does not beat, so it does not block its successor.
3. Of a driver elsewhere only the beats are visible, and the clocks of two machines may differ: it is alive if the next
   beat comes within the *patience*, which is three intervals. A record that is a minute older than that is not waited
   for.

So a job is resumed at once on the same machine, and after at most the patience on another one. Two drivers that start
at the same moment do not see each other: the log of manifests decides, as always.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tidemill.checkpoint.names import DRIVERS, driver_record_name, parse_driver_record
from tidemill.checkpoint.storage.storages import NotFoundError, Storage
from tidemill.errors import CheckpointError, FencedError

__all__ = ["DriverDescription", "DriverHeartbeat", "Life", "Process", "check_no_other_driver", "judge", "this_process"]

log = logging.getLogger(__name__)

#: The number of intervals without a beat after which a driver counts as dead: one beat may be late, or fail.
_PATIENCE: Final = 3
#: How much the clocks of two machines may differ, in milliseconds.
_MOST_SKEW: Final = 60_000
#: How often a starting driver looks for the next beat of another one, in seconds.
_LOOK_SECONDS: Final = 0.5
#: The states of a process that has ended: zombie and dead.
_ENDED: Final = frozenset("ZXx")


@dataclass(frozen=True)
class Process:
    """A process: ``machine`` identifies a kernel since its start, with the namespace of the process ids.

    ``birth`` is when the process started, in clock ticks of that kernel. ``machine`` is empty where this is unknown.
    """

    pid: int
    machine: str = ""
    birth: int | None = None


@dataclass(frozen=True)
class DriverDescription:
    """What a record contains. Times are in milliseconds since 1970."""

    token: str
    host: str
    pid: int
    since: int
    beat: int
    interval: int
    machine: str = ""
    birth: int | None = None
    rest: str | None = None

    @property
    def patience(self) -> int:
        """The milliseconds without a beat after which the driver counts as dead."""
        return _PATIENCE * self.interval

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
        rest = "" if self.rest is None else f" (REST at {self.rest})"
        return f"process {self.pid} on {self.host}, since {since}{rest}"


class Life(Enum):
    """Whether a driver is alive. ``UNKNOWN`` means that its next beat decides."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


def judge(found: DriverDescription, here: Process, birth_of: Callable[[int], int | None], now: int) -> Life:
    """Decide whether a driver is alive. ``birth_of`` returns when a process of this machine started, None if ended.

    A pure function of what was read; the numbers are those of the module's docstring.
    """
    age = now - found.beat
    if found.machine and found.machine == here.machine:
        if birth_of(found.pid) != found.birth:  # 1
            return Life.DEAD
        return Life.ALIVE if age <= found.patience else Life.DEAD  # 2
    return Life.DEAD if age > found.patience + _MOST_SKEW else Life.UNKNOWN  # 3


def this_process() -> Process:
    """This process, as its record describes it."""
    pid = os.getpid()
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return Process(pid)
    return Process(pid, f"{kernel}/{namespace}", birth_of(pid))


def birth_of(pid: int) -> int | None:
    """When a process of this machine started, in clock ticks since the machine's start; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the name in parentheses, which may contain anything; the third is the state,
    # the 22nd the time.
    after_name = stat.rpartition(")")[2].split()
    return None if after_name[0] in _ENDED else int(after_name[19])


def check_no_other_driver(storage: Storage, job_id: str, *, take_over: bool) -> None:
    """Wait until it is known whether another driver of a job is alive, and delete the records of dead ones.

    Raises :class:`~tidemill.errors.FencedError`, which names the driver that is alive, unless ``take_over`` is set.
    """
    here = this_process()
    for token, (beat, found) in _records(storage).items():
        life = judge(found, here, birth_of, _now())
        if take_over and life is not Life.DEAD:
            continue  # it deletes its record itself when it notices
        if life is Life.UNKNOWN:
            log.info("job %s: waiting whether its driver is alive: %s", job_id, found)
            life = _await_beat(storage, token, beat, found.patience / 1000)
        if life is Life.ALIVE:
            raise FencedError(
                f"job {job_id!r} is run by another driver: {found}. Stop that one first, or take the job over from it "
                "with --take-over (execution.take-over: true)"
            )
        log.info("job %s: its driver has ended without stopping the job: %s", job_id, found)
        _delete(storage, token)


class DriverHeartbeat:
    """The record of this process as the driver of a job, renewed by a thread of its own until it is closed."""

    def __init__(self, storage: Storage, interval: float) -> None:
        """Write the first record. Raises :class:`CheckpointError` if the storage cannot be written."""
        process, now = this_process(), _now()
        # configuration
        self._storage = storage
        # transient
        self._driver = DriverDescription(
            secrets.token_hex(8),
            socket.gethostname(),
            process.pid,
            now,
            now,
            int(interval * 1000),
            process.machine,
            process.birth,
        )
        self._beats = 0
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._failing = False
        self._beat()
        self._thread = threading.Thread(target=self._run, name="tidemill-driver-record", daemon=True)
        self._thread.start()

    def reachable_at(self, url: str) -> None:
        """Add the address of the driver's REST server, from the next beat on."""
        with self._writing:
            self._driver = replace(self._driver, rest=url)

    def close(self) -> None:
        """Stop renewing the record, and delete it."""
        self._ended.set()
        self._thread.join()
        try:
            _delete(self._storage, self._driver.token)
        except CheckpointError as error:
            log.warning("the record of this driver was not deleted: %s", error)
        self._storage.close()

    def _run(self) -> None:
        while not self._ended.wait(self._driver.interval / 1000):
            try:
                self._beat()
            except CheckpointError as error:
                # The job reports a storage that does not respond by itself. Another driver may now take the job over.
                if not self._failing:
                    log.warning("the record of this driver cannot be renewed at the moment: %s", error)
                self._failing = True
            else:
                self._failing = False

    def _beat(self) -> None:
        with self._writing:
            self._driver = replace(self._driver, beat=_now())
            name = driver_record_name(self._driver.token, self._beats + 1)
            self._storage.write(name, json.dumps(asdict(self._driver)).encode())
            self._beats += 1
            if self._beats > 1:
                self._storage.delete([driver_record_name(self._driver.token, self._beats - 1)])


def _records(storage: Storage) -> dict[str, tuple[int, DriverDescription]]:
    """The last record of each driver, with the number of its beat.

    Records that are not readable are deleted: they are not synced to disk, so a power failure may damage them. They
    must not keep a job from being resumed.
    """
    found: dict[str, tuple[int, DriverDescription]] = {}
    for token, listed in sorted(_last_beats(storage).items()):
        beat = listed
        try:
            data = storage.read(driver_record_name(token, beat))
        except NotFoundError:
            # The next beat has replaced it meanwhile, or the job has ended.
            later = _last_beats(storage).get(token)
            if later is None:
                continue
            beat, data = later, storage.read(driver_record_name(token, later))
        description = _decoded(data)
        if description is None:
            log.warning("the record %s of a driver is damaged, and is deleted", driver_record_name(token, beat))
            _delete(storage, token)
        else:
            found[token] = beat, description
    return found


def _last_beats(storage: Storage) -> dict[str, int]:
    beats: dict[str, int] = {}
    for token, beat in filter(None, map(parse_driver_record, storage.list(DRIVERS))):
        beats[token] = max(beat, beats.get(token, 0))
    return beats


def _decoded(data: bytes) -> DriverDescription | None:
    """Parse a record, None if it is damaged. Fields that a later version has added are ignored."""
    try:
        content: dict[str, Any] = json.loads(data)
        return DriverDescription(**{one.name: content[one.name] for one in fields(DriverDescription)})
    except (ValueError, TypeError, KeyError):
        return None


def _await_beat(storage: Storage, token: str, beat: int, seconds: float) -> Life:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
        last = _last_beats(storage).get(token)
        if last is None:
            return Life.DEAD
        if last != beat:
            return Life.ALIVE
    return Life.DEAD


def _delete(storage: Storage, token: str) -> None:
    names = [name for name in storage.list(DRIVERS) if (parse_driver_record(name) or ("",))[0] == token]
    storage.delete(names)


def _now() -> int:
    return time.time_ns() // 1_000_000
