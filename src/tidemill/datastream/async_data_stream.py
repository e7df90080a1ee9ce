"""Asynchronous I/O: functions that wait for external systems."""

from __future__ import annotations

from tidemill.common.time import Time
from tidemill.common.type_kinds.base import TypeInformation
from tidemill.datastream.functions.asynchronous import AsyncFunction
from tidemill.datastream.functions.retry_strategies import AsyncRetryStrategy
from tidemill.datastream.streams.async_data_stream import (
    AsyncDataStream,
)
from tidemill.datastream.streams.data_stream import DataStream

__all__ = [
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryStrategy",
    "DataStream",
    "Time",
    "TypeInformation",
]
