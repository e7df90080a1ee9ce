"""Lookups that go out together: few messages for many keys, and each key gets what it would get alone."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.ops.queryable import trap
from tests.unit.ops.queryable.serving_thread import JOB, ServerThread, give_up
from tests.waiting import eventually
from tidemill.common import CompletableFuture, Time, Types
from tidemill.datastream import DataStream
from tidemill.datastream.state import StateTtlConfig, ValueStateDescriptor
from tidemill.errors import SerializationError, StateMigrationError
from tidemill.ops.queryable import (
    CommittedStates,
    QueryableStateClient,
    QueryableStateError,
    StateUnavailableError,
    client_lookups,
)
from tidemill.ops.queryable import UnknownKeyOrNamespaceError as NothingError
from tidemill.ops.queryable.answer import Answers, AnswerValues, PartSchema, ValueReader
from tidemill.ops.queryable.wire import LARGEST_REQUEST, MOST_KEYS, frame
from tidemill.state.keys.key_groups import KeyGroup
from tidemill.state.keys.stable_hash import stable_hash
from tidemill.state_processor.job_directory import JobDirectory
from tidemill.testing import JobHarness

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEPT = ValueStateDescriptor("kept", PAIR)


def keep(_env: Any, records: DataStream) -> None:
    records.key_by(lambda record: record[0], Types.LONG()).as_queryable_state("kept", KEPT)


def keep_anything(_env: Any, records: DataStream) -> None:
    records.key_by(lambda record: record[0]).as_queryable_state("kept")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    """Keys 0 to 999 with their squares, written in several epochs."""
    with JobHarness(keep, inputs=["records"]) as job:
        job.epoch(records=[(key, 0) for key in range(1_000)])
        for part in range(4):
            job.epoch(records=[(key, key * key) for key in range(part, 1_000, 4)])
        with ServerThread(job.storage) as running:
            yield running


def sent_by(client: QueryableStateClient) -> Counter[str]:
    """Counts the requests that a client sends from now on, by what they ask for."""
    sent: Counter[str] = Counter()
    ask = client._connection.ask_for

    def note(what: str, rest: Any) -> Any:
        sent[what] += 1
        return ask(what, rest)

    client._connection.ask_for = note  # type: ignore[method-assign]
    return sent


def hold(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """From now on keys are looked up when the event is set."""
    lookup, go_on = server.states[0].lookup, threading.Event()

    def held(*arguments: Any, **options: Any) -> Answers:
        assert go_on.wait(60)
        return lookup(*arguments, **options)

    monkeypatch.setattr(server.states[0], "lookup", held)
    return go_on


def test_many_lookups_are_few_requests(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
        client.get_plain(JOB, "kept", 0).result(60)
        sent, go_on = sent_by(client), hold(server, monkeypatch)
        keys = [key * 7 % 1_200 for key in range(2_000)]
        futures = [client.get_kv_state(JOB, "kept", key, Types.LONG(), KEPT) for key in keys]
        go_on.set()
        for key, future in zip(keys, futures, strict=True):
            if key < 1_000:
                state: Any = future.result(60)
                assert (state.value(), state.epoch) == ((key, key * key), 5)
            else:
                with pytest.raises(NothingError, match=f"no value for key {key} in epoch 5"):
                    future.result(60)
    assert set(sent) <= {"get", "locate"}
    assert len(keys) / MOST_KEYS <= sent["get"] < len(keys) / 4


def test_threads_share_requests_and_each_gets_its_own_answers(server: ServerThread) -> None:
    wrong: list[Any] = []
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:

        def read(first: int) -> None:
            for key in range(first, 1_000, 97):
                found = client.get_plain(JOB, "kept", key).result(60)
                if found != (5, (key, key * key)):
                    wrong.append((key, found))

        threads = [threading.Thread(target=read, args=(first,)) for first in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_behind_a_proxy_lookups_go_out_by_server() -> None:
    with JobHarness(keep, inputs=["records"]) as job:
        job.epoch(records=[(key, key + 1) for key in range(300)])
        with (
            ServerThread(job.storage, servers=2) as servers,
            QueryableStateClient("127.0.0.1", servers.port, timeout=60) as client,
        ):
            asked = [client.get_plain(JOB, "kept", key) for key in range(300)]
            assert [future.result(60) for future in asked] == [(1, (key, key + 1)) for key in range(300)]
            assert client.get_plain(JOB, "kept", 0).result(60).value == (0, 1)
            assert client._lookups._locations[JOB, "kept"].shares == 2
            assert all(states._blocks.nbytes for states in servers.states)


def test_who_asks_for_more_than_can_be_under_way_waits(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_lookups, "_MOST_LOOKUPS", 10)
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
        most = 0
        done: list[Any] = []
        follow = threading.Event()

        def ask_from_the_clients_own_thread(future: Any) -> None:
            done.append(client.get_plain(JOB, "kept", 3))
            follow.set()

        go_on = hold(server, monkeypatch)

        def go_on_when_full() -> None:
            eventually(lambda: client._lookups._under_way == 10)
            go_on.set()

        opener = threading.Thread(target=go_on_when_full)
        opener.start()
        for key in range(200):
            client.get_plain(JOB, "kept", key)
            most = max(most, client._lookups._under_way)
        opener.join()
        future = client.get_plain(JOB, "kept", 199)
        future.add_done_callback(ask_from_the_clients_own_thread)
        assert future.result(60).value == (199, 199 * 199)
        assert follow.wait(60)
        assert done[0].result(60).value == (3, 9)
        assert most == 10
        eventually(lambda: client._lookups._under_way == 0)


def test_what_is_wanted_of_keys_of_one_request_may_differ(
    server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ValueStateDescriptor("kept", Types.STRING())
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
        go_on = hold(server, monkeypatch)
        plain = client.get_plain(JOB, "kept", 1)
        wrong = client.get_kv_state(JOB, "kept", 2, Types.LONG(), text)
        right: Any = client.get_kv_state(JOB, "kept", 3, Types.LONG(), KEPT)
        given_up = client.get_plain(JOB, "kept", 4)
        assert given_up.cancel()
        go_on.set()
        assert plain.result(60).value == (1, 1)
        assert right.result(60).value() == (3, 9)
        with pytest.raises(StateMigrationError):
            wrong.result(60)
        assert client.get_plain(JOB, "kept", 4).result(60).value == (4, 16)
        eventually(lambda: client._lookups._under_way == 0)


def test_a_value_that_may_not_be_read_spoils_no_other() -> None:
    with JobHarness(keep_anything, inputs=["records"], parallelism=1) as job:
        job.epoch(records=[(1, "one"), (2, trap.Trap()), (3, "three")])
        trap.SPRUNG.clear()
        with ServerThread(job.storage) as server, QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
            client.get_plain(JOB, "kept", 1).result(60)
            found = [client.get_plain(JOB, "kept", key) for key in (1, 2, 3)]
            assert [found[at].result(60).value for at in (0, 2)] == [(1, "one"), (3, "three")]
            with pytest.raises(SerializationError, match="pickle"):
                found[1].result(60)
        assert not trap.SPRUNG


def test_large_answers_are_requested_alone() -> None:
    with JobHarness(keep_anything, inputs=["records"], parallelism=1) as job:
        sizes = {1: 10, 2: 3_000_000, 3: 20, 4: 3_000_000, 5: 6_000_000, 6: 30}
        job.epoch(records=[(key, "x" * size) for key, size in sizes.items()])
        with ServerThread(job.storage) as server, QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
            client.get_plain(JOB, "kept", 1).result(60)
            sent = sent_by(client)
            found = {key: client.get_plain(JOB, "kept", key) for key in sizes}
            assert {key: len(future.result(60).value[1]) for key, future in found.items()} == sizes
            assert sent["get"] >= 3


def noting(ended: list[tuple[float, Any]]) -> Callable[[CompletableFuture[Any]], None]:
    """Notes how long it took from here until a future was done, and what it failed with."""
    began = time.monotonic()
    return lambda future: ended.append((time.monotonic() - began, future.exception()))


def test_a_request_that_is_not_answered_in_its_time_is_answered_later() -> None:
    with JobHarness(keep, inputs=["records"]) as job:
        job.epoch(records=[(1, 1)])
        with ServerThread(job.storage) as server:
            client = QueryableStateClient("127.0.0.1", server.port, timeout=60)
            assert client.get_plain(JOB, "kept", 1).result(60).value == (1, 1)
        ended: list[tuple[float, Any]] = []
        with client:
            client._connection._timeout = 0.5
            for number in range(3):  # the second comes when half of the time of the first is over
                note = noting(ended)
                client.get_plain(JOB, "kept", number).add_done_callback(note)
                time.sleep(0.25)
            eventually(lambda: len(ended) == 3)
            assert all(isinstance(error, StateUnavailableError) for _, error in ended)
            assert min(seconds for seconds, _ in ended) > 0.4
            client._connection._timeout = 60
            with ServerThread(job.storage, port=server.port):
                assert client.get_plain(JOB, "kept", 1).result(60).value == (1, 1)
            eventually(lambda: client._lookups._under_way == 0)
        for _ in range(2):
            with pytest.raises(QueryableStateError, match="closed"):
                client.get_plain(JOB, "kept", 1).result(60)


def test_a_key_that_is_too_large_is_refused_at_once(server: ServerThread) -> None:
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
        with pytest.raises(QueryableStateError, match="too large"):
            client.get_plain(JOB, "kept", "x" * LARGEST_REQUEST).result(0)
        assert client.get_plain(JOB, "kept", 2).result(60).value == (2, 4)


def test_large_keys_together_are_no_larger_than_a_request_may_be() -> None:
    keys = [letter * (LARGEST_REQUEST // 2) for letter in "ab"]
    with JobHarness(keep_anything, inputs=["records"]) as job:
        job.epoch(records=[(key, number) for number, key in enumerate(keys)])
        with ServerThread(job.storage) as server, QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
            found = [client.get_plain(JOB, "kept", key) for key in keys]
            assert [one.result(60).value[1] for one in found] == [0, 1]


@pytest.mark.parametrize("answer", [(1,), ([1], "ok"), None], ids=["one value", "no number", "the end"])
def test_a_server_that_makes_no_sense_is_given_up_in_time(answer: tuple[Any, ...] | None) -> None:
    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(frame(0, "ok"))
                    connection.recv(1 << 16)
                    connections.append(time.monotonic())
                    connection.sendall(b"" if answer is None else frame(*answer))

    def was_asked(times: int) -> bool:
        return len(connections) >= times

    connections: list[float] = []  # when each was asked something
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        with QueryableStateClient("127.0.0.1", listening.getsockname()[1], timeout=60) as client:
            for _ in range(2):  # also the second time someone is there to say so
                asked = client.get_plain(JOB, "kept", 1)
                eventually(partial(was_asked, len(connections) + 3))
                give_up(client, "the connection was lost")
                with pytest.raises(StateUnavailableError, match="the connection was lost"):
                    asked.result(60)
        listening.shutdown(socket.SHUT_RDWR)
    pauses = [later - sooner for sooner, later in pairwise(connections)]
    assert min(pauses) > 0.05, "it is asked again after a pause"


def test_where_a_key_cannot_be_read_its_neighbours_are(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot read one of several keys returns nothing, and gets a request for each."""
    states = server.states[0]
    find = type(states.view().state("kept")).find

    def damaged(self: Any, group: KeyGroup, key: Any, blocks: Any) -> Any:
        if key == 13:
            raise SerializationError("it is damaged")
        return find(self, group, key, blocks)

    monkeypatch.setattr("tidemill.ops.queryable.view.QueryableState.find", damaged)
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
        found = [client.get_plain(JOB, "kept", key) for key in (12, 13, 14)]
        assert [found[at].result(60).value for at in (0, 2)] == [(12, 144), (14, 196)]
        give_up(client, "it is damaged")
        with pytest.raises(StateUnavailableError, match="it is damaged"):
            found[1].result(60)


