"""Checkpoints in an object store: a real server, requests that fail on the way, and whole jobs that come back."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.object_store import Proxy, Server, options_for
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.api import AlreadyExistsError
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import CheckpointError, ConfigurationError


def first(count: int, what: str) -> Any:
    """The trouble that so many requests are in, beginning with the first."""
    return lambda number, method, path: what if number <= count else None


@pytest.mark.parametrize("what", ["refuse", "500", "503"])
def test_a_request_that_fails_is_sent_again(proxy: Proxy, place: str, what: str) -> None:
    storage = ObjectStorage(place, proxy.options)
    proxy.trouble = first(2, what)
    storage.write("state/a", b"data")
    assert len(proxy.requests) == 3
    assert storage.read("state/a") == b"data"


def test_a_range_takes_one_request(proxy: Proxy, place: str) -> None:
    storage = ObjectStorage(place, proxy.options)
    storage.write("state/a", b"0123456789")
    for offset, length, found, requests in ((2, 3, b"234", 1), (8, 100, b"89", 1), (10, 5, b"", 2), (99, 1, b"", 2)):
        proxy.requests.clear()
        assert storage.read_range("state/a", offset, length) == found
        assert len(proxy.requests) == requests


@pytest.mark.parametrize("what", ["refuse", "500"])
def test_after_some_tries_the_error_says_what_was_tried(proxy: Proxy, place: str, what: str) -> None:
    storage = ObjectStorage(place, proxy.options)
    proxy.trouble = first(1000, what)
    with pytest.raises(CheckpointError, match=r"cannot write s3://.*/state/a: .*after 2 retries") as failed:
        storage.write("state/a", b"data")
    assert "secret" not in str(failed.value)
    assert len(proxy.requests) == 3


def test_a_closed_port_is_an_error_soon(place: str, proxy: Proxy) -> None:
    storage = ObjectStorage(place, options_for(1))
    with pytest.raises(CheckpointError, match="cannot look up"):
        storage.exists("state/a")


def test_an_answer_that_does_not_come_is_waited_for_so_long(proxy: Proxy, place: str) -> None:
    storage = ObjectStorage(place, {**proxy.options, "timeout": "1 s", "max-retries": "50"})  # for a slow server
    proxy.trouble = first(1, "slow")
    storage.write("state/a", b"data")
    assert storage.read("state/a") == b"data"


def test_a_creation_without_a_response_counts(proxy: Proxy, place: str) -> None:
    """The store has created a takeover record, but each answer was lost: the next try finds what the first one did."""

    def lost(number: int, method: str, path: str) -> str | None:
        return "cut" if method == "PUT" and "manifests" in path else None

    log = ManifestLog(ObjectStorage(place, proxy.options), "job")
    proxy.trouble = lost
    with pytest.raises(CheckpointError):  # the outcome stays unknown
        log.open_lineage()
    proxy.trouble = lambda number, method, path: None
    lineage, restored = log.open_lineage()
    assert restored is not None
    assert (restored.slot, log.last_slot()) == (1, 2)
    assert log.read(2).lineage == lineage


def test_a_create_that_was_cut_is_settled_by_what_is_there(proxy: Proxy, place: str) -> None:
    storage = ObjectStorage(place, proxy.options)
    proxy.trouble = first(1, "cut")
    with pytest.raises(AlreadyExistsError):  # our own, by the retry: who must know reads it, as the log does
        storage.create("manifests/1", b"mine")
    assert storage.read("manifests/1") == b"mine"


def test_what_the_store_refuses_names_the_credentials_to_check(proxy: Proxy, place: str) -> None:
    storage = ObjectStorage(place, proxy.options)
    for status in ("401", "403"):
        proxy.trouble = first(1000, status)
        with pytest.raises(CheckpointError, match=r"refused access.*s3\.access-key") as failed:
            storage.read("state/a")
        assert "a secret" not in str(failed.value)


def test_a_missing_bucket_is_named(server: Server) -> None:
    with pytest.raises(CheckpointError, match=r"cannot write s3://nobody/x/a: the bucket does not exist"):
        ObjectStorage("s3://nobody/x", server.options).write("a", b"")


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'s3\.acess-key'; known are s3\.access-key"):
        ObjectStorage("s3://b/x", {"acess-key": "k"})
    with pytest.raises(ConfigurationError, match=r"cannot be used as a checkpoint directory: .*'many'"):
        ObjectStorage("s3://b/x", {"max-retries": "many"}).exists("a")


def test_it_is_pickled_and_shows_no_secret(server: Server, place: str) -> None:
    storage = ObjectStorage(place, server.options)
    storage.write("a", b"1")
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"1"
    assert "secret" not in repr(storage)


_RACER = """
import sys, time
from tests.object_store import options_for
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.checkpoint.storage.api import AlreadyExistsError
me, port, place, start = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
storage = ObjectStorage(place, options_for(port))
storage.exists("warm-up")
for number in range(20):
    while time.time() < start + number * 0.05:
        pass
    try:
        storage.create(f"manifests/{number}", me.encode() * 1000)
        print(number)
    except AlreadyExistsError:
        pass
"""


def test_of_racing_processes_one_creates(server: Server, place: str) -> None:
    start = str(time.time() + 3)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, str(me), str(server.port), place, start],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for me in range(3)
    ]
    won = [number for racer in racers for number in racer.communicate(timeout=120)[0].split()]
    assert sorted(won, key=int) == [str(number) for number in range(20)]


def counted(directory: str, options: dict[str, str], *, target: str, words: int, backend: str = "hashmap") -> list[Any]:
    """Run a job that counts words, two records per epoch, until it has read so many."""
    configuration = Configuration.from_dict(
        {
            "execution.target": target,
            "execution.job-id": "words",
            "execution.checkpointing.dir": directory,
            "execution.epoch.max-records": "2",
            "state.backend.type": backend,
            "state.inline-delta-size": "0",
            **{f"s3.{key}": value for key, value in options.items()},
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection([("a", 1), ("b", 1)] * words, Types.TUPLE([Types.STRING(), Types.LONG()])).uid("words")
    return sorted(stream.key_by(lambda word: word[0]).sum(1).uid("count").execute_and_collect())


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_keeps_its_checkpoints_there(server: Server, place: str, backend: str) -> None:
    assert counted(place, server.options, target="local", words=3, backend=backend)[-1] == ("b", 3)
    head = ManifestLog(ObjectStorage(f"{place}/words", server.options), "words").read_head()
    assert head is not None
    assert head.finished
    assert head.epoch == 3


def test_a_job_lives_through_a_store_that_fails_now_and_then(proxy: Proxy, place: str) -> None:
    troubles = ["500", "refuse", "cut", "503"]
    proxy.trouble = lambda number, method, path: troubles[number // 5 % 4] if number % 5 == 0 else None
    options = {**proxy.options, "max-retries": "8"}  # the next tries of one request may be in trouble too
    assert counted(place, options, target="local", words=4)[-1] == ("b", 4)
    assert len(proxy.requests) > 40
