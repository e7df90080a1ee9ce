"""The execution mode of a program: streaming or batch."""

from __future__ import annotations

import enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(enum.Enum):
    """STREAMING emits results as they change. BATCH needs bounded sources and emits only final results.

    AUTOMATIC is BATCH if every source is bounded, else STREAMING.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