@pytest.mark.parametrize(
    "places",
    [
        b"abc",
        *(struct.pack(f"<{len(numbers)}I", *numbers) for numbers in ((), (1, 0, 0, 2), (1, 1, 0, 1), (1, 0, 0))),
        *(struct.pack(f"<{len(numbers)}I", *numbers) for numbers in ((1, 0, 0, 0), (1, 0, 5, 1), (0xFFFFFFFF,))),
    ],
    ids=["no numbers", "nothing", "more rows", "no part", "half", "no row", "behind the end", "left out"],
)
def test_answers_of_the_wrong_form_are_an_error(
    server: ServerThread, places: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = Answers.encoded
    monkeypatch.setattr(Answers, "encoded", lambda self: (*encoded(self)[:-1], places))
    with QueryableStateClient("127.0.0.1", server.port, timeout=60) as client:
        with pytest.raises(QueryableStateError):
            client.get_plain(JOB, "kept", 1).result(60)
        monkeypatch.setattr(Answers, "encoded", encoded)
        assert client.get_plain(JOB, "kept", 1).result(60).value == (1, 1)


def test_rows_of_one_schema_are_one_part_however_many_blocks_they_are_from(server: ServerThread) -> None:
    answers = server.states[0].lookup("kept", [(stable_hash(key), key) for key in range(50)])
    assert sum(len(place or ()) for place in answers.places) == 50
    schemas: list[PartSchema] = [part.schema for part in answers.parts]
    assert len({schema.id for schema in schemas}) == len(schemas) < 5


def test_a_state_with_a_time_to_live_has_one_schema_over_all_epochs() -> None:
    """Its sections tell when the program last stood by it, so that no two are alike."""
    forgetful = ValueStateDescriptor("kept", PAIR)
    forgetful.enable_time_to_live(StateTtlConfig.new_builder(Time.days(9)).build())

    def build(_env: Any, records: DataStream) -> None:
        records.key_by(lambda record: record[0], Types.LONG()).as_queryable_state("kept", forgetful)

    with JobHarness(build, inputs=["records"], processing_time=1_000) as job:
        for epoch in range(8):
            job.set_processing_time(1_000 + epoch)
            job.epoch(records=[(key, epoch) for key in range(epoch, 8)])
        states = CommittedStates(JobDirectory(job.storage, JOB, "storage"), clock=lambda: 1_000)
        states.refresh()
        answers = states.lookup("kept", [(stable_hash(key), key) for key in range(8)])
        assert len(answers.parts) == 1
        assert [AnswerValues(answers, ValueReader()).of(key) for key in range(8)] == [(key, key) for key in range(8)]
