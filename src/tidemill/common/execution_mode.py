"""Flink 1.x's mode of data exchange in batch programs."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExecutionMode"]


class ExecutionMode(Enum):
    """How operators of a batch program exchange data (legacy). It has no effect: Spark exchanges data.

    The execution mode of a DataStream program is :class:`~tidemill.datastream.RuntimeExecutionMode`.
    """

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
