"""Jobs whose machine's clock jumps: timers and windows of processing time continue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.waiting import eventually
from tidemill.common import Configuration, Types
from tidemill.common.time import Time
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.datastream.state import StateTtlConfig, ValueStateDescriptor
from tidemill.datastream.window import TumblingProcessingTimeWindows
from tidemill.runtime.time.processing_clock import ProcessingClock
from tidemill.testing import JobHarness
from tidemill.testing.recording_sink import Recording, RecordingSink

SECOND = 1000
HOUR = 3600 * SECOND


class Later(KeyedProcessFunction):
    """Answers each record after a second."""

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + SECOND)
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key()


class Machine:
    """What a job on a machine sees of time, in milliseconds."""

    def __init__(self, jump_delay: float) -> None:
        self.steady = 0
        self.wall = 1_700_000_000 * SECOND
        self._jump_delay = jump_delay

    def clock(self) -> ProcessingClock:
        return ProcessingClock(self._jump_delay, wall=lambda: self.wall * 10**6, steady=lambda: self.steady * 10**6)

    def sleep(self, millis: int) -> None:
        self.steady += millis
        self.wall += millis


def _later(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    return words.key_by(lambda word: word).process(Later()).uid("later")


def _windows(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    windows = words.map(lambda word: (word, 1)).key_by(0).window(TumblingProcessingTimeWindows.of(Time.seconds(1)))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda pair: pair[0])


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("jump_delay", [0.0, 60.0], ids=["followed", "not followed"])
@pytest.mark.parametrize("build", [_later, _windows])
def test_timers_and_windows_of_new_records_fire_after_a_jump_ahead_and_back(
    build: Any, jump_delay: float, restarted: bool
) -> None:
    machine = Machine(jump_delay)
    clock = machine.clock()

    def now() -> int:
        return clock()

    with JobHarness(build, inputs=["words"], clock=now) as job:

        def restart() -> None:
            nonlocal clock
            clock = machine.clock()
            clock.resume(job.head.clock)  # as the driver does that reads the wall clock itself
            job.restart()

        def come(word: str) -> None:
            machine.sleep(10)
            job.epoch(words=[word])

        come("before")
        machine.wall += HOUR
        come("ahead")
        machine.wall -= HOUR
        if restarted:
            restart()
        come("back")
        for _ in range(25):  # a second, or two at half the pace, and the rest of a window
            machine.sleep(100)
            job.epoch()
        assert sorted(job.output()) == ["ahead", "back", "before"]
        machine.wall -= HOUR
        if restarted:
            restart()
        come("set back")
        for _ in range(25):
            machine.sleep(100)
            job.epoch()
        assert sorted(job.output()) == ["ahead", "back", "before", "set back"]


class Remember(KeyedProcessFunction):
    """Emits how often a key was seen in the last minute, more or less."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("seen", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.minutes(1)).build())
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield seen


def test_state_does_not_expire_by_a_jump_that_is_taken_back() -> None:
    machine = Machine(jump_delay=60.0)

    def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
        return words.key_by(lambda word: word).process(Remember())

    with JobHarness(count, inputs=["words"], clock=machine.clock()) as job:
        job.epoch(words=["a"])
        machine.wall += HOUR
        machine.sleep(SECOND)
        job.epoch(words=["a"])
        machine.wall -= HOUR
        machine.sleep(SECOND)
        job.epoch(words=["a"])
        machine.sleep(61 * SECOND)
        job.epoch(words=["a"])
        assert job.output() == [1, 2, 3, 1]


@pytest.mark.parametrize("jump_delay", [None, "0 ms"], ids=["not followed", "followed"])
@pytest.mark.parametrize("jump", [timedelta(hours=1), timedelta(hours=-1)], ids=["ahead and back", "back and ahead"])
def test_a_running_job_survives_a_jump_of_its_machines_clock(
    jump: timedelta, jump_delay: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset, wall_time = 0, time.time_ns

    monkeypatch.setattr(time, "time_ns", lambda: wall_time() + offset)
    options = {"execution.target": "local", "parallelism.default": "1"}
    if jump_delay is not None:
        options["execution.clock.jump-delay"] = jump_delay
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    source = DataGeneratorSource(lambda n: n, rate_limiter_strategy=RateLimiterStrategy.per_second(20))
    recording = Recording()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n).process(Later()).sink_to(RecordingSink(recording))
    client = env.execute_async("jumps")
    try:

        def more() -> bool:
            return len(recording.values()) > seen + 10

        for shift in (jump, -jump):
            seen = len(recording.values())
            eventually(more)
            offset += int(shift.total_seconds()) * 10**9
        seen = len(recording.values())
        eventually(more)
    finally:
        client.cancel().result()
