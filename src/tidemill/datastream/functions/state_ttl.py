"""Configuration of state expiration: :class:`StateTtlConfig`, with PyFlink's names."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from tidemill.common.time import Duration, Time, as_millis

__all__ = ["StateTtlConfig"]


class StateTtlConfig:
    """The time to live of the entries of a state, and the visibility and cleanup of expired entries.

    An entry is a value, a reduced value, an accumulator, an entry of a map or an element of a list. It expires exactly
    when the time to live has passed since its last access. By default, expired entries are removed when they are read,
    incrementally when the state is accessed and with each epoch, and from files when these are merged.

    >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    >>> config.get_update_type().name, config.get_state_visibility().name
    ('OnReadAndWrite', 'NeverReturnExpired')
    """

    class UpdateType(enum.Enum):
        """Which accesses reset the time to live of an entry."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(enum.Enum):
        """Whether an expired entry that has not been removed yet can be read."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(enum.Enum):
        """The notion of time by which entries expire.

        Processing time is fixed for each epoch. Event time, which Flink does not support, is the watermark of the
        operator. The age of an entry is then measured from the timestamp of the record that wrote it, or from the
        watermark if that is higher.
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
            raise ValueError(f"the time to live of a state must be at least one millisecond, not {ttl}")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Creates a builder with this time to live."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Which accesses reset the time to live of an entry."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Whether expired entries can be read."""
        return self._state_visibility

    def get_ttl(self) -> Time | Duration:
        """The time to live of an entry."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """The notion of time by which entries expire."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether entries expire."""
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
        """Builds the configuration.

        By default, writing resets the time to live, expired entries are not visible, and processing time is used.
        """

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
            """Sets which accesses reset the time to live of an entry."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Only writing resets the time to live of an entry."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Both reading and writing reset the time to live of an entry."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            """Sets whether expired entries can be read."""
            self._visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Expired entries can be read until they are removed."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Expired entries are never returned."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Sets the notion of time by which entries expire."""
            self._characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Entries expire by processing time."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Entries expire by the watermark (not supported by Flink)."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Excludes expired entries from merged state files and savepoints, and removes them after a restore."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = strategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool = False
        ) -> StateTtlConfig.Builder:
            """Checks ``cleanup_size`` entries with each state access, and optionally also with each record.

            Works for all backends. By default, 5 of the entries in memory are checked per access.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.INCREMENTAL_CLEANUP] = strategies.IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Excludes expired entries from merged state files, and checks 1000 entries with each epoch.

            Works for all backends and is the default. The arguments are Flink's and have no effect: time does not
            advance during an epoch, and state files are merged on a fixed schedule.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                strategies.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, periodic_compaction_time)
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Removes expired entries only when they are read, unless a cleanup strategy is set explicitly."""
            self._in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration) -> StateTtlConfig.Builder:
            """Sets the time to live of an entry."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Builds the configuration."""
            return StateTtlConfig(
                self._update_type,
                self._visibility,
                self._characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(dict(self._strategies), self._in_background),
            )

    class CleanupStrategies:
        """How expired entries are removed in addition to removal on read."""

        class Strategies(enum.Enum):
            """The cleanup strategies."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """Base class of the settings of a cleanup strategy."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A cleanup strategy without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Settings of incremental cleanup."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                if cleanup_size < 0:
                    raise ValueError(f"the cleanup size must not be negative: {cleanup_size}")
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """The number of entries that are checked each time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Whether records trigger cleanup in addition to state accesses."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Settings of cleanup when state files are merged and with each epoch."""

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                if query_time_after_num_entries < 0:
                    raise ValueError(f"the number of entries cannot be negative: {query_time_after_num_entries}")
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

            def get_query_time_after_num_entries(self) -> int:
                """The value that was set. It has no effect."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """The value that was set. It has no effect."""
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
            """Whether a cleanup strategy was set explicitly."""
            return strategy in self._strategies

        def in_full_snapshot(self) -> bool:
            """Whether expired entries are excluded from merged state files and removed on restore."""
            return StateTtlConfig.CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Settings of incremental cleanup. By default 5 entries per access, or None without background cleanup."""
            kinds = StateTtlConfig.CleanupStrategies
            chosen = self._strategies.get(kinds.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(chosen, kinds.IncrementalCleanupStrategy):
                return chosen
            return kinds.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Settings of cleanup in merges and with each epoch. None if not set and background cleanup is disabled."""
            kinds = StateTtlConfig.CleanupStrategies
            chosen = self._strategies.get(kinds.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(chosen, kinds.RocksdbCompactFilterCleanupStrategy):
                return chosen
            return kinds.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
