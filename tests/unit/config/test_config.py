"""The options: how values are read, what is known, what an error says."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill import config
from tidemill.config import (
    REGISTRY,
    CheckpointingOptions,
    ExecutionOptions,
    PipelineOptions,
    Registry,
    RestartStrategyOptions,
    SparkOptions,
    StateOptions,
    option,
)
from tidemill.config.values import (
    Bool,
    DurationValue,
    Float,
    Int,
    ListValue,
    MapValue,
    MemorySizeValue,
    OneOf,
    Text,
    ValueType,
)
from tidemill.errors import ConfigurationError


class Mode(Enum):
    BATCH = 7


@pytest.mark.parametrize(
    ("value_type", "raw", "value"),
    [
        (Bool(), "TRUE", True),
        (Bool(), False, False),
        (Int(), " -3 ", -3),
        (Int(1, also=(-1,)), "-1", -1),
        (Float(0, 1), "0.5", 0.5),
        (Text(), 5, "5"),
        (Text(), True, "true"),
        (OneOf("EXACTLY_ONCE"), "exactly-once", "EXACTLY_ONCE"),
        (OneOf("BATCH"), Mode.BATCH, "BATCH"),
        (OneOf("none", aliases={"off": "none"}), "OFF", "none"),
        (OneOf("hashmap", or_class=True), "my.pkg.Backend", "my.pkg.Backend"),
        (DurationValue(), "10 s", timedelta(seconds=10)),
        (DurationValue(), "500ms", timedelta(milliseconds=500)),
        (DurationValue(), "1 min", timedelta(minutes=1)),
        (DurationValue(), "2 h", timedelta(hours=2)),
        (DurationValue(), 1500, timedelta(seconds=1.5)),
        (DurationValue(), "1500", timedelta(seconds=1.5)),
        (MemorySizeValue(), "64 kb", 65536),
        (MemorySizeValue(), "1gb", 1 << 30),
        (MemorySizeValue(), "17", 17),
        (ListValue(), "a; b;c", ["a", "b", "c"]),
        (ListValue(), "[a, 'b;c']", ["a", "b;c"]),
        (ListValue(), ["a", 1], ["a", "1"]),
        (MapValue(), "a:1, url:http://x", {"a": "1", "url": "http://x"}),
        (MapValue(), "{a: 1, b: off}", {"a": "1", "b": "off"}),
        (MapValue(), {"a": 1}, {"a": "1"}),
    ],
)
def test_values_are_read(value_type: ValueType[Any], raw: object, value: object) -> None:
    parsed = value_type.parse(raw)
    assert parsed == value
    assert type(parsed) is type(value)
    assert value_type.parse(value_type.format(parsed)) == value


@pytest.mark.parametrize(
    ("value_type", "raw"),
    [
        (Bool(), "yes"),
        (Bool(), 1),
        (Int(), "1.5"),
        (Int(), True),
        (Int(1), 0),
        (Int(1, 10), 11),
        (Float(), "nan"),
        (Float(0, 1), 1.5),
        (Float(), True),
        (Text(), ["a"]),
        (OneOf("a"), "b"),
        (OneOf("a", or_class=True), "not a class"),
        (DurationValue(), "10 parsecs"),
        (DurationValue(), "ten s"),
        (DurationValue(), "1.5 s"),
        (DurationValue(), True),
        (DurationValue(), "-1 s"),
        (DurationValue(timedelta(milliseconds=1)), 0),
        (DurationValue(), "999999999999999 d"),
        (MemorySizeValue(), "1 pb"),
        (MemorySizeValue(), "-1 kb"),
        (ListValue(), {"a": 1}),
        (ListValue(), "[a"),
        (MapValue(), "a=1"),
        (MapValue(), ":1"),
        (MapValue(), [1]),
    ],
)
def test_values_that_do_not_fit_are_refused(value_type: ValueType[Any], raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the option words the message
        value_type.parse(raw)


@given(st.integers(min_value=0, max_value=10**15))
def test_durations_and_sizes_survive_their_text(number: int) -> None:
    length = timedelta(microseconds=number)
    assert DurationValue().parse(DurationValue().format(length)) == length
    assert MemorySizeValue().parse(MemorySizeValue().format(number)) == number


@given(st.dictionaries(st.text(), st.text()), st.lists(st.text()))
def test_maps_and_lists_survive_their_text(entries: dict[str, str], items: list[str]) -> None:
    assert MapValue().parse(MapValue().format(entries)) == entries
    assert ListValue().parse(ListValue().format(items)) == items


def test_every_default_is_a_value_of_its_option() -> None:
    assert len(REGISTRY.options) > 100
    for known in REGISTRY.options:
        if known.default is not None:
            assert known.parse(known.format(known.default)) == known.default, known.key


def test_every_option_that_does_something_is_described() -> None:
    assert [known.key for known in REGISTRY.options if not known.accepted_only and not known.description] == []


@pytest.mark.parametrize(
    ("known", "default"),
    [
        (PipelineOptions.PARALLELISM, 1),
        (ExecutionOptions.TARGET, "spark"),
        (ExecutionOptions.RESUME_MODE, "latest"),
        (ExecutionOptions.EPOCH_MAX_RECORDS, 1_000_000),
        (ExecutionOptions.EPOCH_MIN_INTERVAL, timedelta(0)),
        (ExecutionOptions.EPOCH_SNAPSHOT_INTERVAL, 16),
        (ExecutionOptions.EXCHANGE_PARCEL_SIZE, 1024 * 1024),
        (StateOptions.INLINE_DELTA_SIZE, 64 * 1024),
        (StateOptions.WORKER_CACHE_SIZE, 1024**3),
        (SparkOptions.MASTER, "local[*,4]"),
        (CheckpointingOptions.TIMEOUT, timedelta(minutes=10)),
        (RestartStrategyOptions.TYPE, None),
    ],
)
def test_defaults(known: Any, default: object) -> None:
    assert known.default == default
    assert REGISTRY.find(known.key) is known


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state.checkpoints.dir", "execution.checkpointing.dir"),
        ("state.savepoints.dir", "execution.checkpointing.savepoint-dir"),
        ("state.backend.incremental", "execution.checkpointing.incremental"),
        ("state.backend", "state.backend.type"),
        ("execution.savepoint.path", "execution.state-recovery.path"),
        ("restart-strategy", "restart-strategy.type"),
        ("parallelism.default", "parallelism.default"),
        ("user.x", "user.x"),
    ],
)
def test_deprecated_keys_lead_to_the_current_ones(old: str, new: str) -> None:
    assert REGISTRY.canonical(old) == new
    assert REGISTRY.is_known(old)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("checkpointing.interval", "execution.checkpointing.interval"),
        ("state.backend.typ", "state.backend.type"),
        ("paralelism.default", "parallelism.default"),
        ("execution.runtimeMode", "execution.runtime-mode"),
        ("execution.runtime_mode", "execution.runtime-mode"),
        ("zzz", None),
    ],
)
def test_the_nearest_key_is_found(wrong: str, right: str | None) -> None:
    assert not REGISTRY.is_known(wrong)
    assert REGISTRY.nearest(wrong) == right
    assert (f"Did you mean '{right}'?" in REGISTRY.unknown(wrong)) == (right is not None)


@pytest.mark.parametrize("key", ["spark.sql.shuffle.partitions", "user.my.key", "metrics.reporter.prom.port"])
def test_families_of_keys_are_known(key: str) -> None:
    assert REGISTRY.is_known(key)
    assert REGISTRY.find(key) is None


FLINK_KEYS = (Path(__file__).parent / "flink_keys.txt").read_text(encoding="utf-8").splitlines()


def test_every_key_of_flink_is_known() -> None:
    """The fixture has the keys of all options in the distributions of Flink 1.14 to 2.3, one on each line."""
    keys = [line for line in FLINK_KEYS if not line.startswith("#")]
    assert len(keys) > 1000
    assert [key for key in keys if not REGISTRY.is_known(key)] == []


def test_keys_without_meaning_are_listed_once_and_only_if_no_option_or_family_has_them() -> None:
    listed = (Path(config.__file__).parent / "flink_keys.txt").read_text(encoding="utf-8").split()
    assert listed == sorted(set(listed))
    without_list = Registry(REGISTRY.options, REGISTRY.families)
    assert [key for key in listed if without_list.is_known(key)] == []
    assert set(listed) <= set(FLINK_KEYS)


def test_an_error_names_key_value_and_form() -> None:
    with pytest.raises(ConfigurationError) as caught:
        CheckpointingOptions.INTERVAL.parse("often")
    message = str(caught.value)
    assert "'execution.checkpointing.interval'" in message
    assert "'often'" in message
    assert "'10 s'" in message


def test_secrets_are_not_shown() -> None:
    assert REGISTRY.looks_secret("spark.hadoop.fs.s3a.secret.key")
    assert REGISTRY.looks_secret("user.apiToken")
    assert REGISTRY.looks_secret("spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net")
    assert REGISTRY.looks_secret("user.kafka.sasl.jaas.config")
    assert REGISTRY.looks_secret("user.metrics.http-headers")
    assert not REGISTRY.looks_secret("state.backend.rocksdb.bloom-filter.bits-per-key"), "known, and no secret"
    assert not REGISTRY.looks_secret("user.name")
    shown = REGISTRY.shown("pipeline.global-job-parameters", '{"password": "p", "name": "n"}')
    assert shown == '{"password": "******", "name": "n"}'


def test_a_key_cannot_be_registered_twice() -> None:
    with pytest.raises(ValueError, match=r"'a\.old' is registered twice"):
        Registry([option("a.b", Text(), deprecated=["a.old"]), option("a.old", Text())], [])
