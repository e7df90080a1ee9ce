"""Settings and classes of PyFlink 1.x that 2.x does not have any more."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tidemill.common import (
    Configuration,
    ExecutionConfig,
    ExecutionMode,
    InputDependencyConstraint,
    TypeInformation,
    Types,
)
from tidemill.config import CheckpointingOptions, RocksDBOptions, StateOptions
from tidemill.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    DataStream,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FsStateBackend,
    MemorySize,
    MemoryStateBackend,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
)
from tidemill.datastream.data_stream import CachedDataStream
from tidemill.datastream.program.transformations import Partitioning
from tidemill.errors import GraphError


def key_type_of(stream: DataStream) -> TypeInformation | None:
    """The type of the keys that a stream is partitioned by."""
    partitioning = stream._upstreams[0].partitioning
    assert partitioning is not None
    found: Partitioning = pickle.loads(partitioning.data)
    return found.key_type


def environment() -> StreamExecutionEnvironment:
    settings = {"execution.target": "local", "parallelism.default": 1}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def test_externalized_checkpoints() -> None:
    config = CheckpointConfig(Configuration())
    assert not config.is_externalized_checkpoints_enabled()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_cleanup() is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
    assert not config.set_prefer_checkpoint_for_recovery(True).is_prefer_checkpoint_for_recovery()


def test_the_defaults_of_checkpoints_are_those_that_apply() -> None:
    config = CheckpointConfig(Configuration())
    assert config.get_checkpointing_mode() is CheckpointConfig.DEFAULT_MODE is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == CheckpointConfig.DEFAULT_TIMEOUT
    assert config.get_min_pause_between_checkpoints() == CheckpointConfig.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS
    assert config.get_max_concurrent_checkpoints() == CheckpointConfig.DEFAULT_MAX_CONCURRENT_CHECKPOINTS


def test_settings_for_java_are_accepted() -> None:
    config = ExecutionConfig()
    assert config.get_execution_mode() is ExecutionMode.PIPELINED
    assert config.set_execution_mode(ExecutionMode.BATCH_FORCED).get_execution_mode() is ExecutionMode.BATCH_FORCED
    assert config.get_default_input_dependency_constraint() is InputDependencyConstraint.ANY
    config.set_default_input_dependency_constraint(InputDependencyConstraint.ALL)
    assert config.get_default_input_dependency_constraint() is InputDependencyConstraint.ALL
    assert not config.is_auto_type_registration_disabled()
    assert config.disable_auto_type_registration().is_auto_type_registration_disabled()
    config.add_default_kryo_serializer("a", "b").register_type_with_kryo_serializer("a", "b")
    config.register_kryo_type("a").register_pojo_type("a")
    assert config.get_registered_types_with_kryo_serializer_classes() == {}
    env = environment()
    env.add_default_kryo_serializer("a", "b")
    env.register_type_with_kryo_serializer("a", "b")
    env.register_type("a")
    env.register_cached_file("/a", "name", executable=True)


def test_a_memory_state_backend() -> None:
    backend = MemoryStateBackend("file:///checkpoints", "file:///savepoints", 100, False)
    assert (backend.get_max_state_size(), backend.is_using_asynchronous_snapshots()) == (100, False)
    configuration = Configuration()
    backend.apply(configuration)
    assert configuration.get(CheckpointingOptions.STORAGE) == "jobmanager"
    assert configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY) == "file:///savepoints"
    assert MemoryStateBackend().get_max_state_size() == MemoryStateBackend.DEFAULT_MAX_STATE_SIZE


def test_a_file_system_state_backend() -> None:
    backend = FsStateBackend("file:///checkpoints", "file:///savepoints", 10, 20)
    assert backend.get_checkpoint_path() == "file:/checkpoints"
    assert (backend.get_min_file_size_threshold(), backend.get_write_buffer_size()) == (10, 20)
    assert backend.is_using_asynchronous_snapshots()
    env = environment()
    env.set_state_backend(backend)
    assert env.get_default_savepoint_directory() == "file:/savepoints"
    assert env.get_configuration().get(CheckpointingOptions.DIRECTORY) == "file:///checkpoints"


def test_a_rocksdb_state_backend_stores_checkpoints_where_another_backend_does() -> None:
    checkpoints = FsStateBackend("file:///checkpoints")
    backend = RocksDBStateBackend(checkpoint_stream_backend=checkpoints)
    backend.set_number_of_transfering_threads(3)
    assert backend.get_checkpoint_backend() is checkpoints
    assert backend.get_number_of_transfering_threads() == 3
    configuration = Configuration()
    backend.apply(configuration)
    assert configuration.get(StateOptions.BACKEND) == "rocksdb"
    assert configuration.get(CheckpointingOptions.DIRECTORY) == "file:///checkpoints"
    assert configuration.get(RocksDBOptions.PREDEFINED_OPTIONS) == "DEFAULT"
    with pytest.raises(ValueError, match="checkpoint_data_uri or checkpoint_stream_backend"):
        RocksDBStateBackend()


def test_memory_sizes_are_compared() -> None:
    number: Any = 3
    small, large = MemorySize(bytes_size=1024), MemorySize.of_mebi_bytes(1)
    assert small < large
    assert small <= large
    assert large > small
    assert large >= MemorySize(1 << 20)
    assert MemorySize(small) == small
    with pytest.raises(TypeError, match="Does not support comparison with non-MemorySize 3"):
        sorted([number, small])
    with pytest.raises(TypeError, match="needs a number of bytes"):
        MemorySize()


def test_a_cached_stream_is_read_by_several_programs() -> None:
    env = environment()
    cached = env.from_collection([1, 2, 3]).map(lambda n: n * 2).cache()
    assert isinstance(cached, CachedDataStream)
    assert list(cached.execute_and_collect()) == [2, 4, 6]
    assert list(cached.filter(lambda n: n > 2).execute_and_collect()) == [4, 6]
    cached.invalidate()
    with pytest.raises(GraphError, match=r"cache\(\) after key_by\(\)"):
        cached.key_by(lambda n: n).cache()


def test_older_names_of_arguments() -> None:
    env = environment()
    words = env.from_collection(["a b"]).flat_map(str.split, result_type=Types.STRING())
    assert words.get_type() == Types.STRING()
    keyed = words.key_by(lambda word: word, key_type_info=Types.STRING())
    assert key_type_of(keyed) == Types.STRING()
    other = keyed.key_by(len, key_type_info=Types.INT())
    assert key_type_of(other) == Types.INT()
    connected = words.connect(words).key_by(len, len, key_type_info=Types.INT())
    assert key_type_of(connected.stream1) == Types.INT()
