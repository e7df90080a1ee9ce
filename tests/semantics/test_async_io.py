"""Async I/O: order, time and capacity; the life of the function; in whole jobs and with real connections."""

from __future__ import annotations

import asyncio
import gc
import http.server
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import psutil
import pytest

from tests.semantics.async_cases import After, Double, Env, both_orders, run_all, wait
from tests.waiting import eventually
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import (
    AsyncFunction,
    DataStream,
    MapFunction,
    RuntimeContext,
    ValueStateDescriptor,
)
from tidemill.errors import StateError, UserCodeError
from tidemill.faults import Fault
from tidemill.runtime.batch.records import MAX_TIME, Batch
from tidemill.testing import JobHarness, KeyedHarness, OperatorHarness, run_local
from tidemill.testing.job_harness import moving

# --- order

CROSSED = [("a", "b"), ("b", "c"), ("c", None), ("d", "a")]


def test_ordered_results_come_in_the_order_of_their_records() -> None:
    assert run_all(CROSSED, After()) == ["a", "b", "c", "d"]


def test_unordered_results_come_as_the_calls_end() -> None:
    assert run_all(CROSSED, After(), in_order=False) == ["c", "b", "a", "d"]


class Times(AsyncFunction):
    """As many results as the record says, none for 0; not only lists will do."""

    async def async_invoke(self, value: int) -> Any:
        await asyncio.sleep(0.001)
        return (number for number in range(value)) if value % 2 else tuple(range(value))


@both_orders
def test_a_call_has_any_number_of_results(in_order: bool) -> None:
    assert run_all([2, 0, 3, 0], Times(), in_order=in_order) == [0, 1, 0, 1, 2]


@both_orders
def test_results_have_the_timestamp_of_their_record_or_none(in_order: bool) -> None:
    batches: list[Batch] = []
    with OperatorHarness(wait(Times(), in_order=in_order)) as harness:
        harness._chain.head.output.connect(batches.append, lambda watermark: None, None)
        harness.process(2, timestamp=7)
        harness.process(1)
        harness.process(0, timestamp=8)
        harness.process(1, timestamp=9)
        harness.checkpoint()
        assert harness.output_with_timestamps() == [(0, 7), (1, 7), (0, None), (0, 9)]
        assert [batch.timestamps for batch in batches] == [[7, 7], None, [9]]


@both_orders
def test_no_record_crosses_a_watermark_and_calls_go_on_meanwhile(in_order: bool) -> None:
    with OperatorHarness(wait(After(), in_order=in_order)) as harness:
        harness.process(("a", "c"), timestamp=1)  # waits for one that comes behind two watermarks
        harness.watermark(5)
        harness.process(("b", None), timestamp=6)
        harness.watermark(10)
        assert (harness.output(), harness.watermarks()) == ([], [])
        harness.process(("c", None), timestamp=11)
        assert harness.function.log == ["a begins", "b begins", "b ends", "c begins", "c ends"]
        harness.checkpoint()
        assert harness.output() == ["a", "b", "c"]
        assert harness.watermarks() == [5, 10]


def test_unordered_results_change_places_between_two_watermarks_only() -> None:
    with OperatorHarness(wait(After(), in_order=False)) as harness:
        for record in [("a", "b"), ("b", None), 5, ("c", "e"), ("d", "c"), ("e", None), 10, ("f", None)]:
            if isinstance(record, int):
                harness.watermark(record)
            else:
                harness.process(record)
        harness.checkpoint()
        assert harness.output() == ["b", "a", "e", "c", "d", "f"]
        assert harness.watermarks() == [5, 10]


@both_orders
def test_a_watermark_that_no_call_holds_up_is_forwarded_at_once(in_order: bool) -> None:
    with OperatorHarness(wait(Double(), in_order=in_order)) as harness:
        harness.watermark(3)
        harness.watermark(4)
        assert harness.watermarks() == [3, 4]


