"""Rolling policies, which determine when part files are finished."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from typing import Final

from tidemill.connectors.file_system.parts import GrowingPart

__all__ = [
    "CHECK_INTERVAL",
    "DefaultRollingPolicy",
    "OnCheckpointRollingPolicy",
    "OnEpochRollingPolicy",
    "RollingPolicy",
]

#: Flink's default interval, in ms, between two checks of the time-based rules.
CHECK_INTERVAL: Final = 60_000


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

    def is_due(self, part: GrowingPart, now: int, *, checkpoint: bool) -> bool:
        """Whether a part is finished at the end of an epoch, at this processing time.

        ``checkpoint`` is whether the epoch is a checkpoint.
        """
        return True

    def due_at(self, part: GrowingPart, next_checkpoint: int | None) -> int | None:
        """Return the processing time at which a part is finished even without further records.

        ``next_checkpoint`` is when the next checkpoint is due, None if each epoch is one.
        """
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
        """Finish each part with the next checkpoint (``execution.checkpointing.interval``).

        Without a checkpoint interval, each epoch is a checkpoint.
        """
        return OnCheckpointRollingPolicy()

    @staticmethod
    def on_epoch_rolling_policy() -> OnEpochRollingPolicy:
        """Finish each part with its epoch: records are visible as soon as they are committed, in many small files.

        Tidemill only.
        """
        return OnEpochRollingPolicy()


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Finishes parts by size and time; a part can span epochs."""

    part_size: int
    rollover_interval: int
    inactivity_interval: int
    #: The time, in ms, between two checks of the intervals; with 0, a part is finished as soon as it is due.
    check_interval: int = field(default=0, repr=False)

    spans_epochs = True

    def __post_init__(self) -> None:
        if min(self.part_size, self.rollover_interval, self.inactivity_interval) <= 0:
            raise ValueError("the size and the intervals of a rolling policy must be positive")

    def is_full(self, size: int) -> bool:
        return size >= self.part_size

    def is_due(self, part: GrowingPart, now: int, *, checkpoint: bool) -> bool:
        return now >= self.due_at(part, None)

    def due_at(self, part: GrowingPart, next_checkpoint: int | None) -> int:
        """Return the first check at which one of the intervals is over. Checks are at multiples of the interval, so
        that they do not depend on when a worker has started."""
        at = min(part.created + self.rollover_interval, part.written + self.inactivity_interval)
        return -(-at // self.check_interval) * self.check_interval if self.check_interval else at

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
    """Finishes each part with the next checkpoint; a part can span the epochs in between."""

    spans_epochs = True

    def is_due(self, part: GrowingPart, now: int, *, checkpoint: bool) -> bool:
        return checkpoint

    def due_at(self, part: GrowingPart, next_checkpoint: int | None) -> int | None:
        return next_checkpoint

    @staticmethod
    def build() -> OnCheckpointRollingPolicy:
        """Return the policy, as in PyFlink 1.12."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class OnEpochRollingPolicy(RollingPolicy):
    """Finishes each part with its epoch."""
