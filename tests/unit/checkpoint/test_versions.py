"""What a worker with an older version must read: never too little, never something twice."""

from __future__ import annotations

from tidemill.checkpoint.model import Epoch, Lineage, Manifest, RunRef, Slot
from tidemill.checkpoint.storage.api import NotFoundError
from tidemill.checkpoint.versions import runs_after
from tidemill.state.keyed.backend import StateVersion


def epoch_run(epoch: int, slot: int | None = None) -> RunRef:
    return RunRef(Epoch(epoch), slot=Slot(epoch + 1 if slot is None else slot))


def snapshot(through: int) -> RunRef:
    return RunRef(Epoch(through), snapshot=f"to-{through}")


def manifest(*runs: RunRef, lineage: str = "new", slot: int = 100, epoch: int = 50) -> Manifest:
    return Manifest("epoch", "job", Lineage(lineage), Slot(slot), Epoch(epoch), runs=runs)


def no_manifest(slot: int) -> Manifest:
    raise NotFoundError(f"slot {slot}")


def of_lineage(lineage: str) -> object:
    return lambda slot: manifest(lineage=lineage, slot=slot)


def test_the_head_itself_needs_nothing() -> None:
    head = manifest(snapshot(3), epoch_run(4))
    assert runs_after(head, StateVersion("new", 100, 50), no_manifest) == ()


def test_only_what_came_later() -> None:
    head = manifest(snapshot(3), epoch_run(4), epoch_run(5), epoch_run(7))
    assert runs_after(head, StateVersion("new", 5, 4), no_manifest) == (epoch_run(5), epoch_run(7))
    # Epoch 6 changed nothing: it is in no run.
    assert runs_after(head, StateVersion("new", 7, 6), no_manifest) == (epoch_run(7),)
    # The snapshot holds all that the version holds, and no more.
    assert runs_after(head, StateVersion("new", 4, 3), no_manifest) == head.runs[1:]


def test_a_snapshot_from_before_and_after_is_not_used() -> None:
    head = manifest(snapshot(3), snapshot(8), epoch_run(9))
    assert runs_after(head, StateVersion("new", 6, 5), no_manifest) is None
    # The second snapshot begins where the version ends.
    assert runs_after(head, StateVersion("new", 4, 3), no_manifest) == head.runs[1:]


def test_a_version_of_another_lineage_must_be_one_of_the_runs() -> None:
    head = manifest(snapshot(3), epoch_run(4), epoch_run(5), epoch_run(6, slot=9))
    version = StateVersion("old", 5, 4)
    assert runs_after(head, version, of_lineage("old")) == head.runs[2:]  # type: ignore[arg-type]
    assert runs_after(head, version, of_lineage("another")) is None  # type: ignore[arg-type]
    assert runs_after(head, version, no_manifest) is None
    # The job went back to epoch 5 and on from there: this epoch 6 never was.
    assert runs_after(head, StateVersion("old", 7, 6), of_lineage("old")) is None  # type: ignore[arg-type]


def test_a_version_from_the_future_is_not_used() -> None:
    assert runs_after(manifest(epoch_run(4)), StateVersion("new", 101, 51), no_manifest) is None


def test_a_snapshot_with_nothing_below_is_for_an_empty_store_only() -> None:
    # What a savepoint of epoch 0 held has been merged with what came later: deletions are not in the snapshot any more.
    head = manifest(snapshot(2), epoch_run(3))
    assert runs_after(head, StateVersion("new", 1, 0), no_manifest) is None
