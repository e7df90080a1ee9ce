"""The execution settings of a program, as methods that read and write its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tidemill.common.configuration import Configuration
from tidemill.common.execution_mode import ExecutionMode
from tidemill.common.input_dependency_constraint import InputDependencyConstraint
from tidemill.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from tidemill.common.time import as_millis
from tidemill.config import CheckpointingOptions, MetricOptions, PipelineOptions, TaskOptions
from tidemill.without_effect import without_effect

__all__ = [
    "ExecutionConfig",
    "ExecutionMode",
    "InputDependencyConstraint",
]

_CLEANER = "pipeline.closure-cleaner-level"
_FORCE_KRYO = "pipeline.force-kryo"
_FORCE_AVRO = "pipeline.force-avro"
_CANCEL_INTERVAL = TaskOptions.CANCELLATION_INTERVAL
_CANCEL_TIMEOUT = TaskOptions.CANCELLATION_TIMEOUT
_AUTO_REGISTRATION = "pipeline.auto-type-registration"
_EXECUTION_MODE = "user.execution-mode"
_CONSTRAINT = "user.input-dependency-constraint"
_NO_EXCHANGE = "Spark exchanges data between tasks"
_PARAMETER_PREFIX = "pipeline.global-job-parameters."


class ExecutionConfig:
    """The execution settings of a program: a view of the underlying :class:`Configuration`, without state of its own.

    Settings that only apply to the JVM (Kryo, Avro, closure cleaner) are stored and returned, but have no effect.

    >>> config = ExecutionConfig().set_parallelism(4).enable_object_reuse()
    >>> config.get_parallelism(), config.is_object_reuse_enabled()
    (4, True)
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    # --- parallelism

    def get_parallelism(self) -> int:
        """The default parallelism of operators; :data:`PARALLELISM_DEFAULT` if none is set."""
        if not self._configuration.contains(PipelineOptions.PARALLELISM):
            return self.PARALLELISM_DEFAULT
        return self._configuration.get(PipelineOptions.PARALLELISM)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets the default parallelism of operators.

        :data:`PARALLELISM_DEFAULT` removes the setting; :data:`PARALLELISM_UNKNOWN` leaves it unchanged.
        """
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(PipelineOptions.PARALLELISM.key)
        elif parallelism != self.PARALLELISM_UNKNOWN:
            self._configuration.set(PipelineOptions.PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The maximum parallelism, which is the number of key groups; -1 if it is derived from the parallelism."""
        return self._configuration.get(PipelineOptions.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    # --- intervals, in milliseconds

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        self._configuration.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, timedelta(milliseconds=interval))
        return self

    def get_auto_watermark_interval(self) -> int:
        return as_millis(self._configuration.get(PipelineOptions.AUTO_WATERMARK_INTERVAL))

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval of latency markers; 0 or less disables them."""
        self._configuration.set(MetricOptions.LATENCY_INTERVAL, timedelta(milliseconds=max(interval, 0)))
        return self

    def get_latency_tracking_interval(self) -> int:
        return as_millis(self._configuration.get(MetricOptions.LATENCY_INTERVAL))

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        self._configuration.set(_CANCEL_INTERVAL, timedelta(milliseconds=interval))
        return self

    def get_task_cancellation_interval(self) -> int:
        return as_millis(self._configuration.get(_CANCEL_INTERVAL))

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        self._configuration.set(_CANCEL_TIMEOUT, timedelta(milliseconds=timeout))
        return self

    def get_task_cancellation_timeout(self) -> int:
        return as_millis(self._configuration.get(_CANCEL_TIMEOUT))

    # --- objects, types and uids

    def enable_object_reuse(self) -> ExecutionConfig:
        """Passes objects from operator to operator without copying them.

        Safe only for programs that do not modify objects after emitting or receiving them.
        """
        return self._switch(PipelineOptions.OBJECT_REUSE.key, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        return self._switch(PipelineOptions.OBJECT_REUSE.key, False)

    def is_object_reuse_enabled(self) -> bool:
        return self._configuration.get(PipelineOptions.OBJECT_REUSE)

    def enable_generic_types(self) -> ExecutionConfig:
        return self._switch(PipelineOptions.GENERIC_TYPES.key, True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Rejects types that would be serialized with pickle."""
        return self._switch(PipelineOptions.GENERIC_TYPES.key, False)

    def has_generic_types_disabled(self) -> bool:
        return not self._configuration.get(PipelineOptions.GENERIC_TYPES)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        return self._switch(PipelineOptions.AUTO_GENERATE_UIDS.key, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Requires an explicit uid for every operator."""
        return self._switch(PipelineOptions.AUTO_GENERATE_UIDS.key, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        return self._configuration.get(PipelineOptions.AUTO_GENERATE_UIDS)

    # --- job parameters, restarts, snapshots

    def get_global_job_parameters(self) -> dict[str, str]:
        """The user's job parameters, whether set as one map or as individual keys."""
        single = {
            key.removeprefix(_PARAMETER_PREFIX): value
            for key, value in self._configuration.to_dict().items()
            if key.startswith(_PARAMETER_PREFIX)
        }
        together = self._configuration.get(PipelineOptions.GLOBAL_JOB_PARAMETERS)
        return {**(together or {}), **single}

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Replaces the user's job parameters. Values are converted to text."""
        for key in self._configuration.key_set():
            if key.startswith(_PARAMETER_PREFIX):
                self._configuration.remove_config(key)
        texts = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        self._configuration.set(PipelineOptions.GLOBAL_JOB_PARAMETERS, texts)
        return self

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> ExecutionConfig:
        restart_strategy_configuration.apply_to(self._configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        return RestartStrategies.from_configuration(self._configuration)

    def is_use_snapshot_compression(self) -> bool:
        return self._configuration.get(CheckpointingOptions.SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        return self._switch(CheckpointingOptions.SNAPSHOT_COMPRESSION.key, use_snapshot_compression)

    # --- JVM settings: stored, without effect

    def enable_closure_cleaner(self) -> ExecutionConfig:
        self._configuration.set_string(_CLEANER, "RECURSIVE")
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        self._configuration.set_string(_CLEANER, "NONE")
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        return self._configuration.get_string(_CLEANER, "RECURSIVE") != "NONE"

    def enable_force_kryo(self) -> ExecutionConfig:
        return self._switch(_FORCE_KRYO, True)

    def disable_force_kryo(self) -> ExecutionConfig:
        return self._switch(_FORCE_KRYO, False)

    def is_force_kryo_enabled(self) -> bool:
        return self._configuration.get_boolean(_FORCE_KRYO, False)

    def enable_force_avro(self) -> ExecutionConfig:
        return self._switch(_FORCE_AVRO, True)

    def disable_force_avro(self) -> ExecutionConfig:
        return self._switch(_FORCE_AVRO, False)

    def is_force_avro_enabled(self) -> bool:
        return self._configuration.get_boolean(_FORCE_AVRO, False)

    def set_execution_mode(self, execution_mode: ExecutionMode) -> ExecutionConfig:
        """Accepted without effect: Spark exchanges data. The value is stored."""
        without_effect("set_execution_mode()", _NO_EXCHANGE)
        self._configuration.set_string(_EXECUTION_MODE, execution_mode.name)
        return self

    def get_execution_mode(self) -> ExecutionMode:
        """The value set with :meth:`set_execution_mode`."""
        return ExecutionMode[self._configuration.get_string(_EXECUTION_MODE, ExecutionMode.PIPELINED.name)]

    def set_default_input_dependency_constraint(
        self, input_dependency_constraint: InputDependencyConstraint
    ) -> ExecutionConfig:
        """Accepted without effect: Spark schedules tasks. The value is stored."""
        without_effect("set_default_input_dependency_constraint()", "Spark schedules tasks")
        self._configuration.set_string(_CONSTRAINT, input_dependency_constraint.name)
        return self

    def get_default_input_dependency_constraint(self) -> InputDependencyConstraint:
        """The value set with :meth:`set_default_input_dependency_constraint`."""
        return InputDependencyConstraint[
            self._configuration.get_string(_CONSTRAINT, InputDependencyConstraint.ANY.name)
        ]

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> ExecutionConfig:
        """Accepted without effect: programs have no Java classes."""
        return self._no_java("add_default_kryo_serializer()")

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> ExecutionConfig:
        """Accepted without effect: programs have no Java classes."""
        return self._no_java("register_type_with_kryo_serializer()")

    def register_kryo_type(self, type_class_name: str) -> ExecutionConfig:
        """Accepted without effect: programs have no Java classes."""
        return self._no_java("register_kryo_type()")

    def register_pojo_type(self, type_class_name: str) -> ExecutionConfig:
        """Accepted without effect: programs have no Java classes."""
        return self._no_java("register_pojo_type()")

    def disable_auto_type_registration(self) -> ExecutionConfig:
        """Accepted without effect: programs have no Java classes. The value is stored."""
        self._no_java("disable_auto_type_registration()")
        return self._switch(_AUTO_REGISTRATION, False)

    def is_auto_type_registration_disabled(self) -> bool:
        """The value set with :meth:`disable_auto_type_registration`."""
        return not self._configuration.get_boolean(_AUTO_REGISTRATION, True)

    def get_registered_types_with_kryo_serializer_classes(self) -> dict[str, str]:
        return {}

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        return []

    def get_registered_pojo_types(self) -> list[str]:
        return []

    def _no_java(self, name: str) -> ExecutionConfig:
        without_effect(name, "programs have no Java classes")
        return self

    def _switch(self, key: str, on: bool) -> ExecutionConfig:
        self._configuration.set_boolean(key, on)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)
