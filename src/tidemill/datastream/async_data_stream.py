"""Adds functions to a stream that wait for something outside the job."""

from __future__ import annotations

from tidemill.datastream.streams.async_data_stream import (
    AsyncDataStream,
)

__all__ = [
    "AsyncDataStream",
]
