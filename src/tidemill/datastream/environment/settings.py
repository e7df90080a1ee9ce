"""The settings of an environment: typed access to its configuration."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Self

from tidemill.common.configuration import Configuration
from tidemill.common.execution_config import ExecutionConfig
from tidemill.common.restart_strategy import RestartStrategyConfiguration
from tidemill.config import CheckpointingOptions, ExecutionOptions, PipelineOptions, StateOptions
from tidemill.datastream.checkpoint_config import CheckpointConfig
from tidemill.datastream.checkpointing_mode import CheckpointingMode
from tidemill.datastream.execution_mode import RuntimeExecutionMode
from tidemill.datastream.slot_sharing_group import SlotSharingGroup
from tidemill.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
)
from tidemill.datastream.time_characteristic import TimeCharacteristic

_BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
_CHANGELOG = "state.changelog.enabled"


def python_files(configuration: Configuration) -> list[str]:
    """The files that ``python.files`` names."""
    return list(filter(None, (configuration.get(PipelineOptions.PYTHON_FILES) or "").split(",")))


class EnvironmentSettings:
    """What can be set for a whole program. Everything but the time characteristic is kept in the configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._time_characteristic = TimeCharacteristic.EventTime
        self._default_local_parallelism = os.cpu_count() or 1
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}

    def get_configuration(self) -> Configuration:
        """The configuration itself: changes to it count."""
        return self._configuration

    def configure(self, configuration: Configuration) -> None:
        """Take over all settings of a configuration."""
        self._configuration.add_all(configuration)

    def get_config(self) -> ExecutionConfig:
        """The settings as PyFlink's ``ExecutionConfig``, a view on the configuration."""
        return ExecutionConfig(self._configuration)

    # --- parallelism and mode

    def set_parallelism(self, parallelism: int) -> Self:
        """Subtasks of every operator that does not say otherwise."""
        self._configuration.set(PipelineOptions.PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """The default parallelism: as set, else the number of cores of this machine (a cluster may use another)."""
        if self._configuration.contains(PipelineOptions.PARALLELISM):
            return self._configuration.get(PipelineOptions.PARALLELISM)
        return self._default_local_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Number of key groups of every operator that does not say otherwise: at most 32768."""
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups, -1 if not set."""
        return self._configuration.get(PipelineOptions.MAX_PARALLELISM)

    def get_default_local_parallelism(self) -> int:
        """What :meth:`get_parallelism` answers if nothing is set."""
        return self._default_local_parallelism

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """What :meth:`get_parallelism` answers if nothing is set."""
        if parallelism < 1:
            raise ValueError(f"a parallelism is at least 1, not {parallelism}")
        self._default_local_parallelism = parallelism

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Run as a stream, as a batch, or as the sources suggest."""
        self._configuration.set(ExecutionOptions.RUNTIME_MODE, execution_mode.name)
        return self

    def disable_operator_chaining(self) -> Self:
        """Run every operator in a task of its own."""
        self._configuration.set(PipelineOptions.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether neighbouring operators may share a task."""
        return self._configuration.get(PipelineOptions.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Operators with different max parallelism may share a task."""
        return True

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Make a group known by its name."""
        self._slot_sharing_groups[slot_sharing_group.name] = slot_sharing_group
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accepted: an epoch hands its records on when they are there."""
        self._configuration.set_string(_BUFFER_TIMEOUT, f"{max(timeout_millis, 0)} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """What was set with :meth:`set_buffer_timeout`, 100 by default."""
        text = self._configuration.get_string(_BUFFER_TIMEOUT, "100 ms")
        return CheckpointingOptions.MIN_PAUSE.parse(text) // timedelta(milliseconds=1)

    # --- time

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> Self:
        """Legacy: which time operators work by.

        Processing time turns periodic watermarks off; ingestion time stamps the records of sources that are added
        afterwards as they are read; event time is the default.
        """
        self._time_characteristic = characteristic
        interval = 0 if characteristic is TimeCharacteristic.ProcessingTime else 200
        self._configuration.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, timedelta(milliseconds=interval))
        return self

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """Legacy: which time operators work by."""
        return self._time_characteristic

    # --- checkpoints and state

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Checkpoint settings, a view on the configuration."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Make a checkpoint every ``interval`` milliseconds."""
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints, -1 if there are none."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once, unless set otherwise."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Exactly once, unless set otherwise."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether unaligned checkpoints were asked for."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints were insisted on."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Where savepoints go that name no directory."""
        self._configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints go that name no directory."""
        return self._configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Accepted: an epoch always writes only what it changed."""
        self._configuration.set_boolean(_CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What was set with :meth:`enable_changelog_state_backend`, None if nothing was."""
        if not self._configuration.contains_key(_CHANGELOG):
            return None
        return self._configuration.get_boolean(_CHANGELOG, False)

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Legacy: where state lives while the job runs."""
        state_backend.apply(self._configuration)
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Legacy: where state lives, None if nothing was set."""
        if not self._configuration.contains(StateOptions.BACKEND):
            return None
        kind = self._configuration.get(StateOptions.BACKEND)
        if kind == "hashmap":
            return HashMapStateBackend()
        return EmbeddedRocksDBStateBackend() if kind == "rocksdb" else CustomStateBackend(kind)

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """Legacy: what happens when the job fails."""
        restart_strategy_configuration.apply_to(self._configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """Legacy: what happens when the job fails."""
        return self.get_config().get_restart_strategy()
