"""Flink 1.x's choice of one notion of time for a whole program."""

from __future__ import annotations

import enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(enum.Enum):
    """Legacy: which time the operators of a program work by.

    Event time is the default since Flink 1.12; ``ProcessingTime`` turns periodic watermarks off.
    """

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
