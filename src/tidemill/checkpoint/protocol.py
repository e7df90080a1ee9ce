"""The decisions of the epoch protocol. Pure functions: facts in, decisions out; no I/O, no clock, no randomness.

The driver runs one epoch as follows: all acks have arrived -> :func:`judge` -> :func:`build_manifest` ->
:meth:`~tidemill.checkpoint.log.ManifestLog.publish` (the commit point) -> sinks commit ``manifest.committables`` ->
next epoch. The committables of a manifest are committed before the next manifest is published. A takeover copies them,
so that a driver that finds them in its head commits them (again). ``claims`` decides what a driver concludes from the
slots of the log, ``retention`` what may be deleted, and ``compaction`` what is merged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.compaction import apply_compaction, plan_compaction
from tidemill.checkpoint.model import Ack, Attempt, Epoch, Manifest, Piece, RunRef, Slot, SubtaskId
from tidemill.checkpoint.retention import kept_slots, names_referenced, plan_retention
from tidemill.errors import CheckpointError
from tidemill.state.keys.key_groups import subtasks_of

__all__ = [
    "Publish",
    "Rerun",
    "Verdict",
    "apply_compaction",
    "build_manifest",
    "judge",
    "kept_slots",
    "names_referenced",
    "plan_compaction",
    "plan_retention",
    "should_skip",
]


@dataclass(frozen=True)
class Publish:
    """The epoch may be published: ``acks`` has one per subtask, ordered by chain and subtask, and is consistent."""

    epoch: Epoch
    rerun: int
    parallelism: dict[str, int]
    acks: tuple[Ack, ...]


@dataclass(frozen=True)
class Rerun:
    """The epoch must be run again from the head's state because of ``reason``; none of its results may be used."""

    reason: str


Verdict = Publish | Rerun


def judge(
    expected: Mapping[str, int],
    edges: Collection[tuple[str, str]],
    acks: Iterable[Ack],
    *,
    epoch: Epoch,
    rerun: int,
) -> Verdict:
    """Decide whether the acks of one execution of an epoch form a consistent cut.

    ``expected`` maps each chain to its number of subtasks in this epoch; ``edges`` are (sender chain, receiver chain).
    The epoch is published only if

    1. every ack belongs to this epoch and rerun, and to an expected subtask,
    2. every expected subtask has exactly one ack,
    3. every receiver consumed from every subtask of each chain that feeds it, and from no other,
    4. every attempt that was consumed is the attempt that was acked.

    Condition 4 makes retried and speculative tasks harmless: if two attempts of a sender ran, all its receivers read
    the same one, and that attempt's ack is the one that is used.
    """
    if strangers := {chain for edge in edges for chain in edge} - expected.keys():
        raise CheckpointError(f"epoch {epoch} has exchanges of chains that it does not run: {sorted(strangers)}")
    by_subtask: dict[SubtaskId, Ack] = {}
    for ack in acks:
        who = _name(ack.subtask)
        if ack.epoch != epoch or ack.rerun != rerun:  # 1
            return Rerun(f"{who} acked epoch {ack.epoch} rerun {ack.rerun}, not epoch {epoch} rerun {rerun}")
        if not 0 <= ack.subtask.subtask < expected.get(ack.subtask.chain, 0):
            return Rerun(f"{who} acked, but is not a subtask of this epoch")
        if earlier := by_subtask.get(ack.subtask):  # 2
            return Rerun(f"{who} acked twice, as attempts {earlier.attempt} and {ack.attempt}")
        by_subtask[ack.subtask] = ack
    subtasks = [SubtaskId(chain, index) for chain in sorted(expected) for index in subtasks_of(expected[chain])]
    if missing := [subtask for subtask in subtasks if subtask not in by_subtask]:
        return Rerun(f"{_name(missing[0])} did not ack" + (f", nor did {len(missing) - 1} more" if missing[1:] else ""))
    for subtask in subtasks:
        feeding = {sender for sender, receiver in edges if receiver == subtask.chain}
        senders = [SubtaskId(chain, index) for chain in sorted(feeding) for index in subtasks_of(expected[chain])]
        if reason := _inconsistent(by_subtask[subtask], senders, by_subtask):  # 3, 4
            return Rerun(reason)
    return Publish(epoch, rerun, dict(expected), tuple(by_subtask[subtask] for subtask in subtasks))


def _inconsistent(ack: Ack, senders: Collection[SubtaskId], acks: Mapping[SubtaskId, Ack]) -> str | None:
    """The reason why the input one subtask consumed is not what its senders acked, or None if it is."""
    who = _name(ack.subtask)
    for sender in senders:
        attempt = ack.consumed.get(sender)
        if attempt is None:
            return f"{who} consumed nothing from {_name(sender)}"
        if attempt != acks[sender].attempt:
            return f"{who} consumed attempt {attempt} of {_name(sender)}, but attempt {acks[sender].attempt} acked"
    if len(ack.consumed) != len(senders):
        stranger = min(ack.consumed.keys() - set(senders), key=_name)
        return f"{who} consumed from {_name(stranger)}, which does not feed it"
    return None


