"""The choice of a backend by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidemill.common.configuration import Configuration
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import ConfigurationError
from tidemill.state.backends import BackendChoice, backend_class, choose_backend
from tidemill.state.keyed.hashmap import HashMapBackend
from tidemill.state.rocksdb import RocksDBBackend, RocksDBSettings
from tidemill.testing import JobHarness


class CountingBackend(HashMapBackend):
    """A third backend, of a user's own."""

    made = 0

    @classmethod
    def settings(cls, configuration: Configuration) -> str:
        return configuration.get_string("user.greeting", "none")

    @classmethod
    def create(cls, place: object, settings: str) -> CountingBackend:
        cls.made += 1
        assert settings == "hello"
        return cls(place)  # type: ignore[arg-type]


def configured(name: str) -> Configuration:
    return Configuration().set_string("state.backend.type", name)


def test_names() -> None:
    assert choose_backend(Configuration()) == BackendChoice("hashmap", None)
    assert backend_class("hashmap") is HashMapBackend
    assert backend_class("rocksdb") is RocksDBBackend
    assert choose_backend(configured("rocksdb")) == BackendChoice("rocksdb", RocksDBSettings())
    assert pickle.loads(pickle.dumps(choose_backend(configured("rocksdb")))) == choose_backend(configured("rocksdb"))


def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    return words.key_by(lambda word: word).map_with_state(lambda word, n: ((word, (n or 0) + 1), (n or 0) + 1))


def test_a_backend_of_ones_own_runs_a_job() -> None:
    configuration = {"state.backend.type": f"{__name__}.CountingBackend", "user.greeting": "hello"}
    with JobHarness(count, inputs=["words"], configuration=configuration, parallelism=2) as job:
        job.epoch(words=["a", "b", "a"])
        assert sorted(job.output()) == [("a", 1), ("a", 2), ("b", 1)]
    assert CountingBackend.made == 2


@pytest.mark.parametrize("name", ["nowhere.Backend", f"{__name__}.Missing", f"{__name__}.count", "pathlib.Path"])
def test_a_name_that_leads_to_no_backend(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"state\.backend\.type"):
        choose_backend(configured(name))


@pytest.mark.parametrize(("before", "after"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_a_job_may_change_its_backend(before: str, after: str, tmp_path: Path) -> None:
    local = {"state.backend.rocksdb.localdir": str(tmp_path / "local")}
    first = {"state.backend.type": before, **local}
    with JobHarness(count, inputs=["words"], configuration=first) as job:
        job.epoch(words=["a", "b"])
        job.restart(configuration={"state.backend.type": after, **local})
        job.epoch(words=["a"])
        assert sorted(job.output()) == [("a", 1), ("a", 2), ("b", 1)]
