"""Client, server and proxy over TCP: every kind of state, what is refused, and lost connections."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pytest

from tests.unit.ops.queryable import trap
from tests.unit.ops.queryable.programs import KINDS, Model, descriptors, expected, remember
from tests.unit.ops.queryable.serving_thread import JOB, ServerThread, give_up
from tests.waiting import eventually
from tidemill.common import Types
from tidemill.common.time import Instant
from tidemill.datastream import DataStream
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import (
    ConfigurationError,
    InvalidKeyError,
    SerializationError,
    StateError,
    StateMigrationError,
    TypeMismatchError,
)
from tidemill.ops.queryable import (
    QueryableStateClient,
    QueryableStateError,
    StateUnavailableError,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateNameError,
    key_index,
)
from tidemill.ops.queryable.connections import Access
from tidemill.ops.queryable.wire import LARGEST_REQUEST, frame, hello, pack_hashes
from tidemill.testing import JobHarness


class Color(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Place:
    city: str
    color: Color
    tags: tuple[str, ...] = ()


ONE_HASH = pack_hashes([1])


@pytest.fixture(scope="module")
def job() -> Iterator[JobHarness]:
    with JobHarness(remember, inputs=["records"]) as harness:
        harness.epoch(records=[("a", 1), ("a", 5), ("b", 2), ("c", 3), ("c", 0)])
        yield harness


@pytest.fixture(scope="module")
def server(job: JobHarness) -> Iterator[ServerThread]:
    with ServerThread(job.storage) as running:
        yield running


@pytest.fixture
def client(server: ServerThread) -> Iterator[QueryableStateClient]:
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as connected:
        yield connected


def test_every_kind_comes_back_as_a_state_that_can_only_be_read(client: QueryableStateClient) -> None:
    found: dict[str, Any] = {
        kind: client.get_kv_state(JOB, kind, "a", Types.STRING(), descriptor).result(60)
        for kind, descriptor in descriptors().items()
    }
    assert found["value"].value() == 5
    assert list(found["list"]) == [1, 5]
    assert dict(found["map"].items()) == {"1": 1, "2": 5}
    assert found["map"].contains("1")
    assert not found["map"].is_empty()
    assert found["reducing"].get() == 6
    assert found["aggregating"].get() == 3.0
    for state in found.values():
        assert state.epoch == 1
        with pytest.raises(StateError, match="read-only"):
            state.clear()
    for change in (found["value"].update, found["list"].add, found["reducing"].add, found["map"].remove):
        with pytest.raises(StateError, match="read-only"):
            change(1)


def test_missing_things_are_distinguished(client: QueryableStateClient) -> None:
    value, elements = descriptors()["value"], descriptors()["list"]
    text = ValueStateDescriptor("text", Types.STRING())
    cases: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
        (UnknownKeyOrNamespaceError, "no value for key 'z' in epoch 1", (JOB, "value", "z", Types.STRING(), value)),
        (UnknownKeyOrNamespaceError, "no value for key 'c'", (JOB, "value", "c", Types.STRING(), value)),
        (UnknownStateNameError, "'values'.*'aggregating', 'list'", (JOB, "values", "a", Types.STRING(), value)),
        (UnknownJobError, "job other is not served here", ("other", "value", "a", Types.STRING(), value)),
        (TypeMismatchError, "expected String, got int", (JOB, "value", 1, Types.STRING(), value)),
        (SerializationError, "stored: +String", (JOB, "value", 1, Types.LONG(), value)),
        (InvalidKeyError, "list", (JOB, "value", ["a"], None, value)),
        (
            QueryableStateError,
            "is value state, and cannot be read as list",
            (JOB, "value", "a", None, elements),
        ),
        (
            StateMigrationError,
            "Long cannot become String",
            (JOB, "value", "a", None, text),
        ),
    ]
    for error, message, arguments in cases:
        with pytest.raises(error, match=message):
            client.get_kv_state(*arguments).result(60)


def test_many_lookups_at_once_and_plain_values(client: QueryableStateClient) -> None:
    futures = [client.get_plain(JOB, kind, key) for _ in range(200) for kind in KINDS for key in "ab"]
    model = expected([("a", 1), ("a", 5), ("b", 2)])
    answers = [future.result(60) for future in futures]
    assert answers == [(1, model[kind][key]) for _ in range(200) for kind in KINDS for key in "ab"]


@pytest.mark.parametrize("most_in_dict", [20_000, 0], ids=["dict", "hashes"])
def test_keys_and_values_of_all_types(most_in_dict: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_MOST_IN_DICT", most_in_dict)
    keys = [Place("x", Color.RED, ("t",)), Pair(1, "a"), Color.BLUE, float("nan"), ("t", 1), b"b", Instant(5, 7)]

    def build(_env: Any, records: DataStream) -> None:
        records.key_by(lambda record: record).as_queryable_state("kept")

    with JobHarness(build, inputs=["records"]) as job:
        job.epoch(records=keys)
        with ServerThread(job.storage) as server, QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
            for key in keys:
                found: Any = client.get_kv_state(JOB, "kept", key, None, ValueStateDescriptor("kept")).result(60)
                assert repr(found.value()) == repr(key)


@pytest.mark.parametrize("most_in_dict", [20_000, 0], ids=["dict", "hashes"])
def test_keys_of_declared_types(most_in_dict: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_MOST_IN_DICT", most_in_dict)
    keys = [(Instant(5, 7), 1), (Instant(6, 0), 2)]
    key_type = Types.TUPLE([Types.INSTANT(), Types.LONG()])

    def build(_env: Any, records: DataStream) -> None:
        records.key_by(lambda record: record, key_type).as_queryable_state("kept")

    with JobHarness(build, inputs=["records"]) as job:
        job.epoch(records=keys)
        with ServerThread(job.storage) as server, QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
            for key in keys:
                found: Any = client.get_kv_state(JOB, "kept", key, key_type, ValueStateDescriptor("kept")).result(60)
                assert found.value() == key


def test_a_client_unpickles_only_if_it_is_allowed_to() -> None:
    def build(_env: Any, records: DataStream) -> None:
        records.key_by(lambda record: record[0]).as_queryable_state("trapped")

    descriptor = ValueStateDescriptor("trapped")
    with JobHarness(build, inputs=["records"]) as job:
        job.epoch(records=[("a", trap.Trap())])
        trap.SPRUNG.clear()
        with ServerThread(job.storage) as server:
            with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
                with pytest.raises(SerializationError, match="pickle"):
                    client.get_kv_state(JOB, "trapped", "a", None, descriptor).result(60)
                with pytest.raises(SerializationError, match="pickle"):
                    client.get_plain(JOB, "trapped", "a").result(60)
            assert not trap.SPRUNG
            with QueryableStateClient("127.0.0.1", server.port, allow_pickle=True, timeout=60) as client:
                found: Any = client.get_kv_state(JOB, "trapped", "a", None, descriptor).result(60)
                assert isinstance(found.value()[1], trap.Trap)
        assert trap.SPRUNG


def test_a_token_is_needed_where_there_is_one(job: JobHarness) -> None:
    with ServerThread(job.storage, token="open sesame") as server:  # noqa: S106
        for token in (None, "open sesam", "open sesame!", "\ud800"):
            with (
                QueryableStateClient("127.0.0.1", server.port, token=token, timeout=0.5) as client,
                pytest.raises(QueryableStateError),
            ):
                client.get_plain(JOB, "value", "a").result(60)
        with QueryableStateClient("127.0.0.1", server.port, token="open sesame", timeout=60) as client:  # noqa: S106
            assert client.get_plain(JOB, "value", "a").result(60) == (1, 5)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])  # noqa: S104
def test_other_addresses_than_loopback_need_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"queryable-state\.token"):
        Access(host, None)
    assert Access(host, "t").admits("t")


def test_bad_input_ends_its_connection_and_nothing_else(server: ServerThread, client: QueryableStateClient) -> None:
    dice = random.Random(7)
    good = hello(None)
    messages = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        struct.pack("<I", LARGEST_REQUEST + 1),
        frame("tidemill-query", 99, ""),
        frame("no hello"),
        good + frame("no number"),
        good + struct.pack("<I", 3) + b"xyz",
        *(bytes(dice.randrange(256) for _ in range(dice.randrange(1, 300))) for _ in range(20)),
        *(good + struct.pack("<I", 40) + bytes(dice.randrange(256) for _ in range(40)) for _ in range(20)),
    ]
    for message in messages:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert client.get_plain(JOB, "value", "a").result(60) == (1, 5)


@pytest.mark.parametrize(
    "request_body",
    [
        ("get",),
        ("get", JOB, "value", 0, "no hashes", [b"N"]),
        ("get", JOB, "value", 0, b"too few", [b"N"]),
        ("get", JOB, "value", 0, ONE_HASH, [b"no key"]),
        ("get", JOB, "value", 0, ONE_HASH, ["no bytes"]),
        ("get", JOB, "value", 0, ONE_HASH, [b"N", b"N"]),
        ("get", JOB, "value", 0, b"", []),
        ("get", JOB, "value", 0, 300 * ONE_HASH, 300 * [b"N"]),
        ("get", JOB, "value", "no slot", ONE_HASH, [b"N"]),
        ("get", JOB, ["value"], 0, ONE_HASH, [b"N"]),
        ("locate", JOB, 1),
        ("schema", ["no", "id"], JOB, "value", 1),
        ("drop", JOB),
    ],
    ids=[
        *("nothing", "no hashes", "half a hash", "no key", "no bytes", "more keys", "no keys", "too many", "no slot"),
        *("no name", "locate", "schema", "unknown"),
    ],
)
def test_requests_of_the_wrong_form_are_answered_with_an_error(
    client: QueryableStateClient, request_body: tuple[Any, ...]
) -> None:
    client._connection._timeout = 0.3
    with pytest.raises(QueryableStateError):
        client._connection.ask(*request_body).result(60)
    client._connection._timeout = 60
    assert client.get_plain(JOB, "value", "a").result(60) == (1, 5)


def test_a_fault_of_the_server_is_reported_at_once_and_logged(
    server: ServerThread,
    client: QueryableStateClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr(server.states[0], "lookup", broken)
    found = client.get_kv_state(JOB, "value", "a", Types.STRING(), descriptors()["value"])
    with pytest.raises(QueryableStateError, match="see the log of the server"):
        found.result(60)
    assert "out of cheese" in caplog.text


def test_lookups_go_on_over_a_restart_of_the_server_and_fail_in_time_without_one(job: JobHarness) -> None:
    with ServerThread(job.storage) as server:
        port = server.port
        client = QueryableStateClient("127.0.0.1", port, timeout=60)
        assert client.get_plain(JOB, "value", "a").result(60) == (1, 5)
    waiting = client.get_plain(JOB, "value", "b")  # nobody is there
    with ServerThread(job.storage, port=port):
        assert waiting.result(60) == (1, 2)
    client.shutdown_and_wait()
    with QueryableStateClient("127.0.0.1", port, timeout=0.2) as lonely:
        with pytest.raises(StateUnavailableError, match=r"no response within .* cannot be reached"):
            lonely.get_plain(JOB, "value", "a").result(60)
        unanswered = lonely.get_plain(JOB, "value", "a")
    with pytest.raises(QueryableStateError):
        unanswered.result(60)
    lonely.shutdown_and_handle().result(60)
    with pytest.raises(QueryableStateError, match="closed"):
        lonely.get_plain(JOB, "value", "a").result(60)


def test_a_request_to_a_server_that_is_gone_is_repeated(job: JobHarness) -> None:
    """A new server has not handed out the schema that the old one's answer names."""
    with ServerThread(job.storage) as server, QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
        asked: list[str] = []
        ask = client._connection.ask_for

        def note(what: str, rest: Any) -> Any:
            asked.append(what)
            if what == "schema" and asked.count("schema") == 1:
                server.states[0]._schemas.clear()
            return ask(what, rest)

        client._connection.ask_for = note  # type: ignore[method-assign]
        assert client.get_plain(JOB, "value", "a").result(60) == (1, 5)
        assert asked[:4] == ["locate", "get", "schema", "get"]


