"""When state expires, as data: :class:`StateTtlConfig` under PyFlink's names."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from tidemill.common.time import Duration, Time, as_millis

__all__ = ["StateTtlConfig"]


class StateTtlConfig:
    """How long an entry of a state lives, and what is seen of it afterwards.

    An entry is a value, a reduced value, an accumulator, an entry of a map or an element of a list. It has expired when
    the time to live has passed since its last access: at that very millisecond. By default expired entries are removed
    when they are read, a few at a time as the state is accessed and with each epoch, and from files when these are
    merged.

    >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    >>> config.get_update_type().name, config.get_state_visibility().name
    ('OnReadAndWrite', 'NeverReturnExpired')
    """

    class UpdateType(enum.Enum):
        """What renews an entry's life."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(enum.Enum):
        """Whether an expired entry that is still there can be read."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(enum.Enum):
        """The clock an entry's life is measured by.

        Processing time is fixed for each epoch. Event time, which is beyond Flink, is the operator's watermark: what a
        record writes is as old as the record, though not older than the watermark.
        """

        ProcessingTime = 0
        EventTime = 1

    def __init__(
        self,
        update_type: StateTtlConfig.UpdateType,
        state_visibility: StateTtlConfig.StateVisibility,
        ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic,
        ttl: Time | Duration,
        cleanup_strategies: StateTtlConfig.CleanupStrategies,
    ) -> None:
        if as_millis(ttl) <= 0:
            raise ValueError(f"the time to live of a state must be a millisecond at least, not {ttl}")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Start building a configuration with this time to live."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """What renews an entry's life."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Whether expired entries can be read."""
        return self._state_visibility

    def get_ttl(self) -> Time | Duration:
        """How long an entry lives."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """The clock."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether entries expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """How expired entries are removed."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig({self._ttl}, {self._update_type.name}, {self._state_visibility.name}, "
            f"{self._ttl_time_characteristic.name})"
        )

    class Builder:
        """Collects the settings; by default writes renew, expired entries are not seen, by processing time."""

        def __init__(self, ttl: Time | Duration) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """What renews an entry's life."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Only writing renews an entry's life."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Reading renews an entry's life too."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            """Whether expired entries can be read."""
            self._visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """An expired entry is readable until it is removed."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """An expired entry is as good as removed."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Which clock to go by."""
            self._characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Go by processing time."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Go by the watermark (beyond Flink)."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired entries out of merged state files and savepoints, and remove them after a restore."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = strategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool = False
        ) -> StateTtlConfig.Builder:
            """Look at ``cleanup_size`` further entries with each access, and if asked to with each record as well.

            Works for all backends. By default, entries kept in memory are looked at 5 per access.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.INCREMENTAL_CLEANUP] = strategies.IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Leave expired entries out of merged state files, and look at 1000 further entries with each epoch.

            Works for all backends, and is the default. The arguments are Flink's and have no effect here: the clock
            stands still during an epoch, and state files are merged as they come.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                strategies.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, periodic_compaction_time)
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Remove expired entries only when they are read, unless a strategy was chosen."""
            self._in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration) -> StateTtlConfig.Builder:
            """How long an entry lives."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """The configuration."""
            return StateTtlConfig(
                self._update_type,
                self._visibility,
                self._characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(dict(self._strategies), self._in_background),
            )

    class CleanupStrategies:
        """How expired entries are removed, besides when they are read."""

        class Strategies(enum.Enum):
            """The kinds of cleanup."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """Base of the settings of one kind of cleanup."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A kind of cleanup that has no settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Settings of incremental cleanup."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                if cleanup_size < 0:
                    raise ValueError(f"the number of entries to look at cannot be negative: {cleanup_size}")
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """How many entries are looked at each time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Whether records trigger it, not only accesses."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Settings of cleanup while state files are merged, and with each epoch."""

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                if query_time_after_num_entries < 0:
                    raise ValueError(f"the number of entries cannot be negative: {query_time_after_num_entries}")
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

            def get_query_time_after_num_entries(self) -> int:
                """As it was given; has no effect."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """As it was given; has no effect."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(
            self,
            strategies: Mapping[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = strategies
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Whether the backend may remove expired entries on its own."""
            return self._is_cleanup_in_background

        def is_chosen(self, strategy: StateTtlConfig.CleanupStrategies.Strategies) -> bool:
            """Whether a kind of cleanup was asked for, and is not just the default."""
            return strategy in self._strategies

        def in_full_snapshot(self) -> bool:
            """Whether merged state files leave expired entries out, and restores remove them."""
            return StateTtlConfig.CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Settings of incremental cleanup; by default 5 entries per access, None if background cleanup is off."""
            kinds = StateTtlConfig.CleanupStrategies
            chosen = self._strategies.get(kinds.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(chosen, kinds.IncrementalCleanupStrategy):
                return chosen
            return kinds.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Settings of cleanup in merges and with each epoch; the default ones, or None if that is off."""
            kinds = StateTtlConfig.CleanupStrategies
            chosen = self._strategies.get(kinds.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(chosen, kinds.RocksdbCompactFilterCleanupStrategy):
                return chosen
            return kinds.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
