"""Flink's DataStream API: environment, streams, functions, state. PyFlink's names."""

from __future__ import annotations

from tidemill.datastream.checkpoint_config import CheckpointConfig
from tidemill.datastream.checkpoint_storage import (
    CheckpointStorage,
    CustomCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from tidemill.datastream.checkpointing_mode import CheckpointingMode
from tidemill.datastream.data_stream import (
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    SplitStream,
)
from tidemill.datastream.execution_mode import RuntimeExecutionMode
from tidemill.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from tidemill.datastream.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    TimerService,
)
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
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
from tidemill.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidemill.datastream.time_characteristic import TimeCharacteristic
from tidemill.datastream.time_domain import TimeDomain

__all__ = [
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "Function",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListStateDescriptor",
    "MapFunction",
    "MapStateDescriptor",
    "MemorySize",
    "MemoryStateBackend",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ReduceFunction",
    "ReducingStateDescriptor",
    "RocksDBStateBackend",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SplitStream",
    "StateBackend",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimerService",
    "ValueStateDescriptor",
]
