"""The environment: where a program is built and from where it is started."""

from __future__ import annotations

from tidemill.datastream.environment.stream_execution_environment import (
    StreamExecutionEnvironment,
)

__all__ = [
    "StreamExecutionEnvironment",
]
