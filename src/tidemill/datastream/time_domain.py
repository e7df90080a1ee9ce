"""Which clock a timer runs by."""

from __future__ import annotations

import enum

__all__ = ["TimeDomain"]


class TimeDomain(enum.Enum):
    """The clock that fired a timer, as ``on_timer`` sees it through ``ctx.time_domain()``."""

    #: The watermark passed the timer's timestamp.
    EVENT_TIME = 0
    #: The epoch's processing-time clock passed the timer's timestamp.
    PROCESSING_TIME = 1
