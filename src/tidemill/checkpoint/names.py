"""Every durable path of a job, built and parsed in one place.

All names are relative to the job's directory::

    manifests/<slot>.tm                                   the log; the slot has 20 digits, the first one is 1
    state/<lineage>/<epoch>-<chain>-<subtask>-<attempt>.tms    what one attempt changed in one epoch
    snapshots/<id>.tm                                     the index of a compaction's result
    snapshots/<id>/<part>.tms                             its files; the id is <lineage>-<through>-<token>
    input/<source>/<token>/<file>                         materialised input of a bounded source
        input/<source>/chosen                                 the token of the folder that is valid
        sinks/<sink>/<lineage>/<epoch>-<subtask>-<attempt>-<part>.log   a sink's write-ahead log
    spark/<lineage>                                       the Spark checkpoint location a lineage owns
    drivers/<token>-<beat>.json                           who runs the job, written anew every few seconds

``<chain>``, ``<source>`` and ``<sink>`` are the first 16 hex digits of the uid's SHA-256, because uids may contain any
character. A lineage is named ``<slot of its takeover record>-<token>``, so that the names of two lineages show which
one is older. Files that come from a savepoint are named after a lineage of slot 0, which is older than any of the job's
own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tidemill.checkpoint.model import Attempt, Epoch, Lineage, Slot
from tidemill.errors import CheckpointError
from tidemill.state.keys.key_groups import Subtask

MANIFESTS = "manifests/"
STATE = "state/"
SNAPSHOTS = "snapshots/"
INPUT = "input/"
SINKS = "sinks/"
SPARK = "spark/"
DRIVERS = "drivers/"

#: The only reserved first part of a name: local storage keeps its unfinished files there.
TEMPORARY = ".tmp"

_MAX_NAME = 1024  # the lowest limit of the supported stores (S3 keys: 1024 bytes)
_BAD_CHARACTER = re.compile(r"[\x00-\x1f\\]")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MANIFEST = re.compile(r"manifests/(\d{20})\.tm")
_LINEAGE = re.compile(r"(\d{12,20})-[0-9a-z]{1,32}")
_DELTA = re.compile(r"state/([A-Za-z0-9_-]{1,64})/(\d{12,20})-([0-9a-f]{16})-(\d+)-([A-Za-z0-9_-]{1,64})\.tms")
_SINK_LOG = re.compile(r"sinks/([0-9a-f]{16})/([A-Za-z0-9_-]{1,64})/(\d{12,20})-\d+-[A-Za-z0-9_-]{1,64}-\d+\.log")
_SPARK_LOG = re.compile(r"spark/([A-Za-z0-9_-]{1,64})/(?:commits/(\d{1,18})|.+)")
_SNAPSHOT_ID = re.compile(r"([A-Za-z0-9_-]{1,64})-(\d{12,20})-([0-9a-z]{1,32})")
_DRIVER = re.compile(r"drivers/([0-9a-f]{16})-(\d{12})\.json")
_SNAPSHOT = re.compile(r"snapshots/([A-Za-z0-9_-]{1,128})(?:\.tm|/\d{6}\.tms)")


@dataclass(frozen=True)
class DeltaName:
    """The information in the name of a delta file."""

    lineage: Lineage
    epoch: Epoch
    chain_hash: str
    subtask: Subtask
    attempt: Attempt


@dataclass(frozen=True)
class SinkLogName:
    """The information in the name of a sink's write-ahead log."""

    sink_hash: str
    lineage: Lineage
    epoch: Epoch


@dataclass(frozen=True)
class SparkLogName:
    """The information in the name of a file in a Spark checkpoint location: the lineage, and the batch if committed."""

    lineage: Lineage
    committed_batch: int = -1


@dataclass(frozen=True)
class SnapshotName:
    """The information in the id of a snapshot."""

    lineage: Lineage
    through: Epoch
    token: str


def check_name(name: str) -> str:
    """Return ``name`` if it is a safe relative name, else raise :class:`CheckpointError`.

    Safe: no empty part, no ``.`` or ``..``, not absolute, no backslash, no control character, no scratch directory.
    """
    problem = None
    if not name:
        problem = "it is empty"
    elif len(name) > _MAX_NAME:
        problem = f"it is longer than {_MAX_NAME} characters"
    elif name[0] == "/":
        problem = "it is absolute"
    elif _BAD_CHARACTER.search(name):
        problem = "it contains a backslash or a control character"
    else:
        parts = name.split("/")
        if "" in parts:
            problem = "it has an empty part"
        elif "." in parts or ".." in parts:
            problem = "it has a '.' or '..' part"
        elif parts[0] == TEMPORARY:
            problem = f"{TEMPORARY!r} is reserved"
    if problem:
        raise CheckpointError(f"{str(name)[:200]!r} is not a name inside the checkpoint directory: {problem}")
    return name


