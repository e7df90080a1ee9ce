"""Which subtask processes the records of a shard."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["KinesisShardAssigner", "ShardInfo", "WatermarkTracker"]

_HASH_KEYS = 1 << 128


class ShardInfo(NamedTuple):
    """A shard of a stream; the range of its hash keys is inclusive."""

    stream: str
    shard: str
    first_hash_key: int
    last_hash_key: int
    parents: tuple[str, ...] = ()


class KinesisShardAssigner:
    """Chooses a subtask for each shard. Event time does not depend on it: every shard has its own.

    A function of a :class:`ShardInfo` and the parallelism can be used instead of the two that exist:

    >>> shard = ShardInfo("clicks", "shardId-000000000000", 0, 2**128 - 1)
    >>> KinesisShardAssigner(lambda shard, parallelism: 1).assign(shard, 4)
    1
    """

    def __init__(self, assign: Callable[[ShardInfo, int], int]) -> None:
        self._assign = assign

    def assign(self, shard: ShardInfo, parallelism: int) -> int:
        """Return the index of a subtask; numbers beyond the parallelism begin again at 0."""
        return self._assign(shard, parallelism) % parallelism

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """Choose by a hash of the names of stream and shard."""
        return KinesisShardAssigner(_by_name)

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """Choose by the range of hash keys, so that adjacent ranges are processed by the same subtask."""
        return KinesisShardAssigner(_by_range)


class WatermarkTracker:
    """Accepted and unused: event time is aligned by the watermark strategy of the stream."""

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        """Return a tracker."""
        return WatermarkTracker()


def _by_name(shard: ShardInfo, parallelism: int) -> int:
    return zlib.crc32(f"{shard.stream}/{shard.shard}".encode())


def _by_range(shard: ShardInfo, parallelism: int) -> int:
    return (shard.first_hash_key + shard.last_hash_key) // 2 * parallelism // _HASH_KEYS
