"""The execution environment, in which a program is built and executed."""

from __future__ import annotations

from tidemill.common.configuration import Configuration
from tidemill.common.execution_config import ExecutionConfig
from tidemill.common.job_client import JobClient
from tidemill.common.job_execution_result import JobExecutionResult
from tidemill.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from tidemill.common.type_kinds.base import TypeInformation, WrapperTypeInfo
from tidemill.common.type_kinds.basic import PickledBytesTypeInfo
from tidemill.common.typeinfo import Types
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sources import Source
from tidemill.datastream.checkpoint_config import CheckpointConfig
from tidemill.datastream.checkpointing_mode import CheckpointingMode
from tidemill.datastream.environment.stream_execution_environment import (
    StreamExecutionEnvironment,
)
from tidemill.datastream.execution_mode import RuntimeExecutionMode
from tidemill.datastream.functions.basic import SourceFunction
from tidemill.datastream.slot_sharing_group import SlotSharingGroup
from tidemill.datastream.state_backend import StateBackend
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.time_characteristic import TimeCharacteristic

__all__ = [
    "CheckpointConfig",
    "CheckpointingMode",
    "Configuration",
    "DataStream",
    "ExecutionConfig",
    "JobClient",
    "JobExecutionResult",
    "PickledBytesTypeInfo",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "RuntimeExecutionMode",
    "SlotSharingGroup",
    "Source",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
    "WrapperTypeInfo",
]
