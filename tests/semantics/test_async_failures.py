"""Async I/O when things go wrong: timeouts, exceptions, wrong programs, retries."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.semantics.async_cases import LONG, MEDIUM, SHORT, After, Double, Env, LoopClock, both_orders, run_all, wait
from tidemill.common import Duration, Time, Types
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    DataStream,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidemill.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from tidemill.errors import TidemillError, TypeMismatchError, UserCodeError
from tidemill.runtime.operators import async_calls
from tidemill.testing import JobHarness, OperatorHarness

# --- timeouts


class Clock:
    """The clock of the functions, which are copied."""

    of_the_test: LoopClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    """Calls are late, or not, by this clock."""
    Clock.of_the_test = LoopClock()
    monkeypatch.setattr(asyncio, "new_event_loop", Clock.of_the_test.new_loop)
    return Clock.of_the_test


class Slow(AsyncFunction):
    """Never answers to negative records; remembers what became of them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.log: list[Any] = []

    async def async_invoke(self, value: int) -> list[Any]:
        if value >= 0:
            return [value]
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(("cancelled", value))
        return []


class SlowWithDefault(Slow):
    def timeout(self, value: int) -> list[Any]:
        self.log.append(("timeout", value))
        return [("late", value), *self.log]


@pytest.mark.usefixtures("clock")
def test_a_timeout_fails_the_job_and_names_operator_record_and_line() -> None:
    def build(env: Env, values: DataStream) -> DataStream:
        return AsyncDataStream.ordered_wait(values, Slow(), SHORT).name("ask").uid("ask-1")

    with JobHarness(build, inputs=["values"], parallelism=1) as job, pytest.raises(UserCodeError) as raised:
        job.epoch(values=[1, -2, 3])
    message = str(raised.value)
    assert "TimeoutError: async_invoke() took longer than its timeout" in message
    assert "raised in timeout() of operator 'ask' (uid ask-1, subtask 1 of 1), defined at" in message
    assert "test_async_failures.py" in message
    assert message.endswith("while processing record -2")


@both_orders
def test_a_late_call_is_cancelled_before_timeout_gives_its_results(in_order: bool) -> None:
    results = run_all([-1], SlowWithDefault(), timeout=SHORT, in_order=in_order)
    assert results == [("late", -1), ("cancelled", -1), ("timeout", -1)]


@pytest.mark.usefixtures("clock")
def test_a_timeout_touches_no_other_record_and_keeps_the_order() -> None:
    results = run_all([1, -2, 3, -4, 5], SlowWithDefault(), timeout=MEDIUM, capacity=2)
    assert [value for value in results if isinstance(value, int) or value[0] == "late"] == [
        1,
        ("late", -2),
        3,
        ("late", -4),
        5,
    ]


