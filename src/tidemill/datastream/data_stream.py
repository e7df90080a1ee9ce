"""Streams. Each method adds an operator to the program; nothing runs until the program is executed."""

from __future__ import annotations

from tidemill.common.execution_config import ExecutionConfig
from tidemill.common.type_kinds.base import TypeInformation, WrapperTypeInfo
from tidemill.common.type_kinds.basic import PickledBytesTypeInfo
from tidemill.common.type_kinds.composite import RowTypeInfo
from tidemill.common.typeinfo import Types
from tidemill.common.types import Row
from tidemill.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from tidemill.connectors.sinks import Sink
from tidemill.datastream.functions.base import Function, RuntimeContext
from tidemill.datastream.functions.basic import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ReduceFunction,
    SinkFunction,
)
from tidemill.datastream.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidemill.datastream.functions.process import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from tidemill.datastream.functions.state import ReducingState, ValueState
from tidemill.datastream.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.datastream.functions.window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.slot_sharing_group import SlotSharingGroup
from tidemill.datastream.streams.cached_data_stream import CachedDataStream
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
from tidemill.datastream.window import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from tidemill.datastream.window.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    MergingWindowAssigner,
    WindowAssigner,
)
from tidemill.datastream.window.trigger import Trigger

__all__ = [
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "CountWindowSerializer",
    "DataStream",
    "DataStreamSink",
    "ExecutionConfig",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "GlobalWindowSerializer",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListStateDescriptor",
    "MapFunction",
    "MapStateDescriptor",
    "MergingWindowAssigner",
    "NullByteKeySelector",
    "OutputTag",
    "Partitioner",
    "PickledBytesTypeInfo",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "Row",
    "RowTypeInfo",
    "RuntimeContext",
    "Sink",
    "SinkFunction",
    "SlotSharingGroup",
    "SplitStream",
    "StateDescriptor",
    "TimeWindowSerializer",
    "TimestampAssigner",
    "Trigger",
    "TypeInformation",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
    "WrapperTypeInfo",
]
