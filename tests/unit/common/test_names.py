"""A PyFlink program finds every name where it expects it, and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tidemill.common
import tidemill.config

# PyFlink 2.3: module -> its public names (those of Java objects left out).
PYFLINK = {
    "common": "Configuration ConfigOption ConfigOptions ExecutionConfig TypeInformation TypeSerializer Types "
    "SerializationSchema DeserializationSchema SimpleStringSchema ByteArraySchema Encoder CompletableFuture "
    "InputDependencyConstraint JobClient JobExecutionResult JobID JobStatus RestartStrategies "
    "RestartStrategyConfiguration Row RowKind WatermarkStrategy Duration Instant Time "
    "AssignerWithPeriodicWatermarksWrapper",
    "common.completable_future": "CompletableFuture",
    "common.config_options": "ConfigOptions ConfigOption",
    "common.configuration": "Configuration",
    "common.constants": "MAX_LONG_VALUE MIN_LONG_VALUE DEFAULT_OUTPUT_TAG",
    "common.execution_config": "ExecutionConfig",
    "common.input_dependency_constraint": "InputDependencyConstraint",
    "common.job_client": "JobClient",
    "common.job_execution_result": "JobExecutionResult",
    "common.job_id": "JobID",
    "common.job_status": "JobStatus",
    "common.restart_strategy": "RestartStrategies RestartStrategyConfiguration",
    "common.serialization": "SerializationSchema DeserializationSchema SimpleStringSchema ByteArraySchema Encoder "
    "BulkWriterFactory RowFieldExtractorSchema",
    "common.serializer": "TypeSerializer",
    "common.time": "Duration Instant Time",
    "common.typeinfo": "TypeInformation Types BasicType BasicTypeInfo SqlTimeTypeInfo PrimitiveArrayTypeInfo "
    "BasicArrayTypeInfo ObjectArrayTypeInfo PickledBytesTypeInfo RowTypeInfo TupleTypeInfo DateTypeInfo TimeTypeInfo "
    "TimestampTypeInfo ListTypeInfo MapTypeInfo",
    "common.types": "Row RowKind",
    "common.watermark_strategy": "WatermarkStrategy TimestampAssigner AssignerWithPeriodicWatermarksWrapper",
}
MODULES = [
    module.name
    for package in (tidemill.common, tidemill.config)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("module", PYFLINK)
def test_names_are_where_pyflink_has_them(module: str) -> None:
    found = importlib.import_module(f"tidemill.{module}")
    assert [name for name in PYFLINK[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
