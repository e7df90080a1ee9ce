"""The time domain of a timer."""

from __future__ import annotations

import enum

__all__ = ["TimeDomain"]


class TimeDomain(enum.Enum):
    """The time domain of a firing timer, which ``ctx.time_domain()`` returns in ``on_timer``."""

    #: The watermark passed the timer's timestamp.
    EVENT_TIME = 0
    #: The processing time of the epoch passed the timer's timestamp.
    PROCESSING_TIME = 1
