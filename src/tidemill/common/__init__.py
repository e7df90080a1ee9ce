"""Classes that every program uses: types, rows, time, watermarks, configuration, job clients. Names follow PyFlink.

For contributors: Start with ``typeinfo.py``; the classes of types are in ``type_kinds``. Reports of jobs are in
``reports``. ``calls.py`` is the only module that calls user functions on whole batches. The options themselves are in
``tidemill.config``, the storage of typed values is in ``tidemill.state.codecs``, and user functions are in
``tidemill.datastream.functions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.common.completable_future import CompletableFuture
from tidemill.common.config_options import ConfigOption, ConfigOptions
from tidemill.common.configuration import Configuration
from tidemill.common.execution_config import ExecutionConfig
from tidemill.common.execution_mode import ExecutionMode
from tidemill.common.input_dependency_constraint import InputDependencyConstraint
from tidemill.common.job_client import JobClient
from tidemill.common.job_execution_result import JobExecutionResult
from tidemill.common.job_id import JobID
from tidemill.common.job_status import JobStatus
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.common.reports.exit_codes import ExitCode, exit_code_of, run_main
from tidemill.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from tidemill.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from tidemill.common.serializer import TypeSerializer
from tidemill.common.time import Duration, Instant, Time
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.types import Row, RowKind
from tidemill.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    TimestampAssigner,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from tidemill.late_names import SCHEMAS, late

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExceptionEntry",
    "ExecutionConfig",
    "ExecutionMode",
    "ExitCode",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "exit_code_of",
    "run_main",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return late(__name__, SCHEMAS, name)
