"""All user functions under PyFlink's path; they are written down in the modules imported here."""

from __future__ import annotations

from tidemill.datastream.async_functions import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from tidemill.datastream.basic_functions import (
    AggregateFunction,
    CallableReduceFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ReduceFunction,
    RichAggregateFunction,
    RichCoFlatMapFunction,
    RichCoMapFunction,
    RichFilterFunction,
    RichFlatMapFunction,
    RichMapFunction,
    RichReduceFunction,
    RichSinkFunction,
    SinkFunction,
)
from tidemill.datastream.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from tidemill.datastream.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
    RawOperatorStateOutput,
)
from tidemill.datastream.function_base import Function, KeyedStateStore, RuntimeContext
from tidemill.datastream.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from tidemill.datastream.process_functions import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from tidemill.datastream.timerservice import TimerService
from tidemill.datastream.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CallableReduceFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "ListCheckpointed",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "RawOperatorStateOutput",
    "ReduceFunction",
    "RichAggregateFunction",
    "RichCoFlatMapFunction",
    "RichCoMapFunction",
    "RichFilterFunction",
    "RichFlatMapFunction",
    "RichMapFunction",
    "RichReduceFunction",
    "RichSinkFunction",
    "RuntimeContext",
    "SinkFunction",
    "TimerService",
    "WindowFunction",
]
