"""Streams. Each method adds an operator to the program; nothing runs until the program is executed."""

from __future__ import annotations

from tidemill.datastream.streams.data_stream import (
    AllWindowedStream,
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    CoGroupedStreams,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    IntervalJoin,
    IntervalJoined,
    JoinedStreams,
    KeyedStream,
    SplitStream,
    WindowedStream,
)

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedStream",
    "SplitStream",
    "WindowedStream",
]
