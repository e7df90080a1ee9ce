"""Rules of the protocol, each broken on purpose: the schedules must find every one of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pytest

from tests.simulation import protocol_driver, protocol_tasks
from tidemill.checkpoint import cleanup, log, protocol, retention
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Ack, Manifest, RunRef, Slot
from tidemill.checkpoint.names import manifest_name, parse_delta
from tidemill.checkpoint.protocol import Publish
from tidemill.checkpoint.storage.api import AlreadyExistsError
from tidemill.checkpoint.versions import runs_after
from tidemill.errors import CheckpointError
from tidemill.runtime.driver import coordinator, snapshots
from tidemill.runtime.driver.coordinator import Coordinator

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def an_epoch_is_published_only_if_it_is_one_consistent_cut(patch: Patch) -> None:
    def judge(expected: Any, edges: Any, acks: Iterable[Ack], *, epoch: Any, rerun: int) -> Publish:
        by_subtask = {(ack.subtask.chain, ack.subtask.subtask): ack for ack in acks}
        return Publish(epoch, rerun, dict(expected), tuple(by_subtask[subtask] for subtask in sorted(by_subtask)))

    patch.setattr(coordinator, "judge", judge)


def what_was_consumed_is_what_was_acked(patch: Patch) -> None:
    patch.setattr(protocol, "_inconsistent", lambda ack, senders, acks: None)


def a_slot_is_created_once(patch: Patch) -> None:
    def claim(self: ManifestLog, slot: Any, data: bytes) -> None:
        self._storage.write(manifest_name(slot), data)

    patch.setattr(ManifestLog, "_claim", claim)


def an_unknown_outcome_is_settled(patch: Patch) -> None:
    def claim(self: ManifestLog, slot: Any, data: bytes) -> Manifest | None:
        try:
            self._storage.create(manifest_name(slot), data)
        except AlreadyExistsError:
            return self.read(slot)
        except CheckpointError:
            return None
        return None

    patch.setattr(ManifestLog, "_claim", claim)


def who_finds_its_slot_taken_stops(patch: Patch) -> None:
    claim = ManifestLog._claim

    def ours(self: ManifestLog, slot: Any, data: bytes) -> None:
        claim(self, slot, data)

    patch.setattr(ManifestLog, "_claim", ours)


def a_claim_looks_whether_it_is_the_last(patch: Patch) -> None:
    find = ManifestLog.last_slot
    claim = ManifestLog._claim

    def claimed(self: ManifestLog, slot: Slot, data: bytes) -> Manifest | None:
        winner = claim(self, slot, data)
        if winner is None:
            self._just_claimed = slot  # type: ignore[attr-defined]
        return winner

    def last_slot(self: ManifestLog) -> Slot | None:
        just = self.__dict__.pop("_just_claimed", None)
        return find(self) if just is None else just

    patch.setattr(ManifestLog, "_claim", claimed)
    patch.setattr(ManifestLog, "last_slot", last_slot)


def takeover_records_stay(patch: Patch) -> None:
    patch.setattr(cleanup.Cleaner, "_is_fence", lambda self, slot: False)


def a_takeover_carries_over_what_is_to_be_committed(patch: Patch) -> None:
    takeover = ManifestLog._takeover

    def without(self: ManifestLog, basis: Manifest | None, slot: Any, lineage: Any, begins: Any) -> Manifest:
        return dataclasses.replace(takeover(self, basis, slot, lineage, begins), committables={})

    patch.setattr(ManifestLog, "_takeover", without)


def the_head_is_found_whatever_a_list_leaves_out(patch: Patch) -> None:
    patch.setattr(log, "find_last", lambda start, exists: start)


def sinks_commit_after_the_manifest(patch: Patch) -> None:
    publish = ManifestLog.publish
    run = Coordinator.run_epoch

    def commit_first(self: Coordinator, inputs: Any) -> Manifest:
        with pytest.MonkeyPatch.context() as inner:

            def published(log_: ManifestLog, manifest: Manifest) -> None:
                if log_ is self.manifests:
                    self._commit(manifest)
                publish(log_, manifest)

            inner.setattr(ManifestLog, "publish", published)
            return run(self, inputs)

    patch.setattr(Coordinator, "run_epoch", commit_first)


def retention_keeps_what_older_runs_refer_to(patch: Patch) -> None:
    names = retention.names_referenced

    def too_few(manifest: Manifest, load: Any, load_snapshot: Any) -> frozenset[str]:
        return names(dataclasses.replace(manifest, runs=manifest.runs[1:]), load, load_snapshot)

    patch.setattr(cleanup, "names_referenced", too_few)


def retention_keeps_the_files_of_snapshots(patch: Patch) -> None:
    names = retention.names_referenced

    def too_few(manifest: Manifest, load: Any, load_snapshot: Any) -> frozenset[str]:
        return frozenset(name for name in names(manifest, load, load_snapshot) if not name.startswith("snapshots/"))

    patch.setattr(cleanup, "names_referenced", too_few)


def retention_keeps_retained_checkpoints(patch: Patch) -> None:
    patch.setattr(cleanup, "kept_slots", lambda head, *, spare=True: (head.slot,))


def retention_keeps_what_the_running_epoch_writes(patch: Patch) -> None:
    plan = retention.plan_retention

    def greedy(
        head: Manifest, referenced: Collection[str], existing: Iterable[str], in_progress: Any, fences: Any
    ) -> tuple[str, ...]:
        existing = [*existing]
        deltas = [name for name in existing if parse_delta(name) is not None and name not in referenced]
        return (*plan(head, referenced, existing, in_progress, fences), *deltas)

    patch.setattr(cleanup, "plan_retention", greedy)


def a_merge_takes_the_place_of_what_it_merged(patch: Patch) -> None:
    def at_the_end(runs: Sequence[RunRef], merged: Sequence[RunRef], result: RunRef) -> tuple[RunRef, ...]:
        return (*(run for run in runs if run not in merged), result)

    patch.setattr(snapshots, "apply_compaction", at_the_end)


def a_batch_is_run_once(patch: Patch) -> None:
    patch.setattr(protocol_driver, "should_skip", lambda head, batch, offsets: False)


def a_version_of_another_lineage_is_looked_up(patch: Patch) -> None:
    def trusting(head: Manifest, version: Any, read: Any) -> Any:
        return runs_after(head, dataclasses.replace(version, lineage=head.lineage, epoch=head.epoch - 1), read)

    patch.setattr(protocol_tasks, "runs_after", trusting)


RULES: dict[str, Break] = {
    rule.__name__: rule
    for rule in (
        an_epoch_is_published_only_if_it_is_one_consistent_cut,
        what_was_consumed_is_what_was_acked,
        a_slot_is_created_once,
        an_unknown_outcome_is_settled,
        who_finds_its_slot_taken_stops,
        a_claim_looks_whether_it_is_the_last,
        takeover_records_stay,
        a_takeover_carries_over_what_is_to_be_committed,
        the_head_is_found_whatever_a_list_leaves_out,
        sinks_commit_after_the_manifest,
        retention_keeps_what_older_runs_refer_to,
        retention_keeps_the_files_of_snapshots,
        retention_keeps_retained_checkpoints,
        retention_keeps_what_the_running_epoch_writes,
        a_merge_takes_the_place_of_what_it_merged,
        a_batch_is_run_once,
        a_version_of_another_lineage_is_looked_up,
    )
}
