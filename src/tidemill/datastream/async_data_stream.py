"""Asynchronous I/O: functions that wait for external systems."""

from __future__ import annotations

from tidemill.datastream.streams.async_data_stream import (
    AsyncDataStream,
)

__all__ = [
    "AsyncDataStream",
]
