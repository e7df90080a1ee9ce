"""Background snapshots: merge the deltas of many epochs into fewer files, concurrently with epochs and without delay.

``checkpoint.compaction`` decides which runs are merged. The merge is divided into slices of key groups that read only
immutable files, so that an engine can run them as small tasks on any worker. The result is valid once a manifest refers
to it. Until then it is garbage that the next sweep may delete if the driver that created it dies.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from tidemill.checkpoint.cleanup import Cleaner
from tidemill.checkpoint.compaction import apply_compaction, plan_compaction
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Manifest, Piece, RunRef, Slot
from tidemill.checkpoint.names import snapshot_id
from tidemill.checkpoint.restore import PieceReader, committed_pieces, pieces_for
from tidemill.checkpoint.snapshot_index import SnapshotIndex, write_snapshot_index
from tidemill.checkpoint.storage.storages import Storage
from tidemill.errors import FencedError, TidemillError
from tidemill.faults import reach
from tidemill.runtime.task.merge_task import Slice, merge_slice
from tidemill.runtime.task.pieces import PieceForm
from tidemill.state.files.ttl_merge import CommittedTimes
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP, KeyGroup, key_group_spans

log = logging.getLogger(__name__)

#: Bytes merged by one task: small enough to finish in well under a second.
_SLICE_BYTES = 16 << 20
#: Merges up to this size run in the driver's background thread.
_HERE_BYTES = 1 << 20
#: A sweep for unreferenced files runs after this many epochs at the latest.
_SWEEP_EPOCHS = 32


#: Runs the slices of a merge; returns their pieces in order.
MergeRunner = Callable[[Sequence[Slice]], list[Piece | None]]


class Snapshots:
    """Decides after each epoch whether to merge, runs the merge, and passes the result to the next manifest.

    ``run`` runs the slices. With ``background`` False everything happens inside :meth:`after_epoch` (for simulation).
    ``pinned`` returns the slots of manifests that are being copied, whose files must be kept.
    """

    def __init__(
        self,
        storage: Storage,
        run: MergeRunner | None = None,
        *,
        background: bool = True,
        fan_in: int = 16,
        form: PieceForm | None = None,
        pinned: Callable[[], Collection[Slot]] = tuple,
    ) -> None:
        # configuration
        self._storage = storage
        self._run = run or self._run_here
        self._fan_in = fan_in
        self._form = form or PieceForm()
        self._pinned = pinned
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tidemill-snapshot") if background else None
        # transient
        self._work: Future[None] | None = None
        self._done: tuple[tuple[RunRef, ...], RunRef] | None = None
        self._in_progress: set[str] = set()
        self._adopted = False
        self._failures = 0
        self._retry_at = 0
        self._swept_at = 0
        self._started = 0
        self._cleaner: Cleaner | None = None
        self._lock = threading.Lock()

    def start(self, manifests: ManifestLog) -> None:
        """Start for a new lineage. Leftovers of an earlier driver are swept soon."""
        self._swept_at = manifests.head.epoch - _SWEEP_EPOCHS
        self._started = manifests.head.clock
        self._cleaner = Cleaner(self._storage, manifests, lambda: list(self._in_progress), self._pinned)

    def runs_for(self, head: Manifest) -> tuple[RunRef, ...] | None:
        """The run list of the next manifest if a merge has finished; None if the head's list is unchanged."""
        with self._lock:
            if self._done is None:
                return None
            merged, result = self._done
            return apply_compaction(head.runs, merged, result)

    def after_epoch(self, manifests: ManifestLog) -> None:
        """Start due work after an epoch was committed. A result that the epoch has adopted is complete."""
        head = manifests.head
        with self._lock:
            if self._done is not None and self._done[1] in head.runs:
                self._in_progress.discard(self._done[1].snapshot or "")
                self._done = None
                self._adopted = True
            busy = self._done is not None or (self._work is not None and not self._work.done())
        if busy:
            return
        if head.epoch < self._retry_at:
            return
        plan = plan_compaction(head.runs, self._fan_in)
        sweep = self._adopted or head.epoch - self._swept_at >= _SWEEP_EPOCHS
        if plan is None and not sweep:
            return
        self._adopted = False

        if self._executor is None:
            self._tidy_up(manifests, head, plan, sweep=sweep)
        else:
            self._work = self._executor.submit(self._tidy_up, manifests, head, plan, sweep=sweep)

    def _tidy_up(self, manifests: ManifestLog, head: Manifest, plan: list[RunRef] | None, *, sweep: bool) -> None:
        try:
            if sweep:
                self._swept_at = head.epoch
                if self._cleaner is not None:
                    self._cleaner.collect()
            if plan is not None:
                self._merge(manifests, head, plan)
            self._failures = 0
        except FencedError:
            return  # the next publish detects the takeover too, and stops the job
        except Exception as error:
            expected = isinstance(error, TidemillError)
            if self._executor is None and not expected:
                raise
            # The state is complete without the merge: it is retried, with increasing delays.
            self._failures += 1
            self._retry_at = head.epoch + min(2**self._failures, _SWEEP_EPOCHS)
            trace = None if expected else error
            log.warning("a background snapshot failed and will be tried again: %s", error, exc_info=trace)

    def stop(self) -> None:
        """Wait for work in progress and stop."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def wait(self) -> None:
        """Wait until background work is done (for tests and benchmarks)."""
        if self._work is not None:
            self._work.result()

    def _merge(self, manifests: ManifestLog, head: Manifest, plan: list[RunRef]) -> None:
        snapshot = snapshot_id(head.lineage, plan[-1].through, secrets.token_hex(4))
        self._in_progress.add(snapshot)
        try:
            result = self._make(snapshot, manifests, head, plan)
        except Exception:
            self._give_up(snapshot)
            raise
        reach("snapshot.published")
        with self._lock:
            self._done = (tuple(plan), result)

    def _give_up(self, snapshot: str) -> None:
        """Let the next sweep delete the files of a snapshot that failed."""
        self._in_progress.discard(snapshot)

    def _make(self, snapshot: str, manifests: ManifestLog, head: Manifest, plan: list[RunRef]) -> RunRef:
        runs = committed_pieces(self._storage, manifests, replace(head, runs=tuple(plan)))
        slices = self._slices(snapshot, runs, head, keep_deletes=plan[0] != head.runs[0])
        # A merge of a few kilobytes takes less time than sending it to workers.
        small = sum(run.bytes for run in plan) <= _HERE_BYTES
        merged = self._run_here(slices) if small else self._run(slices)
        pieces = tuple(piece for piece in merged if piece is not None)
        return write_snapshot_index(self._storage, SnapshotIndex(snapshot, plan[-1].through, pieces))

    def _run_here(self, slices: Sequence[Slice]) -> list[Piece | None]:
        return [merge_slice(self._storage, part) for part in slices]

    def _slices(
        self, snapshot: str, runs: list[tuple[RunRef, list[Piece]]], head: Manifest, *, keep_deletes: bool
    ) -> list[Slice]:
        operators = {section.operator for _, pieces in runs for piece in pieces for section in piece.sections}
        total = sum(run.bytes for run, _ in runs)
        count = max(1, -(-total // _SLICE_BYTES))
        limits = {operator: head.max_parallelism[operator] for operator in operators}
        times = CommittedTimes(
            head.clock, self._started, {operator: min(marks) for operator, marks in head.watermarks.items() if marks}
        )
        spans = {operator: key_group_spans(limit, count) for operator, limit in limits.items()}
        slices = []
        for number in range(count):
            ranges = {operator: parts[number] for operator, parts in spans.items()}
            slices.append(
                Slice(
                    number,
                    snapshot,
                    ranges,
                    limits,
                    tuple(_readers(self._storage, runs, ranges)),
                    keep_deletes,
                    self._form,
                    times,
                )
            )
        return slices


def _readers(
    storage: Storage, runs: list[tuple[RunRef, list[Piece]]], ranges: dict[str, tuple[KeyGroup, KeyGroup]]
) -> Iterable[PieceReader]:
    """Readers of the pieces that contain data of any of the ranges, in load order."""
    seen: set[int] = set()
    wanted: set[int] = set()
    for operator, (first, last) in ranges.items():
        wanted.update(id(piece) for piece, _ in pieces_for(storage, runs, {operator}, first, last))
    for piece, reader in pieces_for(storage, runs, set(ranges), FIRST_GROUP, LAST_GROUP):
        if id(piece) in wanted and id(piece) not in seen:
            seen.add(id(piece))
            yield reader
