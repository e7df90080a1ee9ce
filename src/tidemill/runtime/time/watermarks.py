"""Event time of an operator that generates watermarks: a generator for each partition, and the clock over them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

from tidemill.common.watermark_generators import Clock, Watermark, WatermarksWithIdleness
from tidemill.common.watermark_strategy import WatermarkOutput, WatermarkStrategy
from tidemill.datastream.functions.pickling import pickled_by_value
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, checked_time
from tidemill.runtime.time.generator_fields import GeneratorFields, is_built_in
from tidemill.runtime.time.strands import PartitionEnd, Strand
from tidemill.runtime.time.time_states import PartitionState, TimeState, furthest


class PartitionTime(WatermarkOutput):
    """Event time in one partition: its generator, and what the generator has emitted. A watermark ends idleness."""

    def __init__(
        self, strategy: WatermarkStrategy, clock: Clock, state: PartitionState, *, never_idle: bool = False
    ) -> None:
        self.generator = strategy.create_watermark_generator(clock)
        if never_idle and isinstance(self.generator, WatermarksWithIdleness):
            self.generator = self.generator.generator
        #: Whether the generator may emit a watermark between any two records. True if it does not declare this.
        self.emits_on_event = getattr(self.generator, "emits_on_event", True)
        #: Whether the generator needs more of a batch than its newest timestamp. True if it does not declare this.
        self.reads_events = getattr(self.generator, "reads_events", True)
        self._idleness = self.generator if isinstance(self.generator, WatermarksWithIdleness) else None
        self._fields = GeneratorFields(self.generator if self._idleness is None else self._idleness.generator)
        self._partition = state.partition
        self.watermark = state.watermark
        self.idle = state.idle and not never_idle
        #: Whether the generator has emitted something that is not yet included in the clock over all partitions.
        self.changed = False
        if self._idleness is not None:
            self._idleness.resume(state.inactive_since, idle=state.idle)
        if state.fields is not None:
            self._fields.restore(state.fields)

    def emit_watermark(self, watermark: Watermark) -> None:
        timestamp = checked_time(watermark.timestamp, "a watermark")
        if timestamp > self.watermark:
            self.watermark = timestamp
            self.changed = True
        if self.idle:
            self.mark_active()

    def mark_idle(self) -> None:
        self.changed = self.changed or not self.idle
        self.idle = True

    def mark_active(self) -> None:
        self.changed = self.changed or self.idle
        self.idle = False

    def idle_from(self) -> int | None:
        """The processing time at which the partition becomes idle if no record arrives."""
        return None if self._idleness is None else self._idleness.idle_from

    def state(self) -> PartitionState:
        """The state for the next epoch."""
        since = None if self._idleness is None else self._idleness.inactive_since
        return PartitionState(self._partition, self.watermark, self.idle, since, self._fields.changed())


class Timekeeper:
    """The clock over all partitions: the minimum over those that are not idle, never going back.

    If all partitions are idle, the clock is idle too, and advances to the greatest of their times, because there is no
    partition to wait for. A partition that was idle counts again as soon as it is active.
    """

    def __init__(self, strategy: WatermarkStrategy, clock: Clock) -> None:
        # configuration
        self._clock = clock
        self._strategy = strategy
        #: Whether the clock waits for a partition without records, even if the strategy configures idleness.
        self.never_idle = False
        made = strategy.create_watermark_generator(clock)
        inner = made.generator if isinstance(made, WatermarksWithIdleness) else made
        # A generator, or an object that its supplier references, may change in an epoch that is then run again.
        self._pristine: bytes | None = None if is_built_in(inner) else pickled_by_value(strategy)
        # checkpointed
        self._partitions: dict[str | None, PartitionTime] = {}
        self.watermark = MIN_TIME
        self.idle = False
        # transient
        self._elsewhere: Mapping[str | None, PartitionState] = {}
        self._committed: Mapping[str | None, PartitionState] = {}
        self._strands: dict[tuple[str | None, int], PartitionTime] = {}

    @property
    def strategy(self) -> WatermarkStrategy:
        """The strategy whose generators are in use."""
        return self._strategy

    def restore(self, state: TimeState, watermark: int) -> None:
        """Restore the state of the last committed epoch."""
        if self._pristine is not None:
            self._strategy = pickle.loads(self._pristine)
        entries = [PartitionState(None, watermark)] if state is None else [PartitionState(*entry) for entry in state]
        self._committed = {entry.partition: entry for entry in entries}
        self._partitions = {entry.partition: self._time(entry) for entry in entries}
        self._strands = {}
        self.watermark = watermark
        self.idle = watermark < MAX_TIME and all(partition.idle for partition in self._partitions.values())

    def know(self, elsewhere: Mapping[str | None, PartitionState]) -> None:
        """Set the states of partitions in other subtasks; this subtask may read those partitions in this epoch."""
        self._elsewhere = elsewhere

    def partition(self, name: str | None) -> PartitionTime:
        """The time of one partition."""
        found = self._partitions.get(name)
        if found is None:
            found = self._partitions[name] = self._time(self._begun(name))
        return found

    def strand(self, strand: Strand) -> PartitionTime:
        """The time of a strand. It starts from that of its partition and lasts until all strands are gathered."""
        key = strand.partition, strand.number
        found = self._strands.get(key)
        if found is None:
            if strand.partition is not None:  # the placeholder for unknown partitions is no longer needed
                self.release(None)
                if strand.split != strand.partition:
                    self.release(strand.split)
            found = self._strands[key] = self._time(self._begun(strand.partition))
        return found

    def gather(self) -> None:
        """Set the time of each partition to that of its furthest strand, when all strands have been read."""
        by_partition: dict[str | None, list[PartitionState]] = {}
        for (name, _), time in self._strands.items():
            by_partition.setdefault(name, []).append(time.state())
        for name, states in by_partition.items():
            found = furthest(states)
            if found is not None:
                self._partitions[name] = self._time(found)

    def reach(self, name: str, watermark: int) -> None:
        """Advance the time of a partition before it is read: none of its records is earlier."""
        self.partition(name).emit_watermark(Watermark(watermark))

    def release(self, name: str | None) -> None:
        """Remove a partition that will have no more records."""
        self._partitions.pop(name, None)

    def release_split(self, name: str) -> None:
        """Remove the partition of a split that will have no more records, and the partitions that its rows name."""
        for partition in list(self._partitions):
            if partition is not None and (partition == name or partition.startswith(f"{name}/")):
                self.release(partition)

    def emit_periodically(self) -> None:
        """Call ``on_periodic_emit`` of all generators."""
        read = {name for name, _ in self._strands}
        asked = [time for name, time in self._partitions.items() if name not in read]
        for time in (*self._strands.values(), *asked):
            time.generator.on_periodic_emit(time)

    def ends(self) -> list[PartitionEnd]:
        """The times that all partitions have reached."""
        return [PartitionEnd(name, time.watermark, time.idle) for name, time in self._partitions.items()]

    def combine(self) -> int | None:
        """Combine the watermarks of the partitions; return the new time if it advanced."""
        partitions = self._partitions.values()
        for partition in partitions:
            partition.changed = False
        active = [partition.watermark for partition in partitions if not partition.idle]
        self.idle = not active
        time = min(active) if active else max((partition.watermark for partition in partitions), default=MIN_TIME)
        if time <= self.watermark:
            return None
        self.watermark = time
        return time

    def end(self) -> None:
        """Advance the time to the maximum."""
        self.watermark = MAX_TIME
        self.idle = False

    def state(self) -> TimeState:
        """The state for the next epoch, besides the watermark."""
        if self.watermark == MAX_TIME:
            return None
        states = [partition.state() for partition in self._partitions.values()]
        says_all = PartitionState(None, self.watermark)
        return None if states == [says_all] else [list(state) for state in states]

    def idle_from(self) -> int | None:
        """The processing time at which the next partition becomes idle if no record arrives."""
        if self.watermark == MAX_TIME:
            return None
        times = [partition.idle_from() for partition in self._partitions.values()]
        return min((time for time in times if time is not None), default=None)

    def _begun(self, name: str | None) -> PartitionState:
        """The state of a partition at the start of the epoch."""
        return self._committed.get(name) or self._elsewhere.get(name) or PartitionState(name)

    def _time(self, state: PartitionState) -> PartitionTime:
        return PartitionTime(self._strategy, self._clock, state, never_idle=self.never_idle)
