"""The settings of an environment: typed access to its configuration."""

from __future__ import annotations

import os
from datetime import timedelta

from tidemill.common.configuration import Configuration
from tidemill.common.execution_config import ExecutionConfig
from tidemill.common.restart_strategy import RestartStrategyConfiguration
from tidemill.config import CheckpointingOptions, ExecutionOptions, PipelineOptions, StateOptions
from tidemill.config.unknown_keys import check_keys
from tidemill.datastream.checkpoint_config import CheckpointConfig
from tidemill.datastream.checkpoint_storage import shown_path
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
from tidemill.python_versions import Self

_BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
_CHANGELOG = "state.changelog.enabled"


def python_files(configuration: Configuration) -> list[str]:
    """The files listed in ``python.files``."""
    return list(filter(None, (configuration.get(PipelineOptions.PYTHON_FILES) or "").split(",")))


class EnvironmentSettings:
    """The settings of a program. All except the time characteristic are stored in the configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._time_characteristic = TimeCharacteristic.EventTime
        self._default_local_parallelism = os.cpu_count() or 1
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}

    def get_configuration(self) -> Configuration:
        """The configuration of the program. Changes to the returned object take effect."""
        return self._configuration

    def configure(self, configuration: Configuration) -> None:
        """Adds all settings of a configuration."""
        self._configuration.add_all(configuration)
        check_keys(configuration.key_set(), strict=self._configuration.get(PipelineOptions.STRICT_CONFIGURATION))

    def get_config(self) -> ExecutionConfig:
        """The settings as PyFlink's ``ExecutionConfig``, a view of the configuration."""
        return ExecutionConfig(self._configuration)

    # --- parallelism and mode

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the default parallelism of operators."""
        self._configuration.set(PipelineOptions.PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """The default parallelism. If not set, the number of cores of this machine (a cluster may use another)."""
        if self._configuration.contains(PipelineOptions.PARALLELISM):
            return self._configuration.get(PipelineOptions.PARALLELISM)
        return self._default_local_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the default max parallelism of operators, which is their number of key groups. At most 32768."""
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The default max parallelism, or -1 if not set."""
        return self._configuration.get(PipelineOptions.MAX_PARALLELISM)

    def get_default_local_parallelism(self) -> int:
        """The parallelism that :meth:`get_parallelism` returns if none is set."""
        return self._default_local_parallelism

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Sets the parallelism that :meth:`get_parallelism` returns if none is set."""
        if parallelism < 1:
            raise ValueError(f"the parallelism must be at least 1, not {parallelism}")
        self._default_local_parallelism = parallelism

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Sets the execution mode: streaming, batch, or automatic according to the sources."""
        self._configuration.set(ExecutionOptions.RUNTIME_MODE, execution_mode.name)
        return self

    def disable_operator_chaining(self) -> Self:
        """Runs every operator in a separate task."""
        self._configuration.set(PipelineOptions.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether adjacent operators may be chained into one task."""
        return self._configuration.get(PipelineOptions.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Always true: operators with different max parallelism may be chained."""
        return True

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Registers a slot sharing group under its name."""
        self._slot_sharing_groups[slot_sharing_group.name] = slot_sharing_group
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accepted without effect: the exchange between operators does not use buffer timeouts."""
        self._configuration.set_string(_BUFFER_TIMEOUT, f"{max(timeout_millis, 0)} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """The value set with :meth:`set_buffer_timeout`; 100 by default."""
        text = self._configuration.get_string(_BUFFER_TIMEOUT, "100 ms")
        return CheckpointingOptions.MIN_PAUSE.parse(text) // timedelta(milliseconds=1)

    # --- time

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> Self:
        """Sets the notion of time for the program (legacy).

        Processing time disables periodic watermarks. Ingestion time assigns timestamps to records when they are read,
        for sources that are added afterwards. Event time is the default.
        """
        self._time_characteristic = characteristic
        interval = 0 if characteristic is TimeCharacteristic.ProcessingTime else 200
        self._configuration.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, timedelta(milliseconds=interval))
        return self

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """The notion of time of the program (legacy)."""
        return self._time_characteristic

    # --- checkpoints and state

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint settings, a view of the configuration."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Enables checkpoints every ``interval`` milliseconds."""
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """The interval between checkpoints in milliseconds, or -1 if checkpointing is disabled."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The checkpointing mode; exactly-once by default."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """The checkpointing mode; exactly-once by default."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether unaligned checkpoints are enabled. The setting has no effect."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are forced. The setting has no effect."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Sets the directory of savepoints that are triggered without a directory."""
        self._configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory of savepoints that are triggered without a directory, in the form that Flink prints."""
        directory = self._configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)
        return None if directory is None else shown_path(directory)

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Accepted without effect: an epoch always writes only its changes."""
        self._configuration.set_boolean(_CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """The value set with :meth:`enable_changelog_state_backend`, or None if not set."""
        if not self._configuration.contains_key(_CHANGELOG):
            return None
        return self._configuration.get_boolean(_CHANGELOG, False)

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Sets the state backend (legacy)."""
        state_backend.apply(self._configuration)
        return self

    def get_state_backend(self) -> StateBackend | None:
        """The state backend, or None if not set (legacy)."""
        if not self._configuration.contains(StateOptions.BACKEND):
            return None
        kind = self._configuration.get(StateOptions.BACKEND)
        if kind == "hashmap":
            return HashMapStateBackend()
        return EmbeddedRocksDBStateBackend() if kind == "rocksdb" else CustomStateBackend(kind)

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """Sets the restart strategy (legacy)."""
        restart_strategy_configuration.apply_to(self._configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The restart strategy (legacy)."""
        return self.get_config().get_restart_strategy()
