"""Configuration: takes any key, checks values that have a meaning, the same under old and new keys, hides secrets."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from pathlib import Path

import pytest

from tidemill.common import ConfigOptions, Configuration, Duration
from tidemill.config import CheckpointingOptions, ExecutionOptions, PipelineOptions, StateOptions
from tidemill.errors import ConfigurationError


def test_typed_access() -> None:
    conf = Configuration()
    assert conf.get(PipelineOptions.PARALLELISM) == 1
    assert conf.get(PipelineOptions.PARALLELISM, 7) == 7
    assert not conf.contains(PipelineOptions.PARALLELISM)
    conf.set(PipelineOptions.PARALLELISM, 4).set(CheckpointingOptions.INTERVAL, timedelta(seconds=90))
    assert conf.get(PipelineOptions.PARALLELISM, 7) == 4
    assert conf.contains(PipelineOptions.PARALLELISM)
    assert conf.to_dict() == {"parallelism.default": "4", "execution.checkpointing.interval": "90 s"}


def test_durations_of_our_own_are_taken() -> None:
    conf = Configuration().set(CheckpointingOptions.TIMEOUT, Duration.of_minutes(2))
    assert conf.get(CheckpointingOptions.TIMEOUT) == timedelta(minutes=2)


def test_access_by_key_as_in_pyflink() -> None:
    conf = Configuration()
    assert conf.set_string("pipeline.name", "j").set_integer("parallelism.default", 2) is conf
    conf.set_boolean("pipeline.object-reuse", True).set_float("user.rate", 2)
    conf.set_bytearray("user.blob", bytearray(b"\x00\xff"))
    conf.set_integer("execution.checkpointing.interval", 1000)
    assert conf.get_string("pipeline.name", "") == "j"
    assert conf.get_integer("parallelism.default", 0) == 2
    assert conf.get_boolean("pipeline.object-reuse", False) is True
    assert conf.get_float("user.rate", 0) == 2.0
    assert conf.get_bytearray("user.blob", bytearray()) == bytearray(b"\x00\xff")
    assert conf.get(CheckpointingOptions.INTERVAL) == timedelta(seconds=1)
    assert (conf.get_string("user.no", "d"), conf.get_integer("user.no", 3)) == ("d", 3)
    assert (conf.get_boolean("user.no", True), conf.get_bytearray("user.no", bytearray(b"x"))) == (
        True,
        bytearray(b"x"),
    )
    assert conf.contains_key("pipeline.name")
    assert conf.remove_config("pipeline.name")
    assert not conf.remove_config("pipeline.name")
    assert not conf.contains_key("pipeline.name")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("execution.checkpointing.interval", "soon", "a duration of at least 1 ms such as '10 s'"),
        ("parallelism.default", "0", "a whole number of at least 1"),
        ("execution.runtime-mode", "FAST", "one of STREAMING, BATCH, AUTOMATIC"),
        ("state.backend.type", "", "one of hashmap, rocksdb, or the dotted name of a class"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(key: str, value: str, words: str) -> None:
    conf = Configuration().set_string("parallelism.default", "3")
    before = conf.to_dict()
    with pytest.raises(ConfigurationError) as caught:
        conf.set_string(key, value)
    assert words in str(caught.value)
    assert f"'{key}'" in str(caught.value)
    assert conf.to_dict() == before


def test_setting_by_option_checks_before_it_stores() -> None:
    conf = Configuration()
    with pytest.raises(ConfigurationError):
        conf.set(PipelineOptions.PARALLELISM, "many")
    assert conf.to_dict() == {}


def test_reading_as_another_type_is_an_error() -> None:
    conf = Configuration().set_string("execution.checkpointing.interval", "10 s")
    with pytest.raises(ConfigurationError, match="is set to '10 s', not a whole number"):
        conf.get_integer("execution.checkpointing.interval", 0)
    with pytest.raises(ConfigurationError, match="not a byte array"):
        conf.get_bytearray("execution.checkpointing.interval", bytearray())


def test_a_deprecated_key_is_the_same_key() -> None:
    conf = Configuration().set_string("state.checkpoints.dir", "/a")
    assert conf.get(CheckpointingOptions.DIRECTORY) == "/a"
    assert conf.get_string("execution.checkpointing.dir", "") == "/a"
    assert conf.contains_key("state.checkpoints.dir")
    conf.set(CheckpointingOptions.DIRECTORY, "/b")
    assert conf.get_string("state.checkpoints.dir", "") == "/b"
    assert conf.key_set() == {"execution.checkpointing.dir"}
    assert conf.remove_config("state.backend.fs.checkpointdir")
    assert conf.key_set() == set()


def test_options_of_the_user() -> None:
    tmp = ConfigOptions.key("tmp.dir").string_type().default_value("/tmp")
    size = ConfigOptions.key("app.size").int_type().no_default_value()
    conf = Configuration()
    assert (conf.get(tmp), conf.get(size)) == ("/tmp", None)
    conf.set(tmp, "/x").set(size, 5)
    assert (conf.get(tmp), conf.get(size)) == ("/x", 5)
    assert Configuration.from_dict(conf.to_dict()) == conf
    with pytest.raises(ConfigurationError, match="at most 2147483647"):
        conf.set(size, 1 << 31)


@pytest.mark.parametrize(
    ("build", "value"),
    [("boolean_type", True), ("long_type", 1 << 40), ("float_type", 0.5), ("double_type", 0.25), ("string_type", "s")],
)
def test_every_type_of_option_can_be_built(build: str, value: object) -> None:
    known = getattr(ConfigOptions.key("user.k"), build)().default_value(value)
    assert Configuration().set(known, value).get(known) == value


def test_secrets_are_masked_in_text_and_errors_but_kept() -> None:
    conf = Configuration.from_dict({"user.db.password": "hunter2", "spark.app.name": "n"})
    assert conf.get_string("user.db.password", "") == "hunter2"
    assert conf.to_dict()["user.db.password"] == "hunter2"
    for shown in (str(conf), repr(conf), f"{conf}"):
        assert "hunter2" not in shown
        assert "******" in shown
        assert "'spark.app.name': 'n'" in shown
    with pytest.raises(ConfigurationError) as caught:
        conf.get_integer("user.db.password", 0)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        Configuration.from_dict({"user.db.password": {"hunter2"}})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        ConfigOptions.key("my.token").int_type().no_default_value().parse("hunter2")
    assert "hunter2" not in str(caught.value)


def test_copies_are_independent_and_equal() -> None:
    conf = Configuration().set_string("user.a", "1")
    for other in (Configuration(conf), copy.copy(conf), copy.deepcopy(conf), pickle.loads(pickle.dumps(conf))):
        assert other == conf
        assert hash(other) == hash(conf)
        other.set_string("user.a", "2")
        assert other != conf
    assert conf.get_string("user.a", "") == "1"


def test_add_all() -> None:
    conf = Configuration().set_string("user.a", "1")
    conf.add_all(Configuration.from_dict({"user.a": "2", "user.b": "3"}))
    assert conf.to_dict() == {"user.a": "2", "user.b": "3"}
    conf.add_all(Configuration.from_dict({"spark.x": "1"}), "user.")
    assert conf.get_string("user.spark.x", "") == "1"
    conf.add_all(Configuration.from_dict({"default": "4"}), "parallelism.")
    assert conf.get(PipelineOptions.PARALLELISM) == 4
    with pytest.raises(ConfigurationError, match="Invalid value 'many'"):
        conf.add_all(Configuration.from_dict({"x": "1", "default": "many"}), "parallelism.")
    assert not conf.contains_key("parallelism.x")
    target = {"z": "z"}
    conf.add_all_to_dict(target)
    assert target == {"z": "z", **conf.to_dict()}


def test_any_key_takes_any_value() -> None:
    conf = Configuration().set_string("my.own.key", "1").set_integer("n", 2).set_float("f", 3).set_boolean("b", False)
    conf.set_string("web.timeout", "soon")  # a key of Flink that has no meaning here
    conf.set_string("execution.attached", "perhaps")
    conf.add_all(Configuration.from_dict({"list": ["a", 1], "map": {"a": True}}))
    assert conf.to_dict() == {
        "my.own.key": "1",
        "n": "2",
        "f": "3.0",
        "b": "false",
        "web.timeout": "soon",
        "execution.attached": "perhaps",
        "list": '["a", "1"]',
        "map": '{"a": "true"}',
    }
    assert (conf.get_integer("my.own.key", 0), conf.get_float("n", 0), conf.get_boolean("b", True)) == (1, 2.0, False)
    assert Configuration.parse_list_value(conf.get_string("list", "")) == ["a", "1"]


def test_lists_given_as_text() -> None:
    assert Configuration.parse_list_value("") == []
    assert Configuration.parse_list_value("a;b") == ["a", "b"]
    assert Configuration.parse_list_value("[a, b]") == ["a", "b"]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_flat_and_nested(tmp_path: Path) -> None:
    file = write(
        tmp_path / "conf.yaml",
        """
