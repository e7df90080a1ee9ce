"""Bugs of the engine, put in on purpose: the simulation must find each one. Rules of the protocol are in ``rules``."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tidemill.checkpoint import restore
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.protocol import Publish, build_manifest
from tidemill.connectors.sinks import Committed
from tidemill.connectors.write_ahead_log import LogCommitter, Mark, parse_committable
from tidemill.runtime.batch.records import MIN_TIME
from tidemill.runtime.driver import coordinator
from tidemill.runtime.driver.snapshots import Snapshots
from tidemill.runtime.exchange import parcels
from tidemill.runtime.task import merge_task, warm
from tidemill.runtime.task.chain import Chain
from tidemill.runtime.task.sink_log import StoredSinkLog
from tidemill.runtime.task.task import EpochTask
from tidemill.runtime.task.warm import WarmChains
from tidemill.state.files.rows import PUT, Rows
from tidemill.state.keyed.tables import MapTable
from tidemill.state.keyed.timers import TimerQueue, timer_rows, timers_of
from tidemill.state.merging import merge_sections
from tidemill.testing.simulation.output import OutputSystem

Patch = pytest.MonkeyPatch
Bug = Callable[[Patch], None]


def go_on_from_any_attempt(patch: Patch) -> None:
    def take(self: WarmChains, job_id: str, plan: Any, subtask: int, context: Any) -> Chain | None:
        found = self._chains.pop((job_id, plan.id, subtask), None)
        if found is None or found.lineage != context.lineage or found.epoch >= context.epoch:
            return None
        found.chain.fold()
        return found.chain

    patch.setattr(WarmChains, "take", take)


def go_on_after_a_takeover(patch: Patch) -> None:
    def take(self: WarmChains, job_id: str, plan: Any, subtask: int, context: Any) -> Chain | None:
        found = self._chains.pop((job_id, plan.id, subtask), None)
        if found is None or found.chain.parallelism != context.parallelism[plan.id]:
            return None
        named = context.attempts.get(plan.id)
        if named is not None and named[subtask] != found.attempt:
            return None
        found.chain.fold()
        return found.chain

    patch.setattr(WarmChains, "take", take)


def forget_timers_in_deltas(patch: Patch) -> None:
    patch.setattr(TimerQueue, "export_delta", lambda self: None)


def forget_fired_timers_in_deltas(patch: Patch) -> None:
    export = TimerQueue.export_delta

    def without_deletes(self: TimerQueue) -> Rows | None:
        rows = export(self)
        if rows is None:
            return None
        return timer_rows((timer, op) for timer, op in timers_of(rows) if op == PUT)

    patch.setattr(TimerQueue, "export_delta", without_deletes)


def forget_to_fold(patch: Patch) -> None:
    patch.setattr(Chain, "fold", lambda self, *_, **__: [backend.discard() for backend in self.backends])


def name_attempts_by_their_task(patch: Patch) -> None:
    init = EpochTask.__init__

    def named(self: EpochTask, bundle: Any, context: Any, level: int, partition: int, chains: WarmChains) -> None:
        init(self, bundle, context, level, partition, chains)
        self._attempt = uuid.uuid5(uuid.NAMESPACE_OID, f"{context.lineage} {context.epoch} {level} {partition}")

    patch.setattr(EpochTask, "__init__", named)


def discard_what_a_newer_lineage_prepared(patch: Patch) -> None:
    discard = OutputSystem.discard
    patch.setattr(OutputSystem, "discard", lambda self, sink, in_use, lineage: discard(self, sink, in_use, "~"))


def forget_clocks_on_a_cold_start(patch: Patch) -> None:
    restore_watermarks = Chain.restore_watermarks
    patch.setattr(
        Chain,
        "restore_watermarks",
        lambda self, watermark, marks: (
            restore_watermarks(self, watermark, marks)
            if self.head.current_watermark > MIN_TIME
            else restore_watermarks(self, MIN_TIME, {})
        ),
    )


def drop_tombstones_in_every_merge(patch: Patch) -> None:
    patch.setattr(
        merge_task,
        "merge_sections",
        lambda sections, limits, keep, *more: merge_sections(sections, limits, False, *more),
    )


def merge_the_newest_first(patch: Patch) -> None:
    patch.setattr(
        merge_task,
        "merge_sections",
        lambda sections, limits, keep, *more: merge_sections(list(sections)[::-1], limits, keep, *more),
    )


def load_the_newest_run_only(patch: Patch) -> None:
    pieces = restore.committed_pieces
    patch.setattr(warm, "committed_pieces", lambda *args: pieces(*args)[-1:])


def load_the_first_key_group_only(patch: Patch) -> None:
    pieces_for = restore.pieces_for
    patch.setattr(
        warm,
        "pieces_for",
        lambda storage, runs, operators, first, last: pieces_for(storage, runs, operators, first, first),
    )


def store_the_position_before_the_epoch(patch: Patch) -> None:
    def late(head: Manifest, publish: Publish, **options: Any) -> Manifest:
        return build_manifest(head, publish, **{**options, "sources": head.sources or options["sources"]})

    patch.setattr(coordinator, "build_manifest", late)


def read_parcels_as_they_come(patch: Patch) -> None:
    def settle(tied: list[Any]) -> Any:
        for header, parcel in tied:
            yield header, memoryview(parcel)[parcels.HEADER_SIZE :]

    patch.setattr(parcels, "_settle", settle)


def keep_no_order_of_maps_in_merges(patch: Patch) -> None:
    replay = MapTable.replay

    def forgetful(self: MapTable, rows: Rows) -> None:
        replay(self, rows)
        for layer in self._touched.values():
            for change in layer.overlay.values():
                change.moved = None

    patch.setattr(MapTable, "replay", forgetful)


def leave_failed_merges_behind(patch: Patch) -> None:
    patch.setattr(Snapshots, "_give_up", lambda self, snapshot: None)


def deliver_whatever_the_mark_says(patch: Patch) -> None:
    patch.setattr(Mark, "covers", lambda self, other: False)


def take_marks_of_one_lineage_only(patch: Patch) -> None:
    patch.setattr(Mark, "covers", lambda self, other: self.lineage == other.lineage and self.epoch >= other.epoch)


def clear_the_log_before_it_is_delivered(patch: Patch) -> None:
    commit = LogCommitter.commit

    def hasty(self: LogCommitter, committed: Sequence[Committed]) -> None:
        files = [
            file["name"]
            for part in committed
            for data in part.committables
            for file in parse_committable(data)[0]["parts"]
        ]
        known = {name: self._files().read(name) for name in files if self._files().exists(name)}
        self._delete(files)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(StoredSinkLog, "read", lambda log, name: known[name])
            commit(self, committed)

    patch.setattr(LogCommitter, "commit", hasty)


def clear_a_log_that_is_in_use(patch: Patch) -> None:
    leftovers = StoredSinkLog.leftovers
    patch.setattr(StoredSinkLog, "leftovers", lambda self, in_use, lineage: leftovers(self, (), lineage))


BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        go_on_from_any_attempt,
        go_on_after_a_takeover,
        forget_timers_in_deltas,
        forget_fired_timers_in_deltas,
        forget_to_fold,
        name_attempts_by_their_task,
        discard_what_a_newer_lineage_prepared,
        forget_clocks_on_a_cold_start,
        drop_tombstones_in_every_merge,
        merge_the_newest_first,
        load_the_newest_run_only,
        load_the_first_key_group_only,
        store_the_position_before_the_epoch,
        read_parcels_as_they_come,
        keep_no_order_of_maps_in_merges,
        leave_failed_merges_behind,
        deliver_whatever_the_mark_says,
        take_marks_of_one_lineage_only,
        clear_the_log_before_it_is_delivered,
        clear_a_log_that_is_in_use,
    )
}
