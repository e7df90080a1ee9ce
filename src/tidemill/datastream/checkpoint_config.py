"""Checkpoint settings of a program: a typed view on its configuration."""

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
from tidemill.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]

_MS = timedelta(milliseconds=1)
_ALIGNED_TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"
_FORCED = "execution.checkpointing.unaligned.forced"


class CheckpointConfig:
    """When, where and how checkpoints are made. Everything set here is in the environment's configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are made: an interval is set."""
        return self._configuration.get(CheckpointingOptions.INTERVAL) is not None

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once, unless set otherwise."""
        return CheckpointingMode[self._configuration.get(CheckpointingOptions.MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Exactly once or at least once."""
        self._configuration.set(CheckpointingOptions.MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints, -1 if there are none."""
        interval = self._configuration.get(CheckpointingOptions.INTERVAL)
        return -1 if interval is None else interval // _MS

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Make a checkpoint every so many milliseconds."""
        self._configuration.set(CheckpointingOptions.INTERVAL, timedelta(milliseconds=checkpoint_interval))
        return self

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which a checkpoint is given up."""
        return self._configuration.get(CheckpointingOptions.TIMEOUT) // _MS

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Give a checkpoint up after so many milliseconds."""
        self._configuration.set(CheckpointingOptions.TIMEOUT, timedelta(milliseconds=checkpoint_timeout))
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds that pass at least between two checkpoints."""
        return self._configuration.get(CheckpointingOptions.MIN_PAUSE) // _MS

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Let so many milliseconds pass between two checkpoints."""
        self._configuration.set(CheckpointingOptions.MIN_PAUSE, timedelta(milliseconds=min_pause_between_checkpoints))
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at a time."""
        return self._configuration.get(CheckpointingOptions.MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Allow so many checkpoints at a time."""
        self._configuration.set(CheckpointingOptions.MAX_CONCURRENT, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Whether the first failed checkpoint fails the job."""
        tolerable = 0 if fail_on_checkpointing_errors else (1 << 31) - 1
        return self.set_tolerable_checkpoint_failure_number(tolerable)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail."""
        return self._configuration.get(CheckpointingOptions.TOLERABLE_FAILED)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Let so many checkpoints in a row fail."""
        self._configuration.set(CheckpointingOptions.TOLERABLE_FAILED, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """What becomes of checkpoints when the job is cancelled."""
        self._configuration.set(CheckpointingOptions.EXTERNALIZED_RETENTION, retention_mode.name)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What becomes of checkpoints when the job is cancelled."""
        return ExternalizedCheckpointRetention[self._configuration.get(CheckpointingOptions.EXTERNALIZED_RETENTION)]

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a choice about retention was made."""
        return (
            self.get_externalized_checkpoint_retention()
            is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether unaligned checkpoints were asked for; epochs have nothing to align."""
        return self._configuration.get(CheckpointingOptions.UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Accepted: epochs have nothing to align."""
        self._configuration.set(CheckpointingOptions.UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Accepted: epochs have nothing to align."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Accepted: epochs have nothing to align."""
        self._configuration.set_string(_ALIGNED_TIMEOUT, f"{alignment_timeout.to_millis()} ms")
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """What was set with :meth:`set_aligned_checkpoint_timeout`."""
        text = self._configuration.get_string(_ALIGNED_TIMEOUT, "0 ms")
        return Duration.of_millis(CheckpointingOptions.MIN_PAUSE.parse(text) // _MS)

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Older name of :meth:`set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Older name of :meth:`get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Accepted: epochs have nothing to align."""
        self._configuration.set_boolean(_FORCED, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """What was set with :meth:`set_force_unaligned_checkpoints`."""
        return self._configuration.get_boolean(_FORCED, False)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Where checkpoints are kept (Flink 1.x)."""
        storage.apply(self._configuration)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keep checkpoints in this directory (Flink 1.x)."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Where checkpoints are kept, None if nothing was set (Flink 1.x)."""
        kind = self._configuration.get(CheckpointingOptions.STORAGE)
        directory = self._configuration.get(CheckpointingOptions.DIRECTORY)
        if kind == "jobmanager":
            return JobManagerCheckpointStorage(directory)
        return None if directory is None else FileSystemCheckpointStorage(directory)
