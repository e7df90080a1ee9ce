"""All user functions, under PyFlink's path, and the interfaces of the state and timers that they use.

Start with ``base.py``: the life cycle of functions, and the methods that return state. ``state.py`` and
``state_descriptors.py`` define and declare state. State is implemented in ``tidemill.state.keyed`` and
``tidemill.state.operator``. Functions are called in ``tidemill.runtime.operators``.
"""

from __future__ import annotations

from tidemill.datastream.functions.asynchronous import AsyncFunction
from tidemill.datastream.functions.base import Function, KeyedStateStore, RuntimeContext
from tidemill.datastream.functions.basic import (
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
    SourceFunction,
)
from tidemill.datastream.functions.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from tidemill.datastream.functions.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
    RawOperatorStateOutput,
)
from tidemill.datastream.functions.join import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from tidemill.datastream.functions.process import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from tidemill.datastream.functions.retry_strategies import AsyncRetryPredicate, AsyncRetryStrategy
from tidemill.datastream.functions.window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from tidemill.datastream.timerservice import TimerService

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
    "SourceFunction",
    "TimerService",
    "WindowFunction",
]