@both_orders
def test_that_an_input_is_idle_is_sent_behind_its_records(in_order: bool) -> None:
    seen: list[Any] = []
    with OperatorHarness(wait(After(), in_order=in_order)) as harness:
        output = harness._chain.head.output
        output.connect(lambda batch: seen.extend(batch.values), seen.append, None, seen.append)
        harness.process(("a", "b"))
        harness.mark_idle()
        assert seen == []
        harness.process(("b", None))
        harness.checkpoint()
        harness.mark_active()
        assert seen == ["a", True, "b", False]


@both_orders
def test_watermarks_between_records_mean_the_same_behind_the_function(in_order: bool) -> None:
    """A keyed function behind it sees each record on time, as without async I/O."""

    class Sleep(AsyncFunction):
        async def async_invoke(self, value: tuple[str, int]) -> list[Any]:
            await asyncio.sleep(value[1] % 3 / 1000)
            return [value]

    def build(env: Env, asks: bool) -> DataStream:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        events = env.from_collection([("k", time) for time in range(0, 60, 2)])
        stamped = events.assign_timestamps_and_watermarks(strategy)
        asked = wait(Sleep(), in_order=in_order)(stamped) if asks else stamped
        return asked.map(lambda value: (value[0], value[1] // 10)).key_by(lambda value: value[1]).reduce(max)

    assert sorted(run_local(partial(build, asks=True), max_records=7)) == sorted(
        run_local(partial(build, asks=False), max_records=7)
    )


# --- how many at a time


class Counted(AsyncFunction):
    """Knows how many calls are on their way, and were at most."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.begun = self.now = self.most = 0

    async def async_invoke(self, value: Any) -> list[Any]:
        self.begun += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(value % 5 / 1000)
        self.now -= 1
        return [(value, self.most)]


@both_orders
@pytest.mark.parametrize("capacity", [1, 3, 50])
def test_the_capacity_is_used_and_never_exceeded(capacity: int, in_order: bool) -> None:
    results = run_all(list(range(40)), Counted(), capacity=capacity, in_order=in_order)
    assert sorted(value for value, _ in results) == list(range(40))
    assert max(most for _, most in results) == min(capacity, 40)


def test_a_subtask_waits_when_its_capacity_is_used_up() -> None:
    with OperatorHarness(wait(After(), capacity=2)) as harness:
        harness.process(("a", None))
        harness.process(("b", "a"))
        harness.process(("c", None))
        harness.process(("d", None))
        assert [entry for entry in harness.function.log if "begins" in entry] == [f"{name} begins" for name in "abcd"]
        assert harness.function.log.index("a ends") < harness.function.log.index("c begins")


def test_with_a_capacity_of_one_calls_follow_each_other() -> None:
    class Log(AsyncFunction):
        log: list[str]

        def open(self, runtime_context: RuntimeContext) -> None:
            self.log = []

        async def async_invoke(self, value: str) -> list[Any]:
            self.log.append(f"{value} begins")
            await asyncio.sleep(0.002)
            self.log.append(f"{value} ends")
            return []

    with OperatorHarness(wait(Log(), capacity=1, in_order=False)) as harness:
        harness.process_all("abc")
        harness.checkpoint()
        assert harness.function.log == [f"{value} {what}" for value in "abc" for what in ("begins", "ends")]


@both_orders
def test_nothing_is_on_its_way_across_a_barrier(in_order: bool) -> None:
    with OperatorHarness(wait(Counted(), in_order=in_order)) as harness:
        for epoch in range(1, 4):
            harness.process_all(range(1, 8))
            assert harness.function.now > 0
            harness.checkpoint()
            assert harness.function.now == 0
            assert len(harness.output()) == 7 * epoch


# --- the life of the function


class Session(AsyncFunction):
    """Has a client that belongs to the loop, with a task of its own in the background."""

    async def open(self, runtime_context: RuntimeContext) -> None:  # type: ignore[override]
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.background = asyncio.create_task(asyncio.sleep(1000))
        self.forgotten = asyncio.create_task(asyncio.sleep(1000))
        self.closed = False

    async def async_invoke(self, value: Any) -> list[Any]:
        assert asyncio.get_running_loop() is self.loop
        assert threading.get_ident() == self.thread == threading.main_thread().ident
        await asyncio.sleep(0)
        return [value]

    async def close(self) -> None:  # type: ignore[override]
        assert asyncio.get_running_loop() is self.loop
        self.background.cancel()
        await asyncio.wait([self.background])
        self.closed = True


def test_open_calls_and_close_share_one_loop_over_all_epochs() -> None:
    with OperatorHarness(wait(Session())) as harness:
        function = harness.function
        for value in range(3):
            harness.process(value)
            harness.checkpoint()
        assert harness.output() == [0, 1, 2]
        assert harness.function is function
    assert function.closed
    assert function.background.cancelled()
    assert function.forgotten.cancelled()
    assert function.loop.is_closed()


loops: list[asyncio.AbstractEventLoop] = []


class NoHost(AsyncFunction):
    async def open(self, runtime_context: RuntimeContext) -> None:  # type: ignore[override]
        loops.append(asyncio.get_running_loop())
        raise OSError("no such host")

    async def async_invoke(self, value: Any) -> list[Any]:
        return []


def test_what_open_raises_comes_with_its_operator_and_the_loop_is_closed() -> None:
    loops.clear()
    with pytest.raises(UserCodeError, match=r"(?s)OSError: no such host.*open\(\) of operator 'async wait operator'"):
        run_all([1], NoHost())
    assert [loop.is_closed() for loop in loops] == [True]


class LoopKeeper(AsyncFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        loops.append(asyncio.get_running_loop())

    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]

    def close(self) -> None:
        raise RuntimeError("a bad end")


class CannotOpen(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise RuntimeError("a bad start")

    def map(self, value: Any) -> Any:
        return value


def test_functions_that_were_opened_are_closed_if_another_in_the_task_cannot_be() -> None:
    def build(env: Env, values: DataStream) -> DataStream:
        return wait(LoopKeeper())(wait(LoopKeeper())(values.map(CannotOpen())))

    loops.clear()
    with JobHarness(build, inputs=["values"], parallelism=1) as job, pytest.raises(UserCodeError, match="a bad start"):
        job.epoch(values=[1])
    assert [loop.is_closed() for loop in loops] == [True, True]


@pytest.mark.parametrize("keyed", [True, False])
def test_an_async_function_has_no_keyed_state(keyed: bool) -> None:
    class Asks(Double):
        def open(self, runtime_context: RuntimeContext) -> None:
            assert runtime_context.get_index_of_this_subtask() == 0
            runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def build(env: Env, values: DataStream) -> DataStream:
        return wait(Asks())(values.key_by(lambda value: value) if keyed else values)

    with (
        JobHarness(build, inputs=["values"], parallelism=1) as job,
        pytest.raises(StateError, match="'seen', but an async function has none"),
    ):
        job.epoch(values=[1])


# --- in a job


@both_orders
def test_on_a_keyed_stream_the_records_of_a_key_stay_together(in_order: bool) -> None:
    class Where(AsyncFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.subtask = runtime_context.get_index_of_this_subtask()

        async def async_invoke(self, value: int) -> list[Any]:
            await asyncio.sleep(0)
            return [(value % 5, self.subtask)]

    def build(env: Env, values: DataStream) -> DataStream:
        return wait(Where(), in_order=in_order)(values.key_by(lambda value: value % 5))

    with JobHarness(build, inputs=["values"], parallelism=3) as job:
        job.epoch(values=range(50))
        assert len(job.output()) == 50
        assert len(set(job.output())) == 5
    with KeyedHarness(wait(Where()), key_selector=lambda value: value % 5) as harness:
        harness.process(7, timestamp=3)
        harness.checkpoint()
        assert harness.output_with_timestamps() == [((2, 0), 3)]


def test_async_functions_are_chained_with_others_and_with_each_other() -> None:
    def build(env: Env, values: DataStream) -> DataStream:
        doubled = wait(Double(), in_order=False)(values.map(lambda value: value + 1))
        return wait(Double())(doubled.filter(lambda value: value > 2)).map(str)

    with JobHarness(build, inputs=["values"], parallelism=1) as job:
        job.epoch(values=[0, 1, 2])
        job.epoch(values=[3])
        assert job.output() == ["8", "12", "16"]
        assert len(job._launch.plan.chains) == 1


def test_without_chaining_and_over_a_union_all_is_the_same() -> None:
    def build(env: Env, one: DataStream, two: DataStream) -> DataStream:
        return wait(Double())(one.union(two)).disable_chaining().map(str).disable_chaining()

    with JobHarness(build, inputs=["one", "two"], parallelism=2) as job:
        job.epoch(one=[1, 2], two=[10])
        job.epoch(two=[20])
        assert sorted(job.output(), key=int) == ["2", "4", "20", "40"]


def test_results_that_are_still_out_at_the_end_of_input_come_before_it() -> None:
    def build(env: Env) -> DataStream:
        return wait(After(), in_order=False)(env.from_collection(CROSSED)).map(str.upper)

    assert run_local(build, parallelism=1) == ["C", "B", "A", "D"]
    with OperatorHarness(wait(Counted())) as harness:
        harness.process(4)
        harness.end_input()
        assert (harness.output(), harness.watermarks()) == ([(4, 1)], [MAX_TIME])


@both_orders
def test_in_batch_mode_results_are_the_same(in_order: bool) -> None:
    def build(env: Env) -> DataStream:
        pairs = env.from_collection([("b", 1), ("a", 2), ("b", 3), ("a", 4)])
        asked = wait(Double(), in_order=in_order)(pairs.key_by(lambda pair: pair[0]))
        return asked.map(lambda pair: (pair[0], pair[1] + pair[3])).key_by(lambda pair: pair[0]).sum(1)

    batch = run_local(build, configuration={"execution.runtime-mode": "BATCH"}, max_records=1)
    assert sorted(batch) == [("a", 12), ("b", 8)]
    streaming = run_local(build, max_records=1)
    assert sorted(streaming) == [("a", 4), ("a", 12), ("b", 2), ("b", 8)]


calls_made: list[int] = []


class Recorded(AsyncFunction):
    """Writes down each call, as the service that is asked would see them."""

    async def async_invoke(self, value: int) -> list[Any]:
        calls_made.append(value)
        await asyncio.sleep(value % 3 / 1000)
        return [value]


def recorded(env: Env, values: DataStream) -> DataStream:
    pairs = wait(Recorded(), in_order=False, capacity=4)(values).map(lambda value: (value % 2, value))
    return pairs.key_by(0).sum(1).uid("sum")


@pytest.mark.parametrize(
    "point",
    ["task.batch", "sink.precommit.after", "delta.before", "ack.before", "manifest.before", "manifest.after"],
)
def test_after_a_crash_results_count_once_and_calls_were_made_at_least_once(point: str) -> None:
    calls_made.clear()
    with JobHarness(recorded, inputs=["values"], parallelism=2) as job:
        job.epoch(values=range(10))
        # Some of these the source passes first.
        job.crash(Fault(point, skip=int(point in {"task.batch", "delta.before", "ack.before"})), values=range(10, 20))
        job.run()
        job.epoch(values=range(20, 30))
        assert job.state("sum", "_reduce_state") == {
            0: (0, sum(range(0, 30, 2))),
            1: (1, sum(range(1, 30, 2))),
        }
        assert len(job.output()) == 30
    assert set(calls_made) == set(range(30))
    assert len(calls_made) > 30 or point == "manifest.after"
    gc.collect()


class OnceBroken(AsyncFunction):
    async def async_invoke(self, value: int) -> list[Any]:
        if value == 3 and not calls_made:
            calls_made.append(value)
            raise ConnectionError("service is down")
        await asyncio.sleep(0.001)
        return [value]


def test_a_failed_epoch_is_run_again_after_a_restart() -> None:
    def build(env: Env, values: DataStream) -> DataStream:
        return wait(OnceBroken())(values)

    calls_made.clear()
    with JobHarness(build, inputs=["values"], parallelism=1) as job:
        job.epoch(values=[1])
        with pytest.raises(UserCodeError, match="service is down"):
            job.epoch(values=[2, 3, 4])
        job.restart()
        job.run()
        assert job.output() == [1, 2, 3, 4]
    gc.collect()


@pytest.mark.parametrize("trouble", ["rescaled", "moving workers", "lost worker"])
def test_results_are_the_same_wherever_the_subtasks_run(trouble: str) -> None:
    placement = moving(3) if trouble == "moving workers" else None
    with JobHarness(recorded, inputs=["values"], workers=3, placement=placement, parallelism=2) as job:
        for epoch in range(5):
            job.epoch(values=range(epoch * 6, epoch * 6 + 6))
            if trouble == "rescaled":
                job.rescale(1 + epoch % 3)
            elif trouble == "lost worker":
                job.kill_worker(0)
        assert job.state("sum", "_reduce_state") == {
            0: (0, sum(range(0, 30, 2))),
            1: (1, sum(range(1, 30, 2))),
        }
    gc.collect()


# --- with real connections


class Upper(http.server.BaseHTTPRequestHandler):
    """A service: ``/word`` answers with WORD, ``/broken`` with an error."""

    def do_GET(self) -> None:
        word = self.path[1:]
        body = word.upper().encode()
        self.send_response(503 if word == "broken" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 100
    daemon_threads = False


@pytest.fixture
def port() -> Iterator[int]:
    with Server(("127.0.0.1", 0), Upper) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class Ask(AsyncFunction):
    """A small HTTP client, one connection per request."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def async_invoke(self, value: str) -> list[Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"GET /{value} HTTP/1.0\r\n\r\n".encode())
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
            status = int(head.split()[1])
            if status != 200:
                raise ConnectionError(f"{value}: status {status}")
            return [(value, body)]
        finally:
            writer.close()
            await writer.wait_closed()


def test_a_service_is_called_over_http(port: int) -> None:
    words = ["tide", "mill", "stream", "state"] * 10
    assert run_all(words, Ask(port)) == [(word, word.upper()) for word in words]


def open_files() -> int:
    return psutil.Process().num_fds()


def test_a_job_leaves_no_connection_loop_or_thread_behind(port: int) -> None:
    def build(env: Env, words: DataStream) -> DataStream:
        return wait(Ask(port), in_order=False, capacity=5)(words.rebalance())

    def run(words: list[str]) -> None:
        with JobHarness(build, inputs=["words"], parallelism=2) as job:
            job.epoch(words=words)
            job.kill_worker(0)
            job.epoch(words=words)

    threads = threading.active_count()
    run(["warm"])
    gc.collect()
    eventually(lambda: threading.active_count() <= threads)  # the server's threads and connections are in this process
    files = open_files()
    for _ in range(3):
        run(["tide", "mill"] * 10)
        with pytest.raises(UserCodeError, match="status 503"):
            run(["tide"] * 10 + ["broken"] + ["mill"] * 10)
    gc.collect()
    eventually(
        lambda: threading.active_count() <= threads and open_files() <= files,
        shown=lambda: f"{threading.enumerate()}, and {open_files()} files after {files}",
    )


def test_a_connection_that_was_closed_between_epochs_is_seen_as_closed() -> None:
    class Keep(AsyncFunction):
        """Keeps a connection, as clients with a pool do, and looks at it before it is used."""

        def __init__(self, port: int) -> None:
            self.port = port

        async def async_invoke(self, value: Any) -> list[Any]:
            if value == "connect":
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                return [await self.reader.read(2)]
            return [self.reader.at_eof()]

        async def close(self) -> None:  # type: ignore[override]
            self.writer.close()
            await self.writer.wait_closed()

    with socket.create_server(("127.0.0.1", 0)) as server, OperatorHarness(wait(Keep(server.getsockname()[1]))) as job:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hi")
                left.wait()

        left = threading.Event()
        thread = threading.Thread(target=greet)
        thread.start()
        job.process("connect")
        job.checkpoint()
        left.set()
        thread.join()
        job.process("look")
        job.checkpoint()
        assert job.output() == [b"hi", True]
