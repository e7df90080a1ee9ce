"""All user functions under PyFlink's path; they are written down in the modules imported here."""

from __future__ import annotations

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
from tidemill.datastream.process_functions import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from tidemill.datastream.timerservice import TimerService

__all__ = [
    "AggregateFunction",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CallableReduceFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
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
    "ProcessFunction",
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
]
