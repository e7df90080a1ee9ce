"""A time to live as the running program declares it for one state, and the clock that it uses.

*Processing time* is that of the epoch, fixed by the driver: when an epoch is rerun, the same entries have expired.

*Event time* is the operator's current watermark. The time of an access is the timestamp of the record (or event-time
timer) that makes it, but not earlier than the watermark, so that data written by a late record also lives for the full
time. If there is neither, the access counts from the first watermark that arrives. Before the first watermark nothing
expires. The final watermark at the end of all input does not expire anything either, because it is not a time.

An entry has expired if ``last access + ttl <= now``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from tidemill.common.time import as_millis
from tidemill.datastream.functions.state_ttl import StateTtlConfig
from tidemill.errors import SerializationError

#: No watermark or timestamp yet.
MIN_TIME: Final = -(2**63)
#: The watermark at the end of all input.
MAX_TIME: Final = 2**63 - 1

#: The key in a section's schema for its time to live.
SCHEMA_KEY: Final = "ttl"
#: Version of that entry.
VERSION: Final = 1


class OperatorTime(Protocol):
    """The times of an operator that its state uses. ``record_timestamp`` is None outside of records."""

    processing_time: int
    current_watermark: int

    @property
    def record_timestamp(self) -> int | None: ...


class StandingTime:
    """The time of a backend without an operator."""

    def __init__(self) -> None:
        self.processing_time = 0
        self.current_watermark = MIN_TIME
        self.record_timestamp: int | None = None


class DeclaredTtl:
    """How long the entries of one state live, after which kind of access, and by which clock.

    ``since`` is the time of last access for entries that have none: those stored before the state had a time to live,
    and those with ``MIN_TIME``, which were written before the first watermark.
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
        """The current time for expiring entries."""
        if not self.event_time:
            return self._time.processing_time
        if self._time.current_watermark != MAX_TIME:
            self._reached = self._time.current_watermark
            if self.since == MIN_TIME:
                self.since = self._reached
        return self._reached

    def expired(self, last_access: int, now: int) -> bool:
        """Whether an entry with this last access has expired at time ``now``."""
        if last_access + self.millis > now:
            return False
        return last_access != MIN_TIME or self.since + self.millis <= now

    def access_time(self) -> int:
        """The time to record for an access."""
        if not self.event_time:
            return self._time.processing_time
        timestamp = self._time.record_timestamp
        now = self.now()
        return now if timestamp is None or timestamp < now else timestamp

    def describe(self) -> dict[str, Any]:
        """The description for a section: everything that a reader, or a merge without the program, needs.

        ``declared`` is the processing time of the last epoch in which a program declared these settings.
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
        """The name of the clock in sections."""
        return "EventTime" if self.event_time else "ProcessingTime"


def stored_ttl(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The time to live under which a section was stored, from :meth:`DeclaredTtl.describe`; None if it had none.

    Raises :class:`SerializationError` for a description written by a newer version.
    """
    found: Mapping[str, Any] | None = schema.get(SCHEMA_KEY)
    if found is not None and found.get("v") != VERSION:
        raise SerializationError(
            f"a time to live is stored in version {found.get('v')!r}, which cannot be read; this is version {VERSION}"
        )
    return found
