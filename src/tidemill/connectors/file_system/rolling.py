"""Rolling policies, which determine when part files are finished."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace

from tidemill.connectors.file_system.parts import GrowingPart

__all__ = ["DefaultRollingPolicy", "FileCompactStrategy", "OnCheckpointRollingPolicy", "RollingPolicy"]


class RollingPolicy(abc.ABC):  # noqa: B024 - without any rule of its own, it finishes a part with its epoch
    """Determines when a part file is finished and becomes visible. Until then its records are hidden, but durable.

    A policy that keeps parts open at the end of an epoch writes few large files instead of many small ones. Readers see
    the records when their part is finished, at the latest when the job ends.
    """

    #: Whether a part may continue in the next epoch.
    spans_epochs: bool = False

    def is_full(self, size: int) -> bool:
        """Whether a part with this number of bytes is finished immediately, in the middle of an epoch."""
        return False

    def is_due(self, part: GrowingPart, now: int) -> bool:
        """Whether a part is finished at the end of an epoch, at this processing time."""
        return True

    def due_at(self, part: GrowingPart) -> int | None:
        """Return the processing time at which a part is finished even without further records."""
        return None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> DefaultRollingPolicy:
        """Finish a part when it has ``part_size`` bytes, or after one of two intervals.

        ``rollover_interval`` is the maximum time, in ms, that a part is open; ``inactivity_interval`` is the maximum
        time, in ms, without new records.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Finish each part with its epoch: records appear as soon as they are committed."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Finishes parts by size and time; a part can span epochs."""

    part_size: int
    rollover_interval: int
    inactivity_interval: int

    spans_epochs = True

    def __post_init__(self) -> None:
        if min(self.part_size, self.rollover_interval, self.inactivity_interval) <= 0:
            raise ValueError("the size and the intervals of a rolling policy must be positive")

    def is_full(self, size: int) -> bool:
        return size >= self.part_size

    def is_due(self, part: GrowingPart, now: int) -> bool:
        return now >= self.due_at(part)

    def due_at(self, part: GrowingPart) -> int:
        return min(part.created + self.rollover_interval, part.written + self.inactivity_interval)

    @staticmethod
    def builder() -> DefaultRollingPolicy.PolicyBuilder:
        """Start building a policy with the defaults of :meth:`RollingPolicy.default_rolling_policy`.

        >>> DefaultRollingPolicy.builder().with_rollover_interval(900_000).build()
        DefaultRollingPolicy(part_size=134217728, rollover_interval=900000, inactivity_interval=60000)
        """
        return DefaultRollingPolicy.PolicyBuilder()

    class PolicyBuilder:
        """Builds a :class:`DefaultRollingPolicy`, as in PyFlink 1.12."""

        def __init__(self) -> None:
            self._policy = RollingPolicy.default_rolling_policy()

        def with_max_part_size(self, size: int) -> DefaultRollingPolicy.PolicyBuilder:
            """Set the number of bytes at which a part is finished."""
            return self._set(part_size=size)

        def with_inactivity_interval(self, interval: int) -> DefaultRollingPolicy.PolicyBuilder:
            """Set the maximum time, in ms, without new records."""
            return self._set(inactivity_interval=interval)

        def with_rollover_interval(self, interval: int) -> DefaultRollingPolicy.PolicyBuilder:
            """Set the maximum time, in ms, that a part is open."""
            return self._set(rollover_interval=interval)

        def build(self) -> DefaultRollingPolicy:
            """Build the policy."""
            return self._policy

        def _set(self, **changed: int) -> DefaultRollingPolicy.PolicyBuilder:
            self._policy = replace(self._policy, **changed)
            return self


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """Finishes each part with its epoch."""

    @staticmethod
    def build() -> OnCheckpointRollingPolicy:
        """Return the policy, as in PyFlink 1.12."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class FileCompactStrategy(RollingPolicy):
    """Determines when small files are merged: after a number of epochs, or when they reach a total size."""

    num_checkpoints: int | None = None
    size_threshold: int | None = None

    spans_epochs = True

    def is_full(self, size: int) -> bool:
        return self.size_threshold is not None and size >= self.size_threshold

    def is_due(self, part: GrowingPart, now: int) -> bool:
        return self.num_checkpoints is not None and part.epochs + 1 >= self.num_checkpoints

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Start building a strategy."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a :class:`FileCompactStrategy`."""

        def __init__(self) -> None:
            self._checkpoints: int | None = None
            self._size: int | None = None

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge the files of this number of epochs."""
            self._checkpoints = _positive(num_checkpoints_before_compaction, "number of checkpoints")
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merge files as soon as they have this number of bytes in total."""
            self._size = _positive(size_threshold, "size threshold")
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Accepted and ignored: each subtask merges its own files."""
            _positive(num_compact_threads, "number of threads")
            return self

        def build(self) -> FileCompactStrategy:
            """Build the strategy."""
            if self._checkpoints is None and self._size is None:
                raise ValueError(
                    "a compaction strategy needs a number of checkpoints, a size, or both: without one, no file would "
                    "ever be finished"
                )
            return FileCompactStrategy(self._checkpoints, self._size)


def _positive(number: int, what: str) -> int:
    if number < 1:
        raise ValueError(f"the {what} must be positive, not {number}")
    return number
