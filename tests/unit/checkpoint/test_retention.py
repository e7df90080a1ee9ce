"""Retention: what is needed stays, under any history, any crash and any zombie; what is not needed goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tests.unit.checkpoint.examples import JOB, KilledError, UnreliableStorage, ack, piece
from tidemill import faults
from tidemill.checkpoint.cleanup import Cleaner
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch, Manifest, Piece, RunRef, Slot
from tidemill.checkpoint.names import (
    delta_name,
    lineage_slot,
    manifest_name,
    parse_manifest,
    snapshot_file_name,
    snapshot_id,
)
from tidemill.checkpoint.protocol import Publish, apply_compaction, build_manifest, plan_retention
from tidemill.checkpoint.restore import committed_pieces, pieces_for
from tidemill.checkpoint.retention import waypoints
from tidemill.checkpoint.snapshot_index import SnapshotIndex, write_snapshot_index
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, NotFoundError, Storage
from tidemill.errors import CorruptFileError, FencedError
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP


def nothing() -> tuple[str, ...]:
    return ()


def collect_garbage(
    storage: Storage, log: ManifestLog, in_progress: Callable[[], Collection[str]] = nothing
) -> tuple[str, ...]:
    return Cleaner(storage, log, in_progress).collect()


class PlanningStorage(UnreliableStorage):
    """Keeps what it should delete, for later, while ``planned`` is a list."""

    def __init__(self) -> None:
        super().__init__()
        self.planned: list[str] | None = None

    def delete(self, names: object) -> None:
        if self.planned is not None:
            self.planned.extend(names)  # type: ignore[arg-type]
        else:
            super().delete(names)  # type: ignore[arg-type]


class World:
    """A job with its drivers, living and dead, and what its state should be at every slot that must be restorable."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.storage = PlanningStorage()
        self.log = ManifestLog(self.storage, JOB, token=self.token)
        self.log.open_lineage()
        self.truth: dict[Slot, bytes] = {self.log.head.slot: b""}
        self.running: list[Piece] = []  # files of the epoch that has not been committed yet
        self.compactions: dict[str, tuple[list[RunRef], RunRef | None]] = {}
        self.zombies: list[ManifestLog] = []
        self.plans: list[list[str]] = []
        self.last = Slot(1)

    def token(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    # -- what can happen -----------------------------------------------------------------------------------------

    def write_delta(self) -> None:
        """An attempt of the running epoch writes a file; whether it will count is not known yet."""
        head, data = self.log.head, self.token().encode()
        name = delta_name(head.lineage, Epoch(head.epoch + 1), "count", 0, self.token())
        self.storage.write(name, data)
        self.running.append(piece(data, file=name))

    def commit_epoch(self) -> None:
        head = self.log.head
        pieces = [part for part in self.running if self.random.random() < 0.6]
        if self.random.random() < 0.5:
            pieces.append(piece(self.token().encode()))
        self.running.clear()
        runs = head.runs
        for snapshot, (merged, result) in list(self.compactions.items()):
            if result is not None and self.random.random() < 0.7:
                runs = apply_compaction(runs, merged, result)
                del self.compactions[snapshot]
        epoch = Epoch(head.epoch + 1)
        publish = Publish(epoch, 0, {"count": 1}, (ack("count", 0, epoch=epoch, pieces=pieces),))
        operators = {"version": epoch} if self.random.random() < 0.2 else None
        checkpoint = self.random.random() < 0.3
        self.log.publish(
            build_manifest(head, publish, clock=0, runs=runs, operators=operators, checkpoint=checkpoint, retain=2)
        )
        self.truth[self.log.head.slot] = self.truth[head.slot] + b"".join(self.content(part) for part in pieces)
        self.last = self.log.head.slot

    def begin_compaction(self) -> None:
        busy = {run for merged, _ in self.compactions.values() for run in merged}
        free = [run for run in self.log.head.runs if run not in busy]
        if len(free) < 2 or busy:
            return
        begin = self.random.randrange(len(free) - 1)
        merged = free[begin : self.random.randrange(begin + 2, len(free) + 1)]
        snapshot = snapshot_id(self.log.head.lineage, merged[-1].through, self.token())
        self.compactions[snapshot] = (merged, None)
        for part in range(2):
            self.storage.write(snapshot_file_name(snapshot, part), self.compacted(merged, part))

    def finish_compaction(self) -> None:
        for snapshot, (merged, result) in list(self.compactions.items()):
            if result is None:
                parts = [
                    piece(self.compacted(merged, part), file=snapshot_file_name(snapshot, part)) for part in range(2)
                ]
                index = SnapshotIndex(snapshot, merged[-1].through, tuple(parts))
                self.compactions[snapshot] = (merged, write_snapshot_index(self.storage, index))
            elif self.random.random() < 0.2:
                del self.compactions[snapshot]  # given up

    def take_over(self) -> None:
        """The driver is replaced; half of the time it does not know, and continues with what it was doing."""
        old = self.log
        self.log = ManifestLog(self.storage, JOB, token=self.token)
        self.log.open_lineage()
        self.entered(old, old.head.slot)

    def go_back(self) -> None:
        """The user resumes from an earlier slot that is kept."""
        old = self.log
        slot = self.random.choice([slot for slot in self.restorable() if slot in self.truth])
        self.log = ManifestLog(self.storage, JOB, token=self.token)
        self.log.open_lineage(from_slot=slot)
        self.entered(old, slot)

    def entered(self, old: ManifestLog, basis: Slot) -> None:
        self.zombies.append(old)
        self.running.clear()
        self.compactions.clear()
        self.truth[self.log.head.slot] = self.truth[basis]
        self.last = self.log.head.slot

    def zombie_acts(self) -> None:
        """A former driver tries everything it can: its attempts write files, it publishes, it collects garbage."""
        for zombie in self.zombies:
            head = zombie.head
            self.storage.write(delta_name(head.lineage, Epoch(head.epoch + 1), "count", 0, self.token()), b"late")
            with pytest.raises(FencedError):
                zombie.publish(build_manifest(head, Publish(Epoch(head.epoch + 1), 0, {}, ()), clock=0))
            with pytest.raises(FencedError):
                collect_garbage(self.storage, zombie)

    def plan_only(self) -> None:
        """The driver decides what to delete, and then is stopped for a long time."""
        self.storage.planned = []
        collect_garbage(self.storage, self.log, self.compactions.keys)
        self.plans.append(self.storage.planned)
        self.storage.planned = None

    def carry_out_an_old_plan(self) -> None:
        if self.plans:
            plan = self.plans.pop(self.random.randrange(len(self.plans)))
            self.storage.delete(plan[: self.random.randrange(len(plan) + 1)])

    def collect(self) -> None:
        """Retention, killed between any two deletes half of the time."""
        self.storage.deletes_left = self.random.randrange(6) if self.random.random() < 0.5 else None
        with contextlib.suppress(KilledError):
            collect_garbage(self.storage, self.log, self.compactions.keys)
        self.storage.deletes_left = None

    # -- what must hold ------------------------------------------------------------------------------------------

    def restorable(self) -> list[Slot]:
        """The slots that must be restorable: the head, the one before it, and the retained checkpoints."""
        head = self.log.head
        return sorted({head.slot, *head.checkpoints} | ({Slot(head.slot - 1)} if head.slot > 1 else set()))

    def content(self, part: Piece) -> bytes:
        return part.data if part.data is not None else self.storage.read(part.file or "")

    def compacted(self, merged: list[RunRef], part: int) -> bytes:
        runs = [run for run in committed_pieces(self.storage, self.log, self.log.head) if run[0] in merged]
        data = b"".join(self.content(part) for _, pieces in runs for part in pieces)
        return data[: len(data) // 2] if part == 0 else data[len(data) // 2 :]

    def state_at(self, manifest: Manifest) -> bytes:
        runs = committed_pieces(self.storage, self.log, manifest)
        assert self.log.operators_of(manifest) is not None
        return b"".join(
            reader.read() for _, reader in pieces_for(self.storage, runs, {"count"}, FIRST_GROUP, LAST_GROUP)
        )

    def check(self) -> None:
        reader = ManifestLog(self.storage, JOB)
        self.storage.hidden_from_list = set(self.storage.list()) if self.random.random() < 0.5 else set()
        assert reader.last_slot() == self.last
        self.storage.hidden_from_list = set()
        for slot in self.restorable():
            if slot in self.truth:
                assert self.state_at(reader.read(slot)) == self.truth[slot]

    def check_that_garbage_is_gone(self) -> None:
        collect_garbage(self.storage, self.log, self.compactions.keys)
        head = self.log.head
        needed: set[str] = {part.file for part in self.running if part.file}
        slots = set(waypoints(head.slot))
        slots |= {slot for log in (*self.zombies, self.log) if (slot := lineage_slot(log.head.lineage))}  # fences
        for slot in self.restorable():
            manifest = ManifestLog(self.storage, JOB).read(slot)
            slots |= {slot, *([manifest.operators_slot] if manifest.operators_slot else [])}
            slots |= {run.slot for run in manifest.runs if run.slot}
            needed |= {p.file for _, ps in committed_pieces(self.storage, self.log, manifest) for p in ps if p.file}
            needed |= {f"snapshots/{run.snapshot}.tm" for run in manifest.runs if run.snapshot}
        for name in self.storage.list():
            protected = any(snapshot in name for snapshot in self.compactions)
            assert name in needed or parse_manifest(name) in slots or protected, name
        assert collect_garbage(self.storage, self.log, self.compactions.keys) == ()


STEPS: list[Callable[[World], None]] = [
    World.write_delta, World.write_delta,
    World.commit_epoch, World.commit_epoch, World.commit_epoch, World.commit_epoch,
    World.begin_compaction, World.finish_compaction, World.finish_compaction, World.take_over, World.go_back,
    World.zombie_acts, World.plan_only, World.carry_out_an_old_plan, World.collect, World.collect,
]  # fmt: skip


@settings(max_examples=examples(120), deadline=None)
@given(st.integers(0, 1 << 32))
@example(0)
def test_no_history_loses_anything_that_is_needed(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    for _ in range(random.randrange(10, 80)):
        random.choice(STEPS)(world)
        world.check()
    world.check_that_garbage_is_gone()
    world.check()


def test_a_zombie_finds_its_slot_taken_however_long_it_slept() -> None:
    """Were the takeover record deleted like any old manifest, the zombie would commit into the gap."""
    storage = MemoryStorage()
    zombie = opened(storage)
    commit(zombie)
    successor = opened(storage)
    for _ in range(40):
        commit(successor)
        collect_garbage(storage, successor)
    another = opened(storage)
    for _ in range(40):
        commit(another)
        collect_garbage(storage, another)
    assert not storage.exists(manifest_name(2))
    for sleeper in (zombie, successor):
        with pytest.raises(FencedError):
            commit(sleeper)


@pytest.mark.parametrize("epochs", range(1, 12))
def test_a_driver_that_sleeps_before_its_claim_does_not_claim_a_gap(epochs: int) -> None:
    storage = MemoryStorage()
    living = opened(storage)
    commit(living)

    def meanwhile() -> None:
        for _ in range(epochs):
            commit(living)
        collect_garbage(storage, living)

    late = ManifestLog(storage, JOB)
    with faults.injected(faults.Fault("lineage.before", "call", call=meanwhile)):
        late.open_lineage()
    assert (late.head.slot, late.head.epoch) == (living.head.slot + 1, epochs + 1)
    with pytest.raises(FencedError):
        commit(living)
    commit(late)
    assert opened(storage).head.epoch == epochs + 2


def test_a_driver_taken_over_before_it_has_looked() -> None:
    class Overtaken(MemoryStorage):
        armed = False

        def create(self, name: str, data: bytes) -> None:
            super().create(name, data)
            if self.armed:
                self.armed = False
                self.successor = opened(self)

    storage = Overtaken()
    storage.armed = True
    with pytest.raises(FencedError, match="claimed job wordcount at the same moment"):
        opened(storage)
    commit(storage.successor)


# -- one decision at a time ------------------------------------------------------------------------------------------


def commit(log: ManifestLog, *pieces: Piece, checkpoint: bool = False) -> Manifest:
    epoch = Epoch(log.head.epoch + 1)
    publish = Publish(epoch, 0, {"count": 1}, (ack("count", 0, epoch=epoch, pieces=pieces),))
    log.publish(build_manifest(log.head, publish, clock=0, checkpoint=checkpoint))
    return log.head


def opened(storage: Storage) -> ManifestLog:
    log = ManifestLog(storage, JOB)
    log.open_lineage()
    return log


def test_orphans_go_when_their_epoch_is_over() -> None:
    storage = MemoryStorage()
    log = opened(storage)
    lineage = log.head.lineage
    for epoch in (1, 2):
        storage.write(delta_name(lineage, Epoch(epoch), "count", 0, "loser"), b"")
    commit(log)
    assert collect_garbage(storage, log) == (delta_name(lineage, Epoch(1), "count", 0, "loser"),)
    successor = opened(storage)  # the epoch that was running is dead now
    assert collect_garbage(storage, successor) == (delta_name(lineage, Epoch(2), "count", 0, "loser"),)


def test_what_is_not_ours_is_not_touched() -> None:
    head = Manifest("epoch", JOB, opened(MemoryStorage()).head.lineage, Slot(8), Epoch(7))
    strangers = [
        "README", "state/notes.txt", "state/unknown/000000000001-0123456789abcdef-0-a.tms", "snapshots/mine.tm",
        delta_name("000000000009-newer", Epoch(1), "count", 0, "a"),
        delta_name("000000000001-twin", Epoch(1), "count", 0, "a"),
        snapshot_file_name(snapshot_id("000000000009-newer", 1, "a"), 0), "spark/x/offsets/0", "manifests/7.tm",
    ]  # fmt: skip
    assert plan_retention(head, (), strangers, (), ()) == ()


def test_referrers_go_first() -> None:
    head = Manifest("epoch", JOB, opened(MemoryStorage()).head.lineage, Slot(8), Epoch(7))
    snapshot = snapshot_id(head.lineage, 3, "a")
    delta = delta_name(head.lineage, Epoch(2), "count", 0, "a")
    part = snapshot_file_name(snapshot, 0)
    names = [delta, part, f"snapshots/{snapshot}.tm", *(manifest_name(slot) for slot in (3, 5, 8))]
    expected = (manifest_name(5), manifest_name(3), f"snapshots/{snapshot}.tm", delta, part)
    assert plan_retention(head, (), names, (), ()) == expected
    assert plan_retention(head, (), names, (snapshot,), (Slot(3),)) == (manifest_name(5), delta)
    assert plan_retention(head, expected, names, (), ()) == ()
    with pytest.raises(FencedError, match="another driver took over"):
        plan_retention(head, (), [*names, manifest_name(9)], (), ())


def test_nothing_is_deleted_where_a_kept_manifest_cannot_be_read() -> None:
    storage = MemoryStorage()
    log = opened(storage)
    commit(log, checkpoint=True)
    for _ in range(5):
        commit(log)
    good = storage.read(manifest_name(2))
    storage.write(manifest_name(2), good[:-1])
    before = storage.list()
    with pytest.raises(CorruptFileError):
        collect_garbage(storage, log)
    storage.delete([manifest_name(2)])
    with pytest.raises(NotFoundError):
        collect_garbage(storage, log)
    storage.write(manifest_name(2), good)
    assert storage.list() == before
    storage.write(manifest_name(6), b"damaged")  # the one before the head is a spare: it does not block retention
    assert manifest_name(3) in collect_garbage(storage, log)
    assert storage.exists(manifest_name(2))


def test_a_kill_before_the_deletes() -> None:
    storage = MemoryStorage()
    log = opened(storage)
    for _ in range(4):
        commit(log)
    before = storage.list()
    with faults.injected(faults.Fault("retention.delete")), pytest.raises(faults.InjectedFaultError):
        collect_garbage(storage, log)
    assert storage.list() == before
    assert collect_garbage(storage, log)


class DyingStorage(MemoryStorage):
    """A copy of what another storage holds, whose owner is killed after some more deletes."""

    def __init__(self, other: MemoryStorage, deletes: int | None) -> None:
        super().__init__()
        self._files = dict(other._files)
        self.deletes = deletes

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            if self.deletes == 0:
                raise KilledError
            self.deletes = None if self.deletes is None else self.deletes - 1
            super().delete([name])


@pytest.mark.parametrize("successor", [False, True], ids=["the same driver", "a successor"])
@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_killed_at_any_step_is_finished_by_the_next_one(seed: int, successor: bool) -> None:
    world = World(Random(seed))
    harmless = [World.write_delta, World.commit_epoch, World.begin_compaction, World.finish_compaction, World.take_over]
    for _ in range(60):
        world.random.choice(harmless)(world)

    def swept(deletes: int | None) -> tuple[list[str], int]:
        storage = DyingStorage(world.storage, deletes)
        log = ManifestLog(storage, JOB, token=lambda: "f" * 16)
        log._head = world.log.head
        deleted: tuple[str, ...] = ()
        with contextlib.suppress(KilledError):
            deleted = collect_garbage(storage, log, world.compactions.keys)
        storage.deletes = None
        if successor:
            log.open_lineage()
        collect_garbage(storage, log, world.compactions.keys)
        return storage.list(), len(deleted)

    expected, steps = swept(None)
    assert steps > 5
    for deletes in range(steps):
        assert swept(deletes)[0] == expected


def test_a_long_running_job_keeps_few_files(tmp_path: object) -> None:
    storage = LocalStorage(str(tmp_path), durable=False)
    log = opened(storage)
    for _ in range(300):
        commit(log, checkpoint=log.head.epoch % 10 == 0)
        if log.head.epoch % 7 == 0:
            collect_garbage(storage, log)
            assert len(storage.list()) <= 9 + 1 + 3  # waypoints of 300, the spare, checkpoint and description
