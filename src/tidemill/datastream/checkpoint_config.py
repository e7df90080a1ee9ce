"""Checkpoint settings of a program: a typed view of its configuration."""

from __future__ import annotations

from datetime import timedelta

from tidemill.common.configuration import Configuration
from tidemill.common.time import Duration
from tidemill.config import CheckpointingOptions
from tidemill.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from tidemill.datastream.checkpointing_mode import CheckpointingMode
from tidemill.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
)
from tidemill.without_effect import without_effect

__all__ = ["CheckpointConfig", "ExternalizedCheckpointCleanup"]

_MS = timedelta(milliseconds=1)
_ALIGNED_TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"
_FORCED = "execution.checkpointing.unaligned.forced"


class CheckpointConfig:
    """When, where and how checkpoints are taken. All settings are stored in the environment's configuration."""

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpointing is enabled, that is, whether an interval is set."""
        return self._configuration.get(CheckpointingOptions.INTERVAL) is not None

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The checkpointing mode; exactly-once by default."""
        return CheckpointingMode[self._configuration.get(CheckpointingOptions.MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Sets the checkpointing mode."""
        self._configuration.set(CheckpointingOptions.MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """The interval between checkpoints in milliseconds, or -1 if checkpointing is disabled."""
        interval = self._configuration.get(CheckpointingOptions.INTERVAL)
        return -1 if interval is None else interval // _MS

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Sets the interval between checkpoints in milliseconds."""
        self._configuration.set(CheckpointingOptions.INTERVAL, timedelta(milliseconds=checkpoint_interval))
        return self

    def get_checkpoint_timeout(self) -> int:
        """The time in milliseconds after which a checkpoint is abandoned."""
        return self._configuration.get(CheckpointingOptions.TIMEOUT) // _MS

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Sets the time in milliseconds after which a checkpoint is abandoned."""
        self._configuration.set(CheckpointingOptions.TIMEOUT, timedelta(milliseconds=checkpoint_timeout))
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """The minimum time between two checkpoints in milliseconds."""
        return self._configuration.get(CheckpointingOptions.MIN_PAUSE) // _MS

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Sets the minimum time between two checkpoints in milliseconds."""
        self._configuration.set(CheckpointingOptions.MIN_PAUSE, timedelta(milliseconds=min_pause_between_checkpoints))
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """The maximum number of concurrent checkpoints."""
        return self._configuration.get(CheckpointingOptions.MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Sets the maximum number of concurrent checkpoints."""
        self._configuration.set(CheckpointingOptions.MAX_CONCURRENT, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Sets whether the first failed checkpoint fails the job."""
        tolerable = 0 if fail_on_checkpointing_errors else (1 << 31) - 1
        return self.set_tolerable_checkpoint_failure_number(tolerable)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """The number of consecutive checkpoint failures that the job tolerates."""
        return self._configuration.get(CheckpointingOptions.TOLERABLE_FAILED)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Sets the number of consecutive checkpoint failures that the job tolerates."""
        self._configuration.set(CheckpointingOptions.TOLERABLE_FAILED, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Sets what happens to checkpoints when the job is cancelled."""
        self._configuration.set(CheckpointingOptions.EXTERNALIZED_RETENTION, retention_mode.name)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to checkpoints when the job is cancelled."""
        return ExternalizedCheckpointRetention[self._configuration.get(CheckpointingOptions.EXTERNALIZED_RETENTION)]

    def set_externalized_checkpoint_cleanup(self, cleanup_mode: ExternalizedCheckpointCleanup) -> CheckpointConfig:
        """Name of :meth:`set_externalized_checkpoint_retention` in Flink 1.x."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointCleanup) -> CheckpointConfig:
        """Older name of :meth:`set_externalized_checkpoint_cleanup`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointCleanup:
        """Name of :meth:`get_externalized_checkpoint_retention` in Flink 1.x."""
        return self.get_externalized_checkpoint_retention()

    def set_prefer_checkpoint_for_recovery(self, prefer_checkpoint_for_recovery: bool) -> CheckpointConfig:
        """Accepted without effect: a job recovers from its last committed epoch, which is newer than any savepoint."""
        without_effect("set_prefer_checkpoint_for_recovery()", "a job recovers from its last committed epoch")
        return self

    def is_prefer_checkpoint_for_recovery(self) -> bool:
        """Always false, as in Flink 1.14 and later."""
        return False

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a retention mode is set."""
        return (
            self.get_externalized_checkpoint_retention()
            is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether unaligned checkpoints are enabled. The setting has no effect: epochs need no alignment."""
        return self._configuration.get(CheckpointingOptions.UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Accepted without effect: epochs need no alignment."""
        self._configuration.set(CheckpointingOptions.UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Accepted without effect: epochs need no alignment."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Accepted without effect: epochs need no alignment."""
        self._configuration.set_string(_ALIGNED_TIMEOUT, f"{alignment_timeout.to_millis()} ms")
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """The value set with :meth:`set_aligned_checkpoint_timeout`."""
        text = self._configuration.get_string(_ALIGNED_TIMEOUT, "0 ms")
        return Duration.of_millis(CheckpointingOptions.MIN_PAUSE.parse(text) // _MS)

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Older name of :meth:`set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Older name of :meth:`get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Accepted without effect: epochs need no alignment."""
        self._configuration.set_boolean(_FORCED, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """The value set with :meth:`set_force_unaligned_checkpoints`."""
        return self._configuration.get_boolean(_FORCED, False)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Sets where checkpoints are stored (Flink 1.x)."""
        storage.apply(self._configuration)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Stores checkpoints in this directory (Flink 1.x)."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Where checkpoints are stored, or None if not set (Flink 1.x)."""
        kind = self._configuration.get(CheckpointingOptions.STORAGE)
        directory = self._configuration.get(CheckpointingOptions.DIRECTORY)
        if kind == "jobmanager":
            return JobManagerCheckpointStorage(directory)
        return None if directory is None else FileSystemCheckpointStorage(directory)
