from __future__ import annotations

import pytest

from tidemill.common import Configuration, ExecutionConfig, RestartStrategies
from tidemill.config import PipelineOptions
from tidemill.errors import ConfigurationError


def test_it_is_a_view_of_its_configuration() -> None:
    conf = Configuration()
    config = ExecutionConfig(conf).set_parallelism(4).set_max_parallelism(64).set_auto_watermark_interval(50)
    assert conf.get(PipelineOptions.PARALLELISM) == 4
    conf.set(PipelineOptions.MAX_PARALLELISM, 128)
    assert config.get_max_parallelism() == 128
    assert config.get_auto_watermark_interval() == 50
    assert config == ExecutionConfig(Configuration(conf))
    assert hash(config) == hash(ExecutionConfig(Configuration(conf)))


def test_parallelism_can_be_taken_back() -> None:
    config = ExecutionConfig()
    assert config.get_parallelism() == ExecutionConfig.PARALLELISM_DEFAULT
    config.set_parallelism(3).set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN)
    assert config.get_parallelism() == 3
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == -1
    with pytest.raises(ConfigurationError):
        config.set_parallelism(0)
    with pytest.raises(ConfigurationError, match="32768"):
        config.set_max_parallelism(40_000)


def test_global_job_parameters() -> None:
    config = ExecutionConfig(Configuration().set_string("pipeline.global-job-parameters.a", "1"))
    assert config.get_global_job_parameters() == {"a": "1"}
    config.set_global_job_parameters({"b": 2, "c:d": "x,y"})
    assert config.get_global_job_parameters() == {"b": "2", "c:d": "x,y"}


def test_restart_strategy() -> None:
    config = ExecutionConfig().set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
    assert config.get_restart_strategy() == RestartStrategies.fixed_delay_restart(2, 10)


@pytest.mark.parametrize(
    ("on", "off", "read", "default"),
    [
        ("enable_object_reuse", "disable_object_reuse", "is_object_reuse_enabled", False),
        ("enable_closure_cleaner", "disable_closure_cleaner", "is_closure_cleaner_enabled", True),
        ("enable_force_kryo", "disable_force_kryo", "is_force_kryo_enabled", False),
        ("enable_force_avro", "disable_force_avro", "is_force_avro_enabled", False),
        ("disable_generic_types", "enable_generic_types", "has_generic_types_disabled", False),
        ("enable_auto_generated_uids", "disable_auto_generated_uids", "has_auto_generated_uids_enabled", True),
    ],
)
def test_switches(on: str, off: str, read: str, default: bool) -> None:
    config = ExecutionConfig()
    assert getattr(config, read)() is default
    assert getattr(config, on)() is config
    assert getattr(config, read)() is True
    getattr(config, off)()
    assert getattr(config, read)() is False


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("task_cancellation_interval", 30_000),
        ("task_cancellation_timeout", 180_000),
        ("latency_tracking_interval", 0),
        ("auto_watermark_interval", 200),
    ],
)
def test_intervals_are_milliseconds(name: str, default: int) -> None:
    config = ExecutionConfig()
    assert getattr(config, f"get_{name}")() == default
    assert getattr(config, f"set_{name}")(1234) is config
    assert getattr(config, f"get_{name}")() == 1234


def test_snapshot_compression_and_what_only_the_jvm_has() -> None:
    config = ExecutionConfig().set_use_snapshot_compression(True)
    assert config.is_use_snapshot_compression()
    assert config.set_latency_tracking_interval(-1).get_latency_tracking_interval() == 0
    assert config.get_default_kryo_serializer_classes() == {}
    assert config.get_registered_kryo_types() == config.get_registered_pojo_types() == []