def build_manifest(
    head: Manifest,
    publish: Publish,
    *,
    clock: int,
    sources: dict[str, Any] | None = None,
    spark: dict[str, Any] | None = None,
    of_sources: tuple[Piece, ...] = (),
    max_parallelism: dict[str, int] | None = None,
    operators: dict[str, Any] | None = None,
    runs: tuple[RunRef, ...] | None = None,
    metrics: Mapping[str, float] | None = None,
    finished: bool = False,
    checkpoint: bool = False,
    retain: int = 1,
) -> Manifest:
    """The manifest of the epoch after ``head``, in the slot after it.

    ``sources``, ``spark``, ``max_parallelism`` and ``operators`` are taken from the head if they are None; an unchanged
    description of the operators is referenced, not repeated. An empty ``spark`` means that no source has a Spark
    position any more. ``of_sources`` is what the epoch adds to the state of sources. ``runs`` is the head's run list
    after :func:`apply_compaction`, if a compaction has finished. ``checkpoint`` makes this epoch a retained checkpoint
    and releases all but the newest ``retain``. ``metrics`` are the counters of the epoch.
    """
    if publish.epoch != head.epoch + 1:
        raise CheckpointError(f"epoch {publish.epoch} cannot follow epoch {head.epoch}")
    if retain < 1:
        raise CheckpointError(f"cannot retain {retain} checkpoints: keep at least one")
    slot = Slot(head.slot + 1)
    attempts: dict[str, list[Attempt]] = {}
    watermarks: dict[str, list[int]] = {}
    committables: dict[str, dict[int, tuple[bytes, ...]]] = {}
    makers = {owner for ack in publish.acks for owner in ack.times}
    times: dict[str, list[Any]] = {}
    for ack in publish.acks:
        attempts.setdefault(ack.subtask.chain, []).append(ack.attempt)
        for owner, watermark in {**ack.marks, ack.subtask.chain: ack.watermark}.items():
            watermarks.setdefault(owner, []).append(watermark)
            if owner in makers:
                times.setdefault(owner, []).append(ack.times.get(owner))
        for sink, data in ack.committables.items():
            of_sink = committables.setdefault(sink, {}) if data else {}
            if ack.subtask.subtask in of_sink:
                raise CheckpointError(f"sink {sink} has committables of two chains for subtask {ack.subtask.subtask}")
            of_sink[ack.subtask.subtask] = data
    pieces = (*of_sources, *(piece for ack in publish.acks for piece in ack.pieces))
    runs = head.runs if runs is None else runs
    if pieces:
        runs = (*runs, RunRef(publish.epoch, slot=slot, bytes=sum(piece.length for piece in pieces)))
    if operators is None:
        operators_slot = head.operators_slot or (head.slot if head.operators else None)
    else:
        operators_slot = None
    return Manifest(
        kind="epoch",
        job_id=head.job_id,
        lineage=head.lineage,
        slot=slot,
        epoch=publish.epoch,
        rerun=publish.rerun,
        clock=clock,
        finished=finished,
        parallelism=dict(publish.parallelism),
        max_parallelism=head.max_parallelism if max_parallelism is None else max_parallelism,
        attempts={chain: tuple(values) for chain, values in attempts.items()},
        watermarks={chain: tuple(values) for chain, values in watermarks.items()},
        times={owner: tuple(values) for owner, values in times.items()},
        next_timer=min((ack.next_timer for ack in publish.acks if ack.next_timer is not None), default=None),
        sources=head.sources if sources is None else sources,
        spark=head.spark if spark is None else spark or None,
        pieces=pieces,
        runs=runs,
        committables=committables,
        operators=operators or {},
        metrics=dict(metrics or {}),
        operators_slot=operators_slot,
        checkpoints=(*head.checkpoints, slot)[-retain:] if checkpoint else head.checkpoints,
        history=head.history,
    )


def should_skip(head: Manifest | None, batch_id: int, offsets: str) -> bool:
    """Whether Spark's batch is a replay of one that is already part of the committed state ``head``, and must not run.

    A batch older than the head's is skipped. The head's own batch is skipped if its offsets are byte-equal. The next
    batch is run. Anything else (different offsets for a committed batch, a gap) would lose or repeat input and raises
    :class:`CheckpointError`.
    """
    spark = head.spark if head is not None else None
    last = int(spark["batch_id"]) if spark and spark.get("batch_id") is not None else -1
    if batch_id < 0 or batch_id > last + 1:
        seen = f"batch {last} is the last one committed" if last >= 0 else "no batch has been committed"
        raise CheckpointError(
            f"Spark offers batch {batch_id}, but {seen}: input would be lost. Restore from a checkpoint or savepoint; "
            "do not reuse another query's Spark checkpoint location"
        )
    if batch_id == last + 1:
        return False
    if batch_id == last and spark is not None and spark.get("offsets") != offsets:
        raise CheckpointError(
            f"Spark replays batch {batch_id} with other offsets than those committed with epoch "
            f"{head.epoch if head else '?'}: its offset log is not the one this job was committed with"
        )
    return True


def _name(subtask: SubtaskId) -> str:
    return f"{subtask.chain}[{subtask.subtask}]"