def _check_id(value: str, what: str) -> str:
    if not _ID.fullmatch(value):
        raise CheckpointError(f"{value[:200]!r} is not a valid {what}: use 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return value


def uid_hash(uid: str) -> str:
    """The 16 hex digits that represent a uid in file names (64 bits: a job has thousands of uids at most)."""
    return hashlib.sha256(uid.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def manifest_name(slot: int) -> str:
    """The name of the manifest in ``slot``."""
    if slot < 1:
        raise CheckpointError(f"slot {slot} does not exist: slots count from 1")
    return f"manifests/{slot:020d}.tm"


def parse_manifest(name: str) -> Slot | None:
    """The slot that ``name`` identifies, or None if it is not the name of a manifest."""
    match = _MANIFEST.fullmatch(name)
    return Slot(int(match[1])) if match else None


def lineage_id(slot: int, token: str) -> Lineage:
    """The lineage opened by the takeover record in ``slot``; ``token`` (hex) distinguishes concurrent drivers."""
    return Lineage(_check_id(f"{slot:012d}-{token}", "lineage"))


def lineage_slot(lineage: str) -> Slot | None:
    """The slot of the record that opened ``lineage``, or None if the id was not created by :func:`lineage_id`."""
    match = _LINEAGE.fullmatch(lineage)
    return Slot(int(match[1])) if match else None


def delta_name(lineage: str, epoch: Epoch, chain: str, subtask: int, attempt: str) -> str:
    """The name of the delta that ``attempt`` of a subtask writes in ``epoch``; unique because attempts are."""
    owner = f"{_check_id(lineage, 'lineage')}/{epoch:012d}-{uid_hash(chain)}-{subtask}"
    return f"{STATE}{owner}-{_check_id(attempt, 'attempt')}.tms"


def parse_delta(name: str) -> DeltaName | None:
    """Parse ``name``; None if it is not the name of a delta."""
    match = _DELTA.fullmatch(name)
    if not match:
        return None
    return DeltaName(Lineage(match[1]), Epoch(int(match[2])), match[3], Subtask(int(match[4])), Attempt(match[5]))


def snapshot_id(lineage: str, through: int, token: str) -> str:
    """The id of a snapshot that ``lineage`` creates from the epochs up to ``through``."""
    value = f"{_check_id(lineage, 'lineage')}-{through:012d}-{token}"
    if not _SNAPSHOT_ID.fullmatch(value):
        raise CheckpointError(f"{token[:200]!r} is not a valid token: use 1 to 32 of the characters 0-9 a-z")
    return value


def parse_snapshot_id(snapshot: str) -> SnapshotName | None:
    """Parse a snapshot's id; None if it was not created by :func:`snapshot_id`."""
    match = _SNAPSHOT_ID.fullmatch(snapshot)
    return SnapshotName(Lineage(match[1]), Epoch(int(match[2])), match[3]) if match else None


def _check_snapshot(snapshot: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", snapshot):
        raise CheckpointError(f"{snapshot[:200]!r} is not a valid snapshot id")
    return snapshot


def snapshot_index_name(snapshot: str) -> str:
    """The name of a snapshot's index."""
    return f"{SNAPSHOTS}{_check_snapshot(snapshot)}.tm"


def snapshot_file_name(snapshot: str, part: int) -> str:
    """The name of a snapshot's ``part``-th file."""
    return f"{SNAPSHOTS}{_check_snapshot(snapshot)}/{part:06d}.tms"


def parse_snapshot(name: str) -> str | None:
    """The id of the snapshot that ``name`` (its index or one of its files) belongs to, or None."""
    match = _SNAPSHOT.fullmatch(name)
    return match[1] if match else None


def input_prefix(source_uid: str) -> str:
    """The prefix of the names of a bounded source's materialised input."""
    return f"{INPUT}{uid_hash(source_uid)}/"


def input_name(source_uid: str, part: str) -> str:
    """The name of one part of a bounded source's materialised input."""
    return check_name(f"{input_prefix(source_uid)}{part}")


def sink_log_prefix(sink_uid: str) -> str:
    """The prefix of the names of a sink's write-ahead logs."""
    return f"{SINKS}{uid_hash(sink_uid)}/"


def sink_log_name(lineage: str, epoch: Epoch, sink_uid: str, subtask: int, attempt: str, part: int) -> str:
    """The name of one part of the write-ahead log of an attempt of a sink."""
    owner = f"{_check_id(lineage, 'lineage')}/{epoch:012d}-{subtask}-{_check_id(attempt, 'attempt')}"
    return f"{sink_log_prefix(sink_uid)}{owner}-{part}.log"


def parse_sink_log(name: str) -> SinkLogName | None:
    """Parse ``name``; None if it is not the name of a sink's write-ahead log."""
    match = _SINK_LOG.fullmatch(name)
    return SinkLogName(match[1], Lineage(match[2]), Epoch(int(match[3]))) if match else None


def spark_location(lineage: str) -> str:
    """The Spark checkpoint location that ``lineage`` owns."""
    return f"{SPARK}{_check_id(lineage, 'lineage')}"


def parse_spark_log(name: str) -> SparkLogName | None:
    """Parse ``name``; None if it is not the name of a file in a Spark checkpoint location."""
    match = _SPARK_LOG.fullmatch(name)
    return SparkLogName(Lineage(match[1]), -1 if match[2] is None else int(match[2])) if match else None


def driver_record_name(token: str, beat: int) -> str:
    """The name of a driver's record; each beat of the same driver has the next number."""
    return check_name(f"{DRIVERS}{token}-{beat:012d}.json")


def parse_driver_record(name: str) -> tuple[str, int] | None:
    """The token of the driver and the number of the beat, or None if ``name`` is not that of a driver's record."""
    match = _DRIVER.fullmatch(name)
    return (match[1], int(match[2])) if match else None
