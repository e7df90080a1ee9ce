"""The execution environment, in which a program is built and executed."""

from __future__ import annotations

from tidemill.datastream.environment.stream_execution_environment import (
    StreamExecutionEnvironment,
)

__all__ = [
    "StreamExecutionEnvironment",
]
