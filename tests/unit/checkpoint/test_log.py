"""The manifest log: finding the head, taking over, publishing, and everything that can come between."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.checkpoint.examples import JOB, UnreliableStorage, counting_tokens, full_manifest, piece
from tidemill import faults
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.manifest import decode_manifest, encode_manifest
from tidemill.checkpoint.model import Epoch, Manifest, RunRef, Slot
from tidemill.checkpoint.names import lineage_id, lineage_slot, manifest_name, snapshot_id
from tidemill.checkpoint.retention import find_last, waypoints
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, Storage
from tidemill.errors import CheckpointError, CheckpointOwnershipError, CorruptFileError, FencedError


def following(head: Manifest, **changes: Any) -> Manifest:
    """The manifest of an epoch after ``head``, with one inline piece."""
    slot, epoch = Slot(head.slot + 1), Epoch(head.epoch + 1)
    runs = (*head.runs, RunRef(epoch, slot=slot, bytes=5))
    base = replace(head, kind="epoch", slot=slot, epoch=epoch, runs=runs, pieces=(piece(),), operators={})
    return replace(base, **{"operators_slot": head.operators_slot or head.slot, **changes})


def opened(storage: Storage, epochs: int = 0) -> ManifestLog:
    """A log with a lineage of its own and this many epochs."""
    log = ManifestLog(storage, JOB)
    log.open_lineage()
    for _ in range(epochs):
        log.publish(following(log.head))
    return log


def damage(storage: Storage, slot: int) -> None:
    data = bytearray(storage.read(manifest_name(slot)))
    data[40] ^= 1
    storage.write(manifest_name(slot), bytes(data))


def test_a_new_job() -> None:
    storage = MemoryStorage()
    log = ManifestLog(storage, JOB)
    assert log.last_slot() is None
    assert log.read_head() is None
    with pytest.raises(CheckpointError, match="no lineage is open"):
        _ = log.head
    lineage, restored = log.open_lineage()
    assert restored is None
    assert (log.head.kind, log.head.slot, log.head.epoch, log.head.lineage) == ("takeover", 1, 0, lineage)
    assert lineage_slot(lineage) == 1
    log.publish(following(log.head))
    assert log.read_head() == log.head
    assert storage.list() == [manifest_name(1), manifest_name(2)]


def test_a_takeover_carries_everything_but_the_attempts() -> None:
    storage = MemoryStorage()
    first = ManifestLog(storage, JOB)
    first.open_lineage()
    described = following(first.head, operators={"count": {"state": "value"}}, operators_slot=None)
    first.publish(described)
    last = replace(full_manifest(), lineage=first.head.lineage, slot=Slot(3), operators={}, operators_slot=Slot(2))
    first.publish(last)
    second = ManifestLog(storage, JOB)
    lineage, restored = second.open_lineage()
    assert restored == last
    assert second.head == replace(
        last, kind="takeover", lineage=lineage, slot=Slot(4), rerun=0, attempts={}, pieces=(),
        operators={"count": {"state": "value"}}, operators_slot=None,
    )  # fmt: skip
    assert second.head.committables == last.committables  # they may not have been committed yet
    assert second.read_head() == second.head
    third = ManifestLog(storage, JOB)
    third.open_lineage()
    assert replace(third.head, slot=Slot(4), lineage=lineage) == second.head


def test_a_zombie_cannot_publish_after_a_takeover() -> None:
    storage = MemoryStorage()
    zombie = opened(storage, epochs=2)
    successor = opened(storage)
    before = storage.list()
    for _ in range(2):  # it stays fenced
        with pytest.raises(
            FencedError, match=f"taken over by lineage {successor.head.lineage}.*did not commit epoch 3"
        ):
            zombie.publish(following(zombie.head))
    assert storage.list() == before
    successor.publish(following(successor.head))
    with pytest.raises(FencedError):
        zombie.publish(following(zombie.head))


def test_a_driver_may_open_again_after_it_was_fenced() -> None:
    storage = MemoryStorage()
    first = opened(storage)
    opened(storage, epochs=1)
    with pytest.raises(FencedError):
        first.publish(following(first.head))
    first.open_lineage()
    first.publish(following(first.head))
    assert first.head.epoch == 2


def test_a_takeover_follows_a_driver_that_is_still_publishing() -> None:
    storage = MemoryStorage()
    living = opened(storage, epochs=1)
    successor = ManifestLog(storage, JOB)
    again = faults.Fault("lineage.before", "call", times=3, call=lambda: living.publish(following(living.head)))
    with faults.injected(again):
        _, restored = successor.open_lineage()
    assert restored == living.head
    assert successor.head.epoch == 4
    with pytest.raises(FencedError):
        living.publish(following(living.head))


def test_a_takeover_gives_up_on_a_driver_that_never_rests() -> None:
    storage = MemoryStorage()
    living = opened(storage)
    again = faults.Fault("lineage.before", "call", times=1000, call=lambda: living.publish(following(living.head)))
    with faults.injected(again), pytest.raises(CheckpointError, match="stop that driver first"):
        ManifestLog(storage, JOB).open_lineage()


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_of_drivers_that_start_together_one_wins(kind: str, tmp_path: Path) -> None:
    storage: Storage = MemoryStorage() if kind == "memory" else LocalStorage(tmp_path, durable=False)
    opened(storage, epochs=1)
    for _ in range(5):
        outcomes: list[ManifestLog | FencedError] = []
        start = threading.Barrier(4)

        def claim(outcomes: list[ManifestLog | FencedError], start: threading.Barrier) -> None:
            def token() -> str:
                start.wait()  # all have read the same head
                return f"{threading.get_ident():016x}"

            log = ManifestLog(storage, JOB, token=token)
            try:
                log.open_lineage()
            except FencedError as error:
                outcomes.append(error)
            else:
                outcomes.append(log)

        threads = [threading.Thread(target=claim, args=(outcomes, start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [outcome for outcome in outcomes if isinstance(outcome, ManifestLog)]
        assert len(outcomes) == 4
        assert len(winners) == 1
        winners[0].publish(following(winners[0].head))


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_of_drivers_that_race_for_a_slot_one_wins(kind: str, tmp_path: Path) -> None:
    """An old driver publishes while a new one takes over, again and again: every slot has one owner, none is lost."""
    storage: Storage = MemoryStorage() if kind == "memory" else LocalStorage(tmp_path, durable=False)
    committed: list[Slot] = []
    start = threading.Barrier(3)

    def drive(rounds: int) -> None:
        log = ManifestLog(storage, JOB)
        start.wait()
        for _ in range(rounds):
            try:
                log.open_lineage()
                for _ in range(3):
                    log.publish(following(log.head))
                    committed.append(log.head.slot)
            except FencedError:
                continue

    threads = [threading.Thread(target=drive, args=(8,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = ManifestLog(storage, JOB)
    last = log.last_slot()
    assert last is not None
    story = [log.read(slot) for slot in range(1, last + 1)]
    assert sorted(committed) == [manifest.slot for manifest in story if manifest.kind == "epoch"]
    assert story[-1].epoch == len(committed)
    assert [run.slot for run in story[-1].runs] == sorted(committed)
    for before, after in itertools.pairwise(story):
        assert after.epoch == before.epoch + (after.kind == "epoch")
        assert after.kind == "takeover" or after.lineage == before.lineage


def test_an_unknown_outcome_is_settled_by_asking_again() -> None:
    storage = UnreliableStorage()
    storage.creates = ["unknown"]
    log = opened(storage)
    storage.creates = ["unknown"]
    log.publish(following(log.head))
    storage.creates = ["lost"]
    log.publish(following(log.head))
    assert log.head.epoch == 2
    assert len(storage.list()) == 3
    storage.creates = ["lost", "unknown"]  # both tries fail; the second one succeeded without our knowing
    manifest = following(log.head)
    with pytest.raises(CheckpointError, match="timeout after"):
        log.publish(manifest)
    assert log.head.epoch == 2
    log.publish(manifest)
    assert log.head.epoch == 3
    assert log.read_head() == manifest


def test_another_run_after_an_unknown_outcome_is_void() -> None:
    storage = UnreliableStorage()
    log = opened(storage)
    storage.creates = ["lost", "unknown"]
    with pytest.raises(CheckpointError):
        log.publish(following(log.head))
    with pytest.raises(CheckpointError, match=r"already committed by this driver as rerun 0.*rerun 1 is void"):
        log.publish(following(log.head, rerun=1))
    assert opened(storage).head.epoch == 1


def test_a_manifest_must_follow_the_head() -> None:
    log = opened(MemoryStorage(), epochs=1)
    for changes in ({"slot": Slot(4)}, {"lineage": "000000000009-f"}, {"job_id": "x"}, {"slot": Slot(2)}):
        with pytest.raises(CheckpointError, match="cannot follow"):
            log.publish(following(log.head, **changes))


def test_another_jobs_directory_is_refused() -> None:
    storage = MemoryStorage()
    opened(storage)
    with pytest.raises(CheckpointOwnershipError, match=r"belongs to job 'wordcount'.*not to job 'other'"):
        ManifestLog(storage, "other").open_lineage()
    assert storage.list() == [manifest_name(1)]


def test_a_damaged_head_is_named_and_an_earlier_slot_offered_never_taken() -> None:
    storage = MemoryStorage()
    opened(storage, epochs=3)
    damage(storage, 4)
    before = storage.list()
    for _ in range(2):
        with pytest.raises(
            CorruptFileError, match=rf"{manifest_name(4)} is corrupt at offset 24.*job with /chk-2 appended"
        ):
            ManifestLog(storage, JOB).open_lineage()
    assert storage.list() == before
    log = ManifestLog(storage, JOB)
    _, restored = log.open_lineage(from_slot=3)
    assert restored == log.read(3)
    assert (log.head.slot, log.head.epoch) == (5, 2)
    log.publish(following(log.head))
    assert (log.head.slot, log.head.epoch) == (6, 3)
    assert opened(storage).head.epoch == 3


def test_only_a_slot_that_can_be_restored_is_offered() -> None:
    storage = MemoryStorage()
    log = opened(storage, epochs=2)
    storage.write("state/x", b"delta")
    log.publish(following(log.head, pieces=(piece(file="state/x"),)))
    log.publish(following(log.head))
    log.publish(following(log.head))
    damage(storage, 6)
    damage(storage, 5)
    storage.delete(["state/x"])
    with pytest.raises(CorruptFileError, match=r"slot 3 \(epoch 2\)"):
        log.read_head()
    with pytest.raises(CheckpointError, match=r"slot 4 .*cannot be restored.*among them state/x"):
        ManifestLog(storage, JOB).open_lineage(from_slot=4)
    for slot in (0, 7):
        with pytest.raises(CheckpointError, match=f"no slot {slot}"):
            ManifestLog(storage, JOB).open_lineage(from_slot=slot)
    for slot in range(1, 5):
        damage(storage, slot)
    with pytest.raises(CorruptFileError, match="No earlier manifest can be restored"):
        log.read_head()


def test_a_swapped_manifest_is_noticed() -> None:
    storage = MemoryStorage()
    log = opened(storage, epochs=2)
    storage.write(manifest_name(3), storage.read(manifest_name(2)))
    with pytest.raises(CorruptFileError, match="contains the manifest of slot 2"):
        log.read(3)


def test_a_missing_description_of_the_operators() -> None:
    storage = MemoryStorage()
    log = opened(storage, epochs=1)
    assert log.operators_of(log.head) == {}
    storage.delete([manifest_name(1)])
    with pytest.raises(CorruptFileError, match=f"{manifest_name(1)} is missing, but {manifest_name(2)} refers to it"):
        log.operators_of(log.head)


def test_a_job_that_starts_from_a_savepoint() -> None:
    storage = MemoryStorage()
    snapshot = RunRef(Epoch(8), snapshot=snapshot_id(lineage_id(0, "saved"), 8, "abc"), bytes=9)
    saved = replace(full_manifest(), job_id="elsewhere", pieces=(), runs=(snapshot,), operators_slot=None)
    log = ManifestLog(storage, JOB)
    _, restored = log.open_lineage(initial=saved)
    assert restored == saved
    assert (log.head.job_id, log.head.slot, log.head.epoch, log.head.runs) == (JOB, 1, 8, (snapshot,))
    with pytest.raises(CheckpointError, match="has checkpoints already"):
        ManifestLog(storage, JOB).open_lineage(initial=saved)
    with pytest.raises(CheckpointError, match="must be in snapshots"):
        ManifestLog(MemoryStorage(), JOB).open_lineage(initial=full_manifest())


def test_a_history_that_has_started_is_not_started_again() -> None:
    storage = MemoryStorage()
    opened(storage, epochs=3)
    snapshot = RunRef(Epoch(8), snapshot=snapshot_id(lineage_id(0, "saved"), 8, "abc"), bytes=9)
    saved = replace(full_manifest(), job_id="elsewhere", pieces=(), runs=(snapshot,), operators_slot=None)
    begins = {"id": "savepoint 1", "path": "/saved"}
    first = ManifestLog(storage, JOB)
    assert first.open_lineage(initial=saved, begins=begins).restored == saved
    first.publish(following(first.head))
    second = ManifestLog(storage, JOB)
    assert second.open_lineage(initial=saved, begins=begins).restored == first.head
    assert (second.head.epoch, second.head.history) == (9, first.head.history)
    third = ManifestLog(storage, JOB)
    assert third.open_lineage(initial=saved, begins={**begins, "id": "savepoint 2"}).restored == saved
    assert third.head.epoch == 8


@pytest.mark.parametrize("point", ["lineage.before", "lineage.after", "manifest.before", "manifest.after"])
def test_a_driver_killed_at_each_point(point: str) -> None:
    storage = MemoryStorage()
    opened(storage, epochs=1)
    with faults.injected(faults.Fault(point)), pytest.raises(faults.InjectedFaultError):
        opened(storage, epochs=1)
    assert opened(storage, epochs=1).head.epoch == (3 if point == "manifest.after" else 2)


def test_tokens_make_a_run_repeatable() -> None:
    contents = []
    for _ in range(2):
        storage = MemoryStorage()
        log = ManifestLog(storage, JOB, token=counting_tokens())
        log.open_lineage()
        log.publish(following(log.head))
        contents.append({name: storage.read(name) for name in storage.list()})
    assert contents[0] == contents[1]


def test_a_list_that_leaves_names_out_does_not_mislead() -> None:
    storage = UnreliableStorage()
    log = opened(storage, epochs=20)
    for visible in ([], [1], [1, 2, 3], [16], [20]):
        storage.hidden_from_list = {manifest_name(slot) for slot in range(1, 22) if slot not in visible}
        assert log.last_slot() == 21
    storage.delete([manifest_name(slot) for slot in range(1, 21) if slot not in waypoints(21)])
    assert storage.hidden_from_list
    for visible in ([], [16], [20]):
        storage.hidden_from_list = {manifest_name(slot) for slot in range(1, 22) if slot not in visible}
        assert log.last_slot() == 21


@given(st.integers(0, 5000), st.data())
def test_the_last_slot_is_found_from_its_waypoints_alone(last: int, data: st.DataObject) -> None:
    kept = waypoints(last)
    start = data.draw(st.sampled_from([0, *sorted(kept)]))
    others = data.draw(st.frozensets(st.integers(1, max(1, last)), max_size=5)) if last else frozenset()
    assert find_last(start, lambda slot: slot in kept or slot in others) == last


@given(st.integers(1, 1 << 39), st.integers(0, 1 << 20))
def test_waypoints_needed_later_are_kept_today(today: int, more: int) -> None:
    assert {slot for slot in waypoints(today + more) if slot <= today} <= waypoints(today)
    assert len(waypoints(today)) <= 40


def test_what_is_in_the_slot_is_what_was_published() -> None:
    storage = MemoryStorage()
    log = opened(storage, epochs=1)
    data = storage.read(manifest_name(2))
    assert decode_manifest(data, "m") == log.head
    assert encode_manifest(log.head) == data


def test_a_driver_finds_out_that_it_was_taken_over_without_publishing() -> None:
    storage = MemoryStorage()
    zombie = opened(storage, epochs=2)
    zombie.check_owner()
    successor = opened(storage)
    with pytest.raises(FencedError, match=f"taken over by lineage {successor.head.lineage}"):
        zombie.check_owner()
    successor.check_owner()


def test_a_description_that_another_driver_cleaned_up_is_not_taken_for_damage() -> None:
    storage = MemoryStorage()
    log = opened(storage, epochs=2)
    found = log.head
    opened(storage, epochs=1)
    storage.delete([manifest_name(found.operators_slot or 0)])
    with pytest.raises(CheckpointError, match="is no longer the head: slot 5 is") as caught:
        log.operators_of(found)
    assert not isinstance(caught.value, CorruptFileError)
