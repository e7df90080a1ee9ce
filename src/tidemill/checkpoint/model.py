"""The data model of the checkpoint protocol: attempts, acks, pieces of state, runs, manifests.

Plain data, no I/O and no decisions: ``protocol`` decides, ``manifest`` encodes, ``storage`` and ``log`` write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NewType

from tidemill.state.keys.key_groups import KeyGroup, Subtask

Epoch = NewType("Epoch", int)
Slot = NewType("Slot", int)
Lineage = NewType("Lineage", str)
Attempt = NewType("Attempt", str)


@dataclass(frozen=True)
class SectionInfo:
    """Describes one section of a state file: enough to decide whether a restoring subtask must read it."""

    operator: str
    state: str
    first_group: KeyGroup
    last_group: KeyGroup
    rows: int


@dataclass(frozen=True)
class Piece:
    """One immutable state file: the changes of one subtask in one epoch, or a slice of a snapshot.

    Exactly one of ``data`` (inline bytes) and ``file`` (a name relative to the job's directory) is set in an ack; in a
    stored manifest inline data becomes an attachment of that manifest.
    """

    subtask: int
    chain: str
    length: int
    sha256: str
    sections: tuple[SectionInfo, ...]
    file: str | None = None
    data: bytes | None = None


@dataclass(frozen=True)
class SubtaskId:
    """A subtask of a chain; the chain is identified by the uid of its head, which survives recompilation."""

    chain: str
    subtask: Subtask


@dataclass(frozen=True)
class Ack:
    """The barrier row of a subtask: everything the driver needs to know about the subtask's epoch.

    ``consumed`` maps each sender whose parcels were read to the attempt that sent them. ``watermark`` is that of the
    chain's head; ``marks`` are those of operators further down the chain that generate their own, by uid. ``times`` is
    the additional state of watermark generators, by uid (see ``tidemill.runtime.time.time_states``). ``next_timer`` is
    the earliest processing time at which something is due: a timer, or an input becoming idle. ``committables`` is
    keyed by sink uid. ``report`` contains the measurements of the subtask; the protocol ignores it.
    """

    subtask: SubtaskId
    attempt: Attempt
    epoch: Epoch
    rerun: int
    consumed: dict[SubtaskId, Attempt] = field(default_factory=dict)
    pieces: tuple[Piece, ...] = ()
    watermark: int = -(2**63)
    marks: dict[str, int] = field(default_factory=dict)
    times: dict[str, Any] = field(default_factory=dict)
    next_timer: int | None = None
    committables: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    report: Any = None


@dataclass(frozen=True)
class RunRef:
    """One entry of a manifest's run list, oldest first: the pieces of an epoch's manifest, or of a snapshot.

    Loading the runs in order, each one overwriting entries of earlier ones per key group, produces the committed state.
    ``slot`` names a manifest; ``snapshot`` names a snapshot index file that replaces the epochs up to ``through``.
    """

    through: Epoch
    slot: Slot | None = None
    snapshot: str | None = None
    bytes: int = 0


@dataclass(frozen=True)
class Manifest:
    """A committed epoch (``kind == "epoch"``) or the opening of a lineage (``kind == "takeover"``).

    ``attempts`` maps each chain to the attempts of its subtasks that produced this epoch: only a worker that ran
    exactly that attempt may continue with its in-memory state. ``watermarks`` has one entry per subtask, for each chain
    and for each operator inside a chain that generates its own watermarks; ``times`` has the additional state of some
    of these. ``operators`` describes uids, names, state kinds and types, for checks before a restore. ``spark`` stores
    Spark's own positions verbatim for streaming queries. ``operators_slot`` is None if ``operators`` is the description
    itself, else the slot of the manifest that contains it. ``checkpoints`` are the slots of the retained checkpoints,
    oldest first. ``history`` describes how the job's current history began, if that is not the beginning of its log:
    ``lineage`` is that of its first takeover record; a history that began from a savepoint also has its ``path`` and
    its ``id``.
    """

    kind: str
    job_id: str
    lineage: Lineage
    slot: Slot
    epoch: Epoch
    rerun: int = 0
    clock: int = 0
    finished: bool = False
    parallelism: dict[str, int] = field(default_factory=dict)
    max_parallelism: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, tuple[Attempt, ...]] = field(default_factory=dict)
    watermarks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    times: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    next_timer: int | None = None
    sources: dict[str, Any] = field(default_factory=dict)
    spark: dict[str, Any] | None = None
    pieces: tuple[Piece, ...] = ()
    runs: tuple[RunRef, ...] = ()
    committables: dict[str, dict[int, tuple[bytes, ...]]] = field(default_factory=dict)
    operators: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    operators_slot: Slot | None = None
    checkpoints: tuple[Slot, ...] = ()
    history: dict[str, str] = field(default_factory=dict)
