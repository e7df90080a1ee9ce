"""Flink's DataStream API under PyFlink's names: environment, streams, functions, state, windows.

The modules have the same paths as in PyFlink. Most of them only re-export classes from the subpackages:

- ``functions``: user functions, and the state and timers that they use;
- ``window``: assigners, triggers and evictors;
- ``program``: the parts of a program before it is compiled (transformations, specs, key selectors), and how it is
  submitted to an executor;
- ``streams``: the classes whose methods build a program. The main one is in ``streams/data_stream.py``;
- ``environment``: the execution environment, which is the entry point of a program.

This package does not run jobs. Sources and sinks are in :mod:`tidemill.connectors`; the subpackages ``connectors`` and
``formats`` provide them under PyFlink's paths.

For contributors: Start with ``streams/data_stream.py``. Programs are compiled in ``tidemill.graph``. User functions are
called in ``tidemill.runtime.operators``, and the state that they use is implemented in ``tidemill.state``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidemill.datastream.checkpoint_config import CheckpointConfig
    from tidemill.datastream.checkpoint_storage import (
        CheckpointStorage,
        CustomCheckpointStorage,
        FileSystemCheckpointStorage,
        JobManagerCheckpointStorage,
    )
    from tidemill.datastream.checkpointing_mode import CheckpointingMode
    from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
    from tidemill.datastream.execution_mode import RuntimeExecutionMode
    from tidemill.datastream.externalized_checkpoint_retention import (
        ExternalizedCheckpointCleanup,
        ExternalizedCheckpointRetention,
    )
    from tidemill.datastream.functions import (
        AggregateFunction,
        AllWindowFunction,
        AsyncFunction,
        AsyncRetryPredicate,
        AsyncRetryStrategy,
        BroadcastProcessFunction,
        CheckpointedFunction,
        CheckpointListener,
        CoFlatMapFunction,
        CoGroupFunction,
        CoMapFunction,
        CoProcessFunction,
        FilterFunction,
        FlatJoinFunction,
        FlatMapFunction,
        Function,
        FunctionInitializationContext,
        FunctionSnapshotContext,
        JoinFunction,
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
        KeyedProcessFunction,
        KeySelector,
        ListCheckpointed,
        MapFunction,
        Partitioner,
        ProcessAllWindowFunction,
        ProcessFunction,
        ProcessJoinFunction,
        ProcessWindowFunction,
        ReduceFunction,
        RuntimeContext,
        SinkFunction,
        SourceFunction,
        TimerService,
        WindowFunction,
    )
    from tidemill.datastream.functions.state import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        StateTtlConfig,
        ValueStateDescriptor,
    )
    from tidemill.datastream.output_tag import OutputTag
    from tidemill.datastream.program.error_policy import ErrorPolicy, PoisonRecord
    from tidemill.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
    from tidemill.datastream.state_backend import (
        CustomStateBackend,
        EmbeddedRocksDBStateBackend,
        FsStateBackend,
        HashMapStateBackend,
        MemoryStateBackend,
        PredefinedOptions,
        RocksDBStateBackend,
        StateBackend,
    )
    from tidemill.datastream.streams.async_data_stream import AsyncDataStream
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
    from tidemill.datastream.time_characteristic import TimeCharacteristic
    from tidemill.datastream.time_domain import TimeDomain
    from tidemill.datastream.window import (
        ContinuousEventTimeTrigger,
        ContinuousProcessingTimeTrigger,
        CountEvictor,
        CountSlidingWindowAssigner,
        CountTrigger,
        CountTumblingWindowAssigner,
        CountWindow,
        DeltaEvictor,
        DynamicEventTimeSessionWindows,
        DynamicProcessingTimeSessionWindows,
        EventTimeSessionWindows,
        EventTimeTrigger,
        Evictor,
        GlobalWindow,
        GlobalWindows,
        MergingWindowAssigner,
        NeverTrigger,
        ProcessingTimeoutTrigger,
        ProcessingTimeSessionWindows,
        ProcessingTimeTrigger,
        PurgingTrigger,
        SessionWindowTimeGapExtractor,
        SlidingEventTimeWindows,
        SlidingProcessingTimeWindows,
        TimeEvictor,
        TimeWindow,
        Trigger,
        TriggerResult,
        TumblingEventTimeWindows,
        TumblingProcessingTimeWindows,
        Window,
        WindowAssigner,
    )

__all__ = [
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "DeltaEvictor",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EmbeddedRocksDBStateBackend",
    "ErrorPolicy",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GlobalWindow",
    "GlobalWindows",
    "HashMapStateBackend",
    "IntervalJoin",
    "IntervalJoined",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListCheckpointed",
    "ListStateDescriptor",
    "MapFunction",
    "MapStateDescriptor",
    "MemorySize",
    "MemoryStateBackend",
    "MergingWindowAssigner",
    "NeverTrigger",
    "OutputTag",
    "Partitioner",
    "PoisonRecord",
    "PredefinedOptions",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "ReduceFunction",
    "ReducingStateDescriptor",
    "RocksDBStateBackend",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SessionWindowTimeGapExtractor",
    "SinkFunction",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "SlotSharingGroup",
    "SourceFunction",
    "SplitStream",
    "StateBackend",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimeEvictor",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "ValueStateDescriptor",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

#: The modules that define the public names, in search order.
_MODULES: Final = (
    "checkpoint_config",
    "checkpoint_storage",
    "checkpointing_mode",
    "execution_mode",
    "externalized_checkpoint_retention",
    "functions",
    "output_tag",
    "slot_sharing_group",
    "state_backend",
    "time_characteristic",
    "time_domain",
    "window",
    "functions.state",
    "program.error_policy",
    "environment.stream_execution_environment",
    "streams.async_data_stream",
    "streams.data_stream",
)


def __getattr__(name: str) -> Any:
    # Loaded on first use, because connectors import subpackages of this package, and the streams import connectors.
    if name in __all__:
        for module in _MODULES:
            found = importlib.import_module(f"{__name__}.{module}")
            if hasattr(found, name):
                value = globals()[name] = getattr(found, name)
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
