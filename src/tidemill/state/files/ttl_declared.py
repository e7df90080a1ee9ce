"""A time to live as the running program declares it for one state, and the clock it goes by.

*Processing time* is the epoch's, fixed by the driver: an epoch that is run again finds the same entries expired.

*Event time* is the operator's current watermark. An access counts as made at the timestamp of the record (or event-time
timer) that makes it, but not before the watermark: a late record gives what it writes a full life too. Where there is
neither, it counts as made at the first watermark to come. Before the first watermark nothing expires, nor does the
watermark at the end of all input let anything expire: it is no time.

An entry has expired if ``last access + ttl <= now``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from tidemill.common.time import as_millis
from tidemill.datastream.functions.state_ttl import StateTtlConfig
from tidemill.errors import SerializationError

#: No watermark yet, no timestamp.
MIN_TIME: Final = -(2**63)
#: The watermark at the end of all input.
MAX_TIME: Final = 2**63 - 1

#: Where a section's schema holds its time to live.
SCHEMA_KEY: Final = "ttl"
#: Version of what stands there.
VERSION: Final = 1


class OperatorTime(Protocol):
    """The times of an operator that its state goes by. ``record_timestamp`` is None outside of records."""

    processing_time: int
    current_watermark: int

    @property
    def record_timestamp(self) -> int | None: ...


class StandingTime:
    """The time of a backend that no operator was given to."""

    def __init__(self) -> None:
        self.processing_time = 0
        self.current_watermark = MIN_TIME
        self.record_timestamp: int | None = None


class DeclaredTtl:
    """How long the entries of one state live, from which access on, and by which clock.

    ``since`` is what counts as the last access of entries that have none: those stored before the state had a time to
    live, and those of ``MIN_TIME``, which were written before the first watermark.
    """

    def __init__(self, config: StateTtlConfig, time: OperatorTime, stored: Mapping[str, Any] | None) -> None:
        """``stored`` is the time to live under which the newest entries were stored, if there are any."""
        cleanup = config.get_cleanup_strategies()
        # configuration
        self.millis = as_millis(config.get_ttl())
        self.on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self.return_expired = (
            config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        )
        self.event_time = config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
        self.in_full_snapshot = cleanup.in_full_snapshot()
        self.incremental = cleanup.get_incremental_cleanup_strategy()
        self.incremental_chosen = cleanup.is_chosen(StateTtlConfig.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP)
        self.in_compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy() is not None
        self._name = config.get_update_type().name
        self._time = time
        # transient
        self._reached = MIN_TIME
        self.since = MIN_TIME
        if stored is not None and stored["time"] == self.characteristic:
            self.since = stored["since"]
        elif not self.event_time:
            self.since = time.processing_time
        self.now()

    def now(self) -> int:
        """The time by which entries expire."""
        if not self.event_time:
            return self._time.processing_time
        if self._time.current_watermark != MAX_TIME:
            self._reached = self._time.current_watermark
            if self.since == MIN_TIME:
                self.since = self._reached
        return self._reached

    def expired(self, last_access: int, now: int) -> bool:
        """Whether an entry has expired at a time."""
        if last_access + self.millis > now:
            return False
        return last_access != MIN_TIME or self.since + self.millis <= now

    def access_time(self) -> int:
        """The time that an access counts as made at."""
        if not self.event_time:
            return self._time.processing_time
        timestamp = self._time.record_timestamp
        now = self.now()
        return now if timestamp is None or timestamp < now else timestamp

    def describe(self) -> dict[str, Any]:
        """What a section tells of it: all that a reader, or a merge without the program, must know.

        ``declared`` is the processing time of the epoch in which a program last stood by these settings.
        """
        return {
            "v": VERSION,
            "ttl": self.millis,
            "update": self._name,
            "time": self.characteristic,
            "since": self.since,
            "declared": self._time.processing_time,
            "in_merges": self.in_full_snapshot or self.in_compaction,
        }

    @property
    def characteristic(self) -> str:
        """Which clock it is, by the name that sections have for it."""
        return "EventTime" if self.event_time else "ProcessingTime"


def stored_ttl(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The time to live that a section was stored under, as :meth:`DeclaredTtl.describe` told it; None if it had none.

    Raises :class:`SerializationError` for what a later version wrote.
    """
    found: Mapping[str, Any] | None = schema.get(SCHEMA_KEY)
    if found is not None and found.get("v") != VERSION:
        raise SerializationError(
            f"a time to live is stored in version {found.get('v')!r}, which cannot be read; this is version {VERSION}"
        )
    return found