def test_in_place_of_a_server_that_is_gone_another_one_answers(job: JobHarness) -> None:
    with (
        ServerThread(job.storage, servers=2) as servers,
        QueryableStateClient("127.0.0.1", servers.port, timeout=60) as client,
    ):

        def look() -> list[Any]:
            return [client.get_plain(JOB, "value", key).result(60).value for key in "ab"]

        assert look() == [5, 2]
        servers.lose(0)
        assert look() == [5, 2]
        servers.lose(1)
        unanswered = client.get_plain(JOB, "value", "a")
        give_up(client, "cannot be reached")
        with pytest.raises(StateUnavailableError, match="cannot be reached"):
            unanswered.result(60)


def test_through_a_proxy_answers_are_of_committed_epochs_and_never_go_back() -> None:
    """Two servers, which find out about epochs at different times; a client that asks both, while the job runs."""
    keys = [f"k{i}" for i in range(8)]
    history: dict[int, Model] = {}
    seen: list[tuple[str, int]] = []
    done = threading.Event()
    answers: list[tuple[str, int, Any]] = []
    with JobHarness(remember, inputs=["records"], merge_after=3) as job:

        def next_epoch(epoch: int) -> None:
            records = [(key, epoch + i) for i, key in enumerate(keys)]
            seen.extend(records)
            history[epoch] = expected(seen)
            job.epoch(records=records)

        def read(port: int) -> None:
            with QueryableStateClient("127.0.0.1", port, timeout=60) as client:
                while not done.is_set():
                    answers.extend((key, *client.get_plain(JOB, "list", key).result(60)) for key in keys)

        next_epoch(1)
        with ServerThread(job.storage, servers=2) as servers:
            reader = threading.Thread(target=read, args=(servers.port,))
            reader.start()
            for epoch in range(2, 20):
                next_epoch(epoch)
                if epoch % 5 == 0:
                    job.restart(parallelism=1 + epoch % 3)
            job.close()
            eventually(lambda: answers and answers[-1][1] == 19)  # the job has ended, and can still be asked
            done.set()
            reader.join()
            asked = [len(states._blocks._blocks) for states in servers.states]
    assert min(asked) > 0, "one server has all key groups"
    epochs = [epoch for _, epoch, _ in answers]
    assert epochs == sorted(epochs)
    assert all(value == history[epoch]["list"][key] for key, epoch, value in answers)
