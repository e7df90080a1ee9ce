"""Checkpoints of a job: which epochs are checkpoints, how many failures are tolerated, and the checkpoint history.

Every epoch commits. A *checkpoint* is an epoch boundary that is retained, listed and announced to listeners. Most of
Flink's settings therefore select epochs instead of triggering anything: ``interval`` and ``min-pause`` determine how
far apart checkpoints are (without an interval each epoch is one), ``num-retained`` how many are kept. A failed
checkpoint costs only time: its epoch runs again from its start.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tidemill.checkpoint.model import Epoch, Manifest, Slot
from tidemill.common.configuration import Configuration
from tidemill.common.reports.checkpoint_statistics import (
    CheckpointHistory,
    CheckpointStatistics,
    CheckpointStatus,
    SubtaskCheckpoint,
)
from tidemill.config import CheckpointingOptions
from tidemill.errors import CheckpointError, CheckpointOwnershipError, ConfigurationError, CorruptFileError
from tidemill.runtime.driver.deadline import Deadline, DeadlineExceededError

log = logging.getLogger(__name__)

#: Checkpoint failures that a retry cannot fix.
_FINAL = (CheckpointOwnershipError, CorruptFileError)
_LONGEST_PAUSE = 5.0
#: For how many of the newest checkpoints it is known what each subtask contributed.
_DETAILED = 100


@dataclass(frozen=True)
class CheckpointSettings:
    """The checkpoint options of a job; times in seconds."""

    interval: float = 0.0
    min_pause: float = 0.0
    timeout: float | None = None
    tolerable_failures: int = 0
    retain: int = 1
    history_size: int = 10
    max_state_size: int | None = None

    @classmethod
    def of(cls, configuration: Configuration) -> CheckpointSettings:
        """The settings of a configuration.

        The timeout applies only if it is set: an epoch that takes long usually has a lot of input and does not hang.
        """
        get = configuration.get
        interval = get(CheckpointingOptions.INTERVAL)
        return cls(
            interval=0.0 if interval is None else interval.total_seconds(),
            min_pause=get(CheckpointingOptions.MIN_PAUSE).total_seconds(),
            timeout=get(CheckpointingOptions.TIMEOUT).total_seconds()
            if configuration.contains(CheckpointingOptions.TIMEOUT)
            else None,
            tolerable_failures=get(CheckpointingOptions.TOLERABLE_FAILED),
            retain=get(CheckpointingOptions.NUM_RETAINED),
            history_size=get(CheckpointingOptions.HISTORY_SIZE),
            max_state_size=get(CheckpointingOptions.JOBMANAGER_MAX_STATE_SIZE)
            if get(CheckpointingOptions.STORAGE) == "jobmanager"
            else None,
        )


class Checkpointing:
    """The checkpoints of one job, over all its executions.

    Other threads than the job's may call only :meth:`history`, :meth:`saved` and :meth:`not_saved`.
    """

    def __init__(
        self,
        settings: CheckpointSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], bool | None] = time.sleep,
    ) -> None:
        # configuration
        self._settings = settings or CheckpointSettings()
        self._clock = clock
        self._pause = pause
        # transient
        self._begun: float | None = None
        self._last_started: float | None = None
        self._last_ended: float | None = None
        self._failures_in_a_row = 0
        self._completed = 0
        self._failed = 0
        self._restored: CheckpointStatistics | None = None
        self._latest_savepoint: CheckpointStatistics | None = None
        self._entries: deque[tuple[Slot | None, CheckpointStatistics]] = deque(maxlen=self._settings.history_size)
        self._retained: frozenset[Slot] = frozenset()
        self._lock = threading.Lock()

    @property
    def retain(self) -> int:
        """How many checkpoints are kept."""
        return self._settings.retain

    def begin(self, *, last: bool) -> bool:
        """Begin an epoch; return whether it is a checkpoint. The ``last`` one of a job, and the first one of a driver,
        always are."""
        self._begun = self._clock()
        return last or self._next_at() <= self._begun

    def seconds_to_next(self, *, checkpoint: bool) -> float | None:
        """How long after the start of the current epoch the next checkpoint is due.

        ``checkpoint`` is what :meth:`begin` has returned for the current epoch. Returns None if each epoch is a
        checkpoint.
        """
        longest = max(self._settings.interval, self._settings.min_pause)
        if not longest:
            return None
        return longest if checkpoint or self._begun is None else max(0.0, self._next_at() - self._begun)

    def _next_at(self) -> float:
        """The time from which an epoch is a checkpoint."""
        if self._last_started is None or self._last_ended is None:
            return -math.inf
        return max(self._last_started + self._settings.interval, self._last_ended + self._settings.min_pause)

    def check_size(self, manifest: Manifest) -> None:
        """Refuse a checkpoint that exceeds the configured maximum size, if it is kept in the driver's memory."""
        limit = self._settings.max_state_size
        if limit is None:
            return
        for piece in manifest.pieces:
            if piece.length > limit:
                states = ", ".join(sorted({f"{section.state!r} of {section.operator}" for section in piece.sections}))
                self._refuse(f"subtask {piece.subtask} of chain {piece.chain} ({states}) has {piece.length:,}", limit)
        # Deltas that are not merged yet overlap. The oldest run, which contains all earlier merges, is what counts.
        merged = manifest.runs[0].bytes if manifest.runs else 0
        subtasks = sum(manifest.parallelism.values())
        if merged > limit * max(1, subtasks):
            self._refuse(f"the state of the job in {subtasks} subtasks has {merged:,}", limit)

    @staticmethod
    def _refuse(what: str, limit: int) -> None:
        raise ConfigurationError(
            f"{what} bytes, but JobManagerCheckpointStorage accepts at most {limit:,} per subtask. "
            "Use FileSystemCheckpointStorage (execution.checkpointing.storage: filesystem, with "
            "execution.checkpointing.dir), or raise execution.checkpointing.jobmanager.max-state-size"
        )

    def restored(self, manifest: Manifest | None, retained: Callable[[], list[Manifest]]) -> None:
        """Record that a driver took over the job at ``manifest``; ``retained`` returns the retained checkpoints."""
        # A restart within this driver keeps the existing history. Before the first epoch there is no checkpoint.
        if manifest is None or not manifest.epoch or self._restored is not None or self._entries:
            return
        checkpoints = retained()
        with self._lock:
            self._restored = _statistics(manifest, manifest.clock, 0)
            for one in checkpoints:
                self._entries.append((one.slot, _statistics(one, one.clock, 0)))
            self._retained = frozenset(one.slot for one in checkpoints)

    def completed(
        self,
        manifest: Manifest,
        triggered: int,
        seconds: float,
        parts: Callable[[], tuple[SubtaskCheckpoint, ...]] = tuple,
    ) -> None:
        """Record that an epoch is committed; if it is a checkpoint, add it to the history.

        ``parts`` returns what its subtasks contributed.
        """
        self._failures_in_a_row = 0
        if manifest.slot not in manifest.checkpoints:
            return
        now = self._clock()
        self._last_started, self._last_ended = now - seconds if self._begun is None else self._begun, now
        with self._lock:
            self._completed += 1
            statistics = _statistics(manifest, triggered, int(seconds * 1000))
            self._entries.append((manifest.slot, replace(statistics, parts=parts())))
            if len(self._entries) > _DETAILED:
                slot, entry = self._entries[-_DETAILED - 1]
                self._entries[-_DETAILED - 1] = (slot, replace(entry, parts=()))
            self._retained = frozenset(manifest.checkpoints)

    def saved(self, manifest: Manifest, path: str, triggered: int, seconds: float) -> None:
        """Record that a savepoint is complete. May be called from any thread."""
        entry = replace(_statistics(manifest, triggered, int(seconds * 1000)), is_savepoint=True, path=path)
        with self._lock:
            self._completed += 1
            self._latest_savepoint = entry
            self._entries.append((None, entry))

    def not_saved(self, error: BaseException, epoch: Epoch, triggered: int, seconds: float) -> None:
        """Record that a savepoint failed, which does not affect the job. May be called from any thread."""
        entry = replace(_failure(error, epoch, triggered, seconds), is_savepoint=True)
        with self._lock:
            self._failed += 1
            self._entries.append((None, entry))

    def failed(self, error: CheckpointError, epoch: Epoch, triggered: int, seconds: float) -> None:
        """Record that a checkpoint failed. Returns after a pause if it may be retried.

        Raises ``error`` if the checkpoint must not be retried, or if the job is ended during the pause.
        """
        with self._lock:
            self._failed += 1
            self._entries.append((None, _failure(error, epoch, triggered, seconds)))
        self._failures_in_a_row += 1
        if isinstance(error, _FINAL) or self._failures_in_a_row > self._settings.tolerable_failures:
            self._failures_in_a_row = 0  # the job fails; after a restart the same number is tolerated again
            raise error
        pause = min(0.1 * 2 ** (self._failures_in_a_row - 1), _LONGEST_PAUSE)
        log.warning(
            "checkpoint %d failed (%d consecutive failures, %d are tolerated) and is retried in %.1f s: %s",
            epoch,
            self._failures_in_a_row,
            self._settings.tolerable_failures,
            pause,
            error,
        )
        if self._pause(pause):
            raise error

    def pause_with(self, pause: Callable[[float], bool]) -> None:
        """Set the function that waits between two executions; it returns whether the job is to end."""
        self._pause = pause

    @contextmanager
    def timed(self, epoch: Epoch, interrupt: Callable[[], object]) -> Iterator[None]:
        """Apply the timeout to the epoch that the block runs: call ``interrupt``, and raise an error that says so."""
        timeout = self._settings.timeout
        try:
            with Deadline(timeout, f"epoch-{epoch}").watching(interrupt):
                yield
        except DeadlineExceededError as error:
            raise CheckpointError(
                f"epoch {epoch} was not committed within {timeout:g} s (execution.checkpointing.timeout) "
                "and was interrupted"
            ) from error

    def history(self) -> CheckpointHistory:
        """The current checkpoint history."""
        with self._lock:
            entries = tuple(
                entry if slot is None else replace(entry, retained=slot in self._retained)
                for slot, entry in self._entries
            )
            return CheckpointHistory(self._completed, self._failed, self._restored, entries, self._latest_savepoint)


def _statistics(manifest: Manifest, triggered: int, duration: int) -> CheckpointStatistics:
    return CheckpointStatistics(
        checkpoint_id=manifest.epoch,
        status=CheckpointStatus.COMPLETED,
        trigger_timestamp=triggered,
        duration=duration,
        incremental_size=sum(piece.length for piece in manifest.pieces),
        state_size=sum(run.bytes for run in manifest.runs),
        subtasks=sum(manifest.parallelism.values()),
        retained=True,
    )


def _failure(error: BaseException, epoch: Epoch, triggered: int, seconds: float) -> CheckpointStatistics:
    return CheckpointStatistics(
        epoch, CheckpointStatus.FAILED, triggered, int(seconds * 1000), failure=str(error) or type(error).__name__
    )
