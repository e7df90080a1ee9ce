"""The event time clock of an operator: combines the watermarks of its input channels as Flink does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.runtime.batch.records import MIN_TIME


@dataclass(frozen=True)
class Channel:
    """One sending subtask of one edge."""

    edge: int
    sender: int


class InputClock:
    """The clock of an operator: the minimum over its inputs that are not idle, never going back.

    If all inputs are idle, the clock does not wait for any: it advances to the greatest of their times. An input that
    was idle counts again as soon as it is active, whatever its time. :class:`_Input` describes how the channels of one
    input are combined.

    An input is what one method of an operator reads: the streams of a union are one input, connected streams are two.
    ``inputs`` maps each edge to its input, if there are several.
    """

    def __init__(self, channels: Iterable[Channel], current: int, inputs: Mapping[int, int] | None = None) -> None:
        self._by_channel: dict[Channel, _Input] = {}
        # The times of several inputs are not kept from one epoch to the next: their channels report them.
        single = inputs is None or len(set(inputs.values())) <= 1
        by_number: dict[int, _Input] = {}
        for channel in channels:
            number = 0 if inputs is None else inputs[channel.edge]
            of_channel = by_number.setdefault(number, _Input(current if single else MIN_TIME))
            of_channel.times[channel] = MIN_TIME
            self._by_channel[channel] = of_channel
        self._inputs = list(by_number.values())
        self.current = current

    @property
    def idle(self) -> bool:
        """Whether all channels are idle."""
        return all(one.idle for one in self._inputs)

    def is_idle(self, channel: Channel) -> bool:
        """Whether a channel is idle."""
        return channel in self._by_channel[channel].idle_channels

    def advance(self, channel: Channel, watermark: int) -> int | None:
        """Advance the time of a channel; return the new time of the operator if it advanced too."""
        return self._moved() if self._by_channel[channel].advance(channel, watermark) else None

    def begin_idle(self, channel: Channel, watermark: int) -> int | None:
        """Register a channel that is idle at the start of an epoch; return the new time of the operator if it advanced.

        If its watermark counts, it already did so in an earlier epoch.
        """
        self._by_channel[channel].begin_idle(channel, watermark)
        return self._moved()

    def set_idle(self, channel: Channel, idle: bool) -> int | None:
        """Mark a channel as idle or as active again; return the new time of the operator if it advanced."""
        self._by_channel[channel].set_idle(channel, idle)
        return self._moved()

    def _moved(self) -> int | None:
        inputs = self._inputs
        if len(inputs) == 1:
            time = inputs[0].current
        elif self.idle:
            time = max(max(one.times.values()) for one in inputs)
        else:
            time = min(one.current for one in inputs if not one.idle)
        if time <= self.current:
            return None
        self.current = time
        return time


class _Input:
    """The time of one input: the minimum over its channels that are not idle, never going back.

    A channel that becomes active again may be *behind*: time has advanced without it, and it counts only when it has
    caught up. A channel below the clock at the start of an epoch is behind for the same reason. The input waits for a
    channel that has no time yet. When the last channel that held the clock back becomes idle too, time advances to the
    greatest time of all channels.
    """

    def __init__(self, current: int) -> None:
        self.current = current
        self.times: dict[Channel, int] = {}
        self.idle_channels: set[Channel] = set()
        self._behind: set[Channel] = set()

    @property
    def idle(self) -> bool:
        """Whether all channels are idle."""
        return len(self.idle_channels) == len(self.times)

    def advance(self, channel: Channel, watermark: int) -> bool:
        """Advance the time of a channel; return whether the time of the input advanced."""
        before = self.times[channel]
        if watermark <= before:
            return False
        self.times[channel] = watermark
        if channel in self.idle_channels:
            return False
        if before > self.current and not self.idle_channels and not self._behind:
            return False  # another channel holds the clock back
        if watermark < self.current:
            self._behind.add(channel)
        else:
            self._behind.discard(channel)
        return self._recompute()

    def set_idle(self, channel: Channel, idle: bool) -> None:
        """Mark a channel as idle or as active again."""
        if idle == (channel in self.idle_channels):
            return
        if not idle:
            self.idle_channels.discard(channel)
            if self.times[channel] < self.current:
                self._behind.add(channel)
            return
        self.idle_channels.add(channel)
        self._behind.discard(channel)
        if self.times[channel] != self.current:
            return  # this channel did not hold the clock back
        if self.idle:
            self.current = max(self.times.values())
        else:
            self._recompute()

    def begin_idle(self, channel: Channel, watermark: int) -> None:
        """Register a channel that has been idle since the start of the epoch or longer."""
        self.times[channel] = watermark
        self.idle_channels.add(channel)
        if self.idle:
            self.current = max(self.current, *self.times.values())
        else:
            self._recompute()

    def _recompute(self) -> bool:
        absent = self.idle_channels | self._behind if self.idle_channels else self._behind
        if absent:
            times = [time for channel, time in self.times.items() if channel not in absent]
            time = min(times, default=self.current)
        else:
            time = min(self.times.values())
        if time <= self.current:
            return False
        self.current = time
        return True