# a comment
parallelism.default: 4
execution:
  checkpointing:
    interval: 10 s
    mode: at-least-once
  runtime-mode: BATCH
restart-strategy.type: off
state:
  backend.type: rocksdb
pipeline.global-job-parameters:
  input: /data
  limit: 010
metrics.reporters: [a, b]
my:
  hosts: [c, d]
spark:
  executor.memory: 2g
user.flag: yes
""",
    )
    conf = Configuration.load_yaml(file)
    assert conf.get(PipelineOptions.PARALLELISM) == 4
    assert conf.get(CheckpointingOptions.INTERVAL) == timedelta(seconds=10)
    assert conf.get(CheckpointingOptions.MODE) == "AT_LEAST_ONCE"
    assert conf.get(ExecutionOptions.RUNTIME_MODE) == "BATCH"
    assert conf.get(StateOptions.BACKEND) == "rocksdb"
    assert conf.get(PipelineOptions.GLOBAL_JOB_PARAMETERS) == {"input": "/data", "limit": "010"}
    assert conf.get_string("restart-strategy.type", "") == "off"
    assert conf.get_string("spark.executor.memory", "") == "2g"
    assert conf.get_string("user.flag", "") == "yes", "scalars stay as they are written"
    assert conf.get_string("metrics.reporters", "") == '["a", "b"]'
    assert Configuration.parse_list_value(conf.get_string("my.hosts", "")) == ["c", "d"]
    assert Configuration.from_dict(conf.to_dict()) == conf


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parallelism.default: many\n", "line 1: Invalid value 'many'"),
        ("user.a: 1\nuser:\n  a: 2\n", "line 3: Configuration key 'user.a' is set twice"),
        ("user.a: 1\nuser.a: 1\n", "line 2: Configuration key 'user.a' is set twice"),
        (
            "execution.checkpointing.dir: /a\nstate.checkpoints.dir: /b\n",
            "line 2: Configuration key 'execution.checkpointing.dir' is set twice (as 'state.checkpoints.dir'",
        ),
        ("user.a:\n", "line 1: 'user.a' has no value"),
        ("- a\n", "'key: value' pairs"),
        ("a: [\n", "not valid YAML"),
        ("? [a]\n: b\n", "a key must be plain text"),
    ],
)
def test_yaml_errors_name_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path / "conf.yaml", text)
    with pytest.raises(ConfigurationError) as caught:
        Configuration.load_yaml(file)
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_yaml_file_empty_or_missing(tmp_path: Path) -> None:
    assert Configuration.load_yaml(write(tmp_path / "empty.yaml", "# nothing\n")).to_dict() == {}
    with pytest.raises(ConfigurationError, match="Cannot read configuration file"):
        Configuration.load_yaml(tmp_path / "none.yaml")