@pytest.mark.usefixtures("clock")
def test_every_record_has_its_own_timeout() -> None:
    """Ten records of 40 ms, one after the other: together longer than the timeout, each of them not."""

    class Sleep(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            await asyncio.sleep(0.04)
            return [value]

    assert run_all(list(range(10)), Sleep(), timeout=MEDIUM, capacity=1) == list(range(10))


def test_a_timeout_of_zero_is_none_and_all_lengths_of_time_will_do() -> None:
    class Sleep(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            await asyncio.sleep(0.01)
            return [value]

    assert run_all([1], Sleep(), timeout=Time.milliseconds(0)) == [1]
    assert run_all([1], Sleep(), timeout=Duration.of_seconds(30)) == [1]
    assert run_all([1], Sleep(), timeout=30_000) == [1]


def test_the_clock_of_a_timeout_stops_while_others_are_at_work(clock: LoopClock) -> None:
    with OperatorHarness(wait(After(), timeout=MEDIUM)) as harness:
        harness.process(("a", "b"))
        clock.now += 0.4  # the operators before and behind it
        harness.process(("b", None))
        harness.checkpoint()
        assert harness.output() == ["a", "b"]


def test_what_timeout_raises_comes_with_the_users_traceback() -> None:
    class Refuse(Slow):
        def timeout(self, value: int) -> list[Any]:
            raise LookupError("nobody there")

    with pytest.raises(UserCodeError, match=r"(?s)raise LookupError.*nobody there.*timeout\(\) of .*record -1"):
        run_all([-1], Refuse(), timeout=SHORT)


@pytest.mark.usefixtures("clock")
def test_a_call_that_blocks_the_loop_is_late_when_it_returns() -> None:
    class Block(AsyncFunction):
        async def async_invoke(self, value: float) -> list[Any]:
            Clock.of_the_test.now += value  # what one must not do: time.sleep()
            return ["on time"]

        def timeout(self, value: float) -> list[Any]:
            return ["late"]

    assert run_all([0.4, 0.0], Block(), timeout=MEDIUM) == ["late", "on time"]


def test_a_blocking_client_in_a_thread_is_cancelled_on_time(clock: LoopClock) -> None:
    class InThread(AsyncFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.answers = 0
            self.answer = threading.Event()

        async def async_invoke(self, value: str) -> list[Any]:
            await asyncio.to_thread(self.answer.wait if value == "late" else str, 60)
            self.answers += 1
            Clock.of_the_test.held = self.answers < 2  # nothing else is to come in time
            return [value]

        def timeout(self, value: str) -> list[Any]:
            self.answer.set()
            return ["timeout"]

    clock.held = True
    assert run_all(["late", "a", "b"], InThread(), timeout=MEDIUM) == ["timeout", "a", "b"]


class Stubborn(AsyncFunction):
    """Goes on for a while after it was cancelled."""

    async def async_invoke(self, value: float) -> list[Any]:
        loop = asyncio.get_running_loop()
        until = loop.time() + value
        while loop.time() < until:
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                continue
        return ["its own answer"]

    def timeout(self, value: float) -> list[Any]:
        return ["late"]


@pytest.mark.usefixtures("clock")
def test_the_answer_of_a_call_that_was_cancelled_does_not_count() -> None:
    assert run_all([0.4, 0.0], Stubborn(), timeout=MEDIUM, capacity=1) == ["late", "its own answer"]


@pytest.mark.usefixtures("clock")
def test_a_call_that_ignores_its_cancellation_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_calls, "GRACE", 0.05)
    with pytest.raises(UserCodeError, match=r"(?s)has not ended 0\.05 seconds later.*record 2\.0"):
        run_all([2.0], Stubborn(), timeout=SHORT)
    gc.collect()


@pytest.mark.usefixtures("clock")
def test_a_call_that_was_cancelled_leaves_no_trace_in_the_next_one() -> None:
    """asyncio's own timeouts and task groups look at this count."""

    class Looks(AsyncFunction):
        async def async_invoke(self, value: str) -> list[Any]:
            if value == "late":
                await asyncio.Event().wait()
            task = asyncio.current_task()
            return [getattr(task, "cancelling", int)()]  # new in Python 3.11

        def timeout(self, value: str) -> list[Any]:
            return [value]

    assert run_all(["late", "next"], Looks(), timeout=MEDIUM, capacity=1) == ["late", 0]


# --- failures


class Fails(AsyncFunction):
    """Raises for negative records, while others wait for ever."""

    async def async_invoke(self, value: int) -> list[Any]:
        if value == 0:
            return [value]
        try:
            await asyncio.sleep(0 if value < 0 else 1000)
            raise ValueError(f"cannot do {value}")
        finally:
            await asyncio.sleep(0)  # cleaning up takes its time, and is waited for
            fails_seen.append(value)

    def close(self) -> None:
        fails_seen.append("closed")


fails_seen: list[Any] = []


@both_orders
def test_an_exception_fails_the_job_with_the_users_traceback(in_order: bool) -> None:
    with pytest.raises(UserCodeError) as raised:
        run_all([0, -7, 5, 6], Fails(), in_order=in_order)
    message = str(raised.value)
    assert message.startswith("Traceback")
    assert "ValueError: cannot do -7" in message
    assert 'raise ValueError(f"cannot do {value}")' in message
    assert "runtime/operators" not in message
    assert "raised in async_invoke() of operator 'async wait operator'" in message
    assert message.endswith("while processing record -7")


def test_after_a_failure_all_calls_are_cancelled_and_awaited_before_close() -> None:
    fails_seen.clear()
    with pytest.raises(UserCodeError):
        run_all([5, -7, 6], Fails())
    assert fails_seen[0] == -7
    assert sorted(fails_seen[1:3]) == [5, 6]
    assert fails_seen[3:] == ["closed"]


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("awaited", [True, False])
def test_a_task_of_the_function_cannot_end_the_process(raised: type[BaseException], awaited: bool) -> None:
    """asyncio passes these two from any task to whoever runs the loop."""

    class Subtasks(AsyncFunction):
        async def ends(self, value: Any) -> Any:
            if value == 2:
                raise raised
            return value

        async def async_invoke(self, value: Any) -> list[Any]:
            task = asyncio.ensure_future(self.ends(value))
            if awaited:
                return list(await asyncio.gather(task))
            await asyncio.sleep(0.01)
            return [value]

    with pytest.raises(UserCodeError) as failed:
        run_all([1, 2, 3], Subtasks())
    message = str(failed.value)
    assert "raised in async_invoke() of operator" in message
    assert ("while processing record 2" in message) is awaited
    assert f"A function cannot end its process with {raised.__name__}: the job fails instead" in message


def test_a_call_that_cancels_itself_fails_the_job() -> None:
    class Cancels(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            never = asyncio.ensure_future(asyncio.Event().wait())
            never.cancel()
            await never
            return []

    with pytest.raises(UserCodeError, match=r"(?s)CancelledError.*async_invoke\(\) of .*record 1"):
        run_all([1], Cancels())


@pytest.mark.parametrize("wrong", [None, 3, "text", b"bytes"])
def test_results_must_be_a_list(wrong: Any) -> None:
    class Returns(AsyncFunction):
        async def async_invoke(self, value: Any) -> Any:
            return wrong

    kind = type(wrong).__name__
    with pytest.raises(UserCodeError, match=rf"async_invoke\(\) must return a list .* not {kind}"):
        run_all([1], Returns())


def test_results_of_timeout_must_be_a_list() -> None:
    class Returns(Slow):
        def timeout(self, value: Any) -> Any:
            return None

    with pytest.raises(UserCodeError, match=r"timeout\(\) must return a list .* not NoneType"):
        run_all([-1], Returns(), timeout=SHORT)


def test_results_are_of_the_declared_type() -> None:
    assert run_all([1], Double(), output_type=Types.LONG()) == [2]
    with pytest.raises(TypeMismatchError, match="async wait operator"):
        run_all([1], Double(), output_type=Types.STRING())


def test_the_type_of_the_results_is_read_from_the_annotation() -> None:
    class Length(AsyncFunction):
        async def async_invoke(self, value: str) -> list[int]:
            return [len(value)]

    env = StreamExecutionEnvironment.get_execution_environment()
    assert AsyncDataStream.ordered_wait(env.from_collection(["a"]), Length(), LONG).get_type() == Types.LONG()


def test_what_cannot_be_an_async_function_is_refused_at_once() -> None:
    class Plain(AsyncFunction):
        def async_invoke(self, value: Any) -> Any:
            return [value]

    class Yields(AsyncFunction):
        async def async_invoke(self, value: Any) -> Any:
            yield value

    class AsyncTimeout(Double):
        async def timeout(self, value: Any) -> Any:  # type: ignore[override]
            return []

    class Sync(MapFunction):
        def map(self, value: Any) -> Any:
            return value

    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    cases: list[tuple[Any, str]] = [
        (Plain(), r"async_invoke\(\) of Plain must be declared with 'async def'"),
        (Yields(), r"must return its results as a list"),
        (AsyncTimeout(), r"timeout\(\) of AsyncTimeout must be declared with 'def'"),
        (Sync(), "needs an AsyncFunction object, not Sync"),
        (Double, "not the class Double"),
        (lambda value: value, "not function"),
    ]
    for function, message in cases:
        with pytest.raises(TypeError, match=message):
            AsyncDataStream.unordered_wait(stream, function, LONG)
    not_a_stream: Any = [1]
    with pytest.raises(TypeError, match="needs a DataStream, not list"):
        AsyncDataStream.ordered_wait(not_a_stream, Double(), LONG)


def test_settings_that_cannot_work_are_refused_at_once() -> None:
    class NoPredicate(AsyncRetryStrategy):
        def can_retry(self, current_attempts: int) -> bool:
            return True

        def get_backoff_time_millis(self, current_attempts: int) -> int:
            return 1

        def get_retry_predicate(self) -> Any:
            return None

    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    nothing: Any = None
    with pytest.raises(ValueError, match="capacity"):
        AsyncDataStream.unordered_wait(stream, Double(), LONG, 0)
    with pytest.raises(TypeError, match="needs an AsyncRetryStrategy, not NoneType"):
        AsyncDataStream.unordered_wait_with_retry(stream, Double(), LONG, nothing)
    with pytest.raises(TypeError, match="NoPredicate must return an AsyncRetryPredicate"):
        AsyncDataStream.unordered_wait_with_retry(stream, Double(), LONG, NoPredicate())
    with pytest.raises(ValueError, match="needs a timeout"):
        AsyncDataStream.ordered_wait_with_retry(stream, Double(), Time.seconds(0), on_error(1))
    for arguments in [(0, 1), (1, 0)]:
        with pytest.raises(ValueError, match="must be greater than 0"):
            AsyncRetryStrategy.fixed_delay(*arguments, None, None)
    with pytest.raises(ValueError, match="multiplier must be greater than 0"):
        AsyncRetryStrategy.exponential_backoff(1, 1, 1, 0.0, None, None)


def test_a_loop_that_runs_already_in_this_thread_is_no_silent_failure() -> None:
    async def inside() -> None:
        with pytest.raises(TidemillError, match="an event loop is already running in this thread"):
            run_all([1], Double())

    asyncio.run(inside())


# --- retries


def on_error(attempts: int, kind: type[Exception] = Exception) -> AsyncRetryStrategy:
    return AsyncRetryStrategy.fixed_delay(
        attempts, 1, None, partial(exception_type_predicate, expected_error_type=kind)
    )


class Unreliable(AsyncFunction):
    """Fails a number of times for each record, with an exception or without results; answers with its attempts."""

    def __init__(self, failures: int, error: type[Exception] | None = ConnectionError) -> None:
        self.failures = failures
        self.error = error
        self.attempts: dict[Any, int] = defaultdict(int)

    async def async_invoke(self, value: Any) -> list[Any]:
        self.attempts[value] += 1
        if self.attempts[value] <= self.failures:
            if self.error is not None:
                raise self.error(f"attempt {self.attempts[value]}")
            return []
        return [(value, self.attempts[value])]


@both_orders
def test_calls_are_made_again_after_an_exception(in_order: bool) -> None:
    results = run_all(["a", "b"], Unreliable(3), retry=on_error(3), in_order=in_order)
    assert sorted(results) == [("a", 4), ("b", 4)]


def test_when_all_attempts_have_failed_the_last_exception_counts() -> None:
    with pytest.raises(UserCodeError, match="ConnectionError: attempt 4"):
        run_all(["a"], Unreliable(4), retry=on_error(3))


def test_only_exceptions_that_the_predicate_accepts_are_retried() -> None:
    with pytest.raises(UserCodeError, match="KeyError: 'attempt 1'"):
        run_all(["a"], Unreliable(1, KeyError), retry=on_error(3, ConnectionError))
    assert run_all(["a"], Unreliable(1, ConnectionResetError), retry=on_error(3, ConnectionError)) == [("a", 2)]


def test_calls_are_made_again_after_wrong_results_and_the_last_ones_count() -> None:
    retry = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, None)
    assert run_all(["a"], Unreliable(2, None), retry=retry) == [("a", 3)]
    assert run_all(["a"], Unreliable(3, None), retry=retry) == []


def test_a_strategy_without_retries_and_one_without_predicates_call_once() -> None:
    for retry in (AsyncRetryStrategy.no_restart(), AsyncRetryStrategy.fixed_delay(5, 1, None, None)):
        with pytest.raises(UserCodeError, match="ConnectionError: attempt 1"):
            run_all(["a"], Unreliable(1), retry=retry)


def test_the_timeout_is_for_all_attempts_together() -> None:
    retry = AsyncRetryStrategy.fixed_delay(1_000_000, 5, None, has_exception_predicate)
    with pytest.raises(UserCodeError, match=r"(?s)TimeoutError.*raised in timeout\(\) of .*record 'a'"):
        run_all(["a"], Unreliable(1_000_000), retry=retry, timeout=SHORT)


def test_delays_grow_up_to_the_longest() -> None:
    retry = AsyncRetryStrategy.exponential_backoff(10_000, 100, 1000, 3, None, None)
    # Records are retried at the same time: what one asks must not change the delays of another.
    assert [retry.get_backoff_time_millis(attempt) for attempt in (1, 2, 1, 3, 4, 2, 5000)] == [
        100,
        300,
        100,
        900,
        1000,
        300,
        1000,
    ]
    assert retry.can_retry(10_000)
    assert not retry.can_retry(10_001)


def test_a_strategy_of_ones_own() -> None:
    class Predicate(AsyncRetryPredicate):
        def result_predicate(self) -> Callable[[Any], bool] | None:
            return lambda results: results == []

        def exception_predicate(self) -> Callable[[Exception], bool] | None:
            return None

    class Twice(AsyncRetryStrategy):
        def can_retry(self, current_attempts: int) -> bool:
            return current_attempts < 2

        def get_backoff_time_millis(self, current_attempts: int) -> int:
            return 0

        def get_retry_predicate(self) -> AsyncRetryPredicate:
            return Predicate()

    assert run_all(["a"], Unreliable(1, None), retry=Twice()) == [("a", 2)]
    assert run_all(["a"], Unreliable(2, None), retry=Twice()) == []


def test_a_predicate_that_raises_fails_the_job() -> None:
    def judge(error: Exception) -> bool:
        raise RuntimeError("no judgement")

    with pytest.raises(UserCodeError, match="no judgement"):
        run_all(["a"], Unreliable(1), retry=AsyncRetryStrategy.fixed_delay(1, 1, None, judge))
