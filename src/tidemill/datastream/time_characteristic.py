"""Flink 1.x's setting of one notion of time for a whole program."""

from __future__ import annotations

import enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(enum.Enum):
    """The notion of time of a program (legacy).

    Event time is the default since Flink 1.12. ``ProcessingTime`` disables periodic watermarks.
    """

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
