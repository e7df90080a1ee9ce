"""Timers: every rule of both clocks, on both backends of timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tests.semantics.partitions import MAX_TIME, MIN_TIME
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
    TimerService,
    ValueStateDescriptor,
)
from tidemill.errors import StateError, TidemillError
from tidemill.testing import JobHarness, KeyedHarness

Context = KeyedProcessFunction.OnTimerContext
OnTimer = Callable[[int, Context], Iterable[Any] | None]


class Commands(KeyedProcessFunction):
    """Records say what to do: (key, command, time), with the commands event, processing, delete-event, ..."""

    def __init__(self, on_timer: OnTimer | None = None) -> None:
        self._on_timer = on_timer

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        _, command, time = value
        command_of(ctx.timer_service(), command)(time)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), timestamp
        if self._on_timer is not None:
            yield from self._on_timer(timestamp, ctx) or ()


def command_of(service: TimerService, command: str) -> Callable[[int], None]:
    return {
        "event": service.register_event_time_timer,
        "processing": service.register_processing_time_timer,
        "delete-event": service.delete_event_time_timer,
        "delete-processing": service.delete_processing_time_timer,
    }[command]


@pytest.mark.parametrize("command", ["event", "processing", "delete-event", "delete-processing"])
@pytest.mark.parametrize("time", [None, "12", float("nan"), 2**63])
def test_a_time_that_no_timer_can_have_is_an_error(command: str, time: Any) -> None:
    """A timer that is to be deleted must not fire because its time was given as another type."""
    with KeyedHarness(Commands(), key_selector=0) as harness, pytest.raises(StateError, match="a timer needs a time"):
        harness.process(("a", command, time))


class Domain:
    """One of the two clocks, as a test moves it."""

    def __init__(self, name: str, domain: TimeDomain) -> None:
        self.name = name
        self.domain = domain
        self.delete = f"delete-{name}"

    def move(self, harness: KeyedHarness, time: int) -> None:
        if self.domain is TimeDomain.EVENT_TIME:
            harness.watermark(time)
        else:
            harness.set_processing_time(time)

    def register(self, ctx: Context) -> Callable[[int], None]:
        return command_of(ctx.timer_service(), self.name)

    def __repr__(self) -> str:
        return self.name


@pytest.fixture(
    params=[Domain("event", TimeDomain.EVENT_TIME), Domain("processing", TimeDomain.PROCESSING_TIME)], ids=str
)
def domain(request: pytest.FixtureRequest) -> Domain:
    found: Domain = request.param
    return found


def harness(on_timer: OnTimer | None = None, **options: Any) -> KeyedHarness:
    return KeyedHarness(Commands(on_timer), key_selector=0, key_type=Types.STRING(), **options)


def test_timers_fire_in_the_order_of_their_times(domain: Domain) -> None:
    with harness() as job:
        for key, time in (("a", 30), ("b", 10), ("a", 20), ("c", 40)):
            job.process((key, domain.name, time))
        domain.move(job, 30)
        assert job.output() == [("b", 10), ("a", 20), ("a", 30)]
        assert job.timers(domain.domain) == [(40, "c")]


def test_a_timer_fires_when_its_time_is_reached_not_before(domain: Domain) -> None:
    with harness() as job:
        job.process(("a", domain.name, 10))
        domain.move(job, 9)
        assert job.output() == []
        domain.move(job, 10)
        assert job.output() == [("a", 10)]
        domain.move(job, 20)
        assert job.output() == [("a", 10)]


def test_one_timer_for_each_key_and_time(domain: Domain) -> None:
    with harness() as job:
        for key in ("a", "a", "b", "a"):
            job.process((key, domain.name, 10))
        domain.move(job, 10)
        assert sorted(job.output()) == [("a", 10), ("b", 10)]


def test_the_order_of_equal_times_does_not_depend_on_the_order_of_registration(domain: Domain) -> None:
    keys = [f"key-{n}" for n in range(50)]
    orders = []
    for given in (keys, keys[::-1]):
        with harness() as job:
            for key in given:
                job.process((key, domain.name, 10))
            domain.move(job, 10)
            orders.append(job.output())
    assert orders[0] == orders[1]


def test_the_order_is_the_same_after_a_restore(domain: Domain) -> None:
    with harness() as job:
        for n in range(50):
            job.process((f"key-{n}", domain.name, 10 + n % 3))
        pending = job.timers(domain.domain)
        with job.restore(job.snapshot()) as again:
            assert again.timers(domain.domain) == pending
            domain.move(again, 100)
            assert [(time, key) for key, time in again.output()] == pending


def test_a_deleted_timer_does_not_fire(domain: Domain) -> None:
    with harness() as job:
        job.process(("a", domain.name, 10))
        job.process(("a", domain.name, 20))
        job.process(("a", domain.delete, 10))
        job.process(("b", domain.delete, 20))  # of another key
        job.process(("a", domain.delete, 99))  # of which there is none
        domain.move(job, 100)
        assert job.output() == [("a", 20)]


def test_a_timer_that_was_deleted_can_be_set_again(domain: Domain) -> None:
    with harness() as job:
        for command in (domain.name, domain.delete, domain.name):
            job.process(("a", command, 10))
        domain.move(job, 10)
        assert job.output() == [("a", 10)]


def test_a_committed_timer_that_was_deleted_is_gone_after_a_restore(domain: Domain) -> None:
    with harness() as job:
        job.process(("a", domain.name, 10))
        job.checkpoint()
        job.process(("a", domain.delete, 10))
        with job.restore(job.snapshot()) as again:
            domain.move(again, 10)
            assert again.output() == []


def test_a_timer_set_by_a_timer_for_later(domain: Domain) -> None:
    def later(timestamp: int, ctx: Context) -> None:
        domain.register(ctx)(timestamp + 10)

    with harness(later) as job:
        job.process(("a", domain.name, 10))
        domain.move(job, 35)
        assert job.output() == [("a", 10), ("a", 20), ("a", 30)]
        assert job.timers(domain.domain) == [(40, "a")]


def test_a_timer_set_by_a_timer_for_the_same_time_fires_again(domain: Domain) -> None:
    class Again(Commands):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))

        def on_timer(self, timestamp: int, ctx: Context) -> Iterable[Any]:
            yield timestamp
            count = 3 if self.left.value() is None else self.left.value()
            self.left.update(count - 1)
            if count > 0:
                domain.register(ctx)(timestamp)

    with KeyedHarness(Again(), key_selector=0, key_type=Types.STRING()) as job:
        job.process(("a", domain.name, 10))
        domain.move(job, 10)
        assert job.output() == [10, 10, 10, 10]


def test_a_timer_set_by_a_timer_for_earlier_fires_next(domain: Domain) -> None:
    def earlier(timestamp: int, ctx: Context) -> None:
        if timestamp == 20:
            domain.register(ctx)(5)

    with harness(earlier) as job:
        for time in (20, 30):
            job.process(("a", domain.name, time))
        domain.move(job, 30)
        assert job.output() == [("a", 20), ("a", 5), ("a", 30)]


def test_a_timer_deleted_by_a_timer_does_not_fire(domain: Domain) -> None:
    def delete(timestamp: int, ctx: Context) -> None:
        command_of(ctx.timer_service(), domain.delete)(timestamp + 10)

    with harness(delete) as job:
        for time in (10, 20, 30):
            job.process(("a", domain.name, time))
        domain.move(job, 30)
        assert job.output() == [("a", 10), ("a", 30)]


def test_deleting_the_timer_that_fires_changes_nothing(domain: Domain) -> None:
    def delete(timestamp: int, ctx: Context) -> None:
        command_of(ctx.timer_service(), domain.delete)(timestamp)

    with harness(delete) as job:
        job.process(("a", domain.name, 10))
        domain.move(job, 10)
        assert job.output() == [("a", 10)]


def test_thousands_of_timers_of_one_key(domain: Domain) -> None:
    times = [(7919 * n) % 5000 for n in range(5000)]
    with harness() as job:
        for time in times:
            job.process(("a", domain.name, time + 1))
        job.checkpoint()
        assert len(job.timers(domain.domain)) == 5000
        domain.move(job, 2500)
        assert job.output() == [("a", time) for time in range(1, 2501)]
        domain.move(job, 10_000)
        assert len(job.output()) == 5000
        assert job.timers(domain.domain) == []


def test_a_timer_knows_its_clock_key_and_time(domain: Domain) -> None:
    def tell(timestamp: int, ctx: Context) -> Iterable[Any]:
        service = ctx.timer_service()
        yield ctx.time_domain(), ctx.timestamp(), ctx.get_current_key()
        yield service.current_watermark(), service.current_processing_time()

    with harness(tell) as job:
        job.process(("a", domain.name, 10))
        domain.move(job, 15)
        clocks = (15, 0) if domain.domain is TimeDomain.EVENT_TIME else (MIN_TIME, 15)
        assert job.output() == [("a", 10), (domain.domain, 10, "a"), clocks]


def test_the_clocks_do_not_see_each_others_timers() -> None:
    with harness() as job:
        job.process(("a", "event", 10))
        job.process(("a", "processing", 10))
        job.process(("a", "delete-event", 10))
        job.watermark(100)
        assert job.output() == []
        job.set_processing_time(10)
        assert job.output() == [("a", 10)]


def test_results_of_event_time_timers_have_the_timers_time_and_others_none() -> None:
    with harness() as job:
        job.process(("a", "event", 10), timestamp=3)
        job.process(("a", "processing", 20), timestamp=3)
        job.watermark(15)
        job.set_processing_time(25)
        assert job.output_with_timestamps() == [(("a", 10), 10), (("a", 20), None)]


def test_an_event_time_timer_in_the_past_fires_with_the_next_watermark() -> None:
    with harness() as job:
        job.watermark(100)
        job.process(("a", "event", 50))
        assert job.output() == []
        job.watermark(100)  # does not move
        assert job.output() == []
        job.watermark(101)
        assert job.output() == [("a", 50)]


def test_a_processing_time_timer_in_the_past_fires_in_the_same_epoch() -> None:
    with harness(processing_time=100) as job:
        job.process(("a", "processing", 50))
        job.checkpoint()
        assert job.output() == [("a", 50)]


def test_timers_of_both_clocks_fire_before_the_watermark_is_forwarded() -> None:
    with harness() as job:
        job.process(("a", "event", 10))
        job.watermark(20)
        assert (job.output(), job.watermarks()) == ([("a", 10)], [20])


def test_a_timer_may_be_set_for_the_end_of_time() -> None:
    with harness() as job:
        job.process(("a", "event", MAX_TIME))
        job.process(("a", "event", 10))
        job.watermark(MAX_TIME - 1)
        assert job.output() == [("a", 10)]
        job.end_input()
        assert job.output() == [("a", 10), ("a", MAX_TIME)]


def test_a_timer_of_the_least_time_fires_with_the_first_watermark() -> None:
    with harness() as job:
        job.process(("a", "event", MIN_TIME))
        job.watermark(-5)
        assert job.output() == [("a", MIN_TIME)]


def test_timers_with_negative_times() -> None:
    with harness() as job:
        for time in (-1, -20, 5, -3):
            job.process(("a", "event", time))
        job.watermark(-3)
        assert job.output() == [("a", -20), ("a", -3)]


class Forgetful(Commands):
    """Clears its state with the record 'clear'."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        if value[1] == "clear":
            self.seen.clear()
        else:
            self.seen.update(value[2])
            super().process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Context) -> Iterable[Any]:
        yield ctx.get_current_key(), timestamp, self.seen.value()


def test_a_timer_outlives_the_state_of_its_key(domain: Domain) -> None:
    with KeyedHarness(Forgetful(), key_selector=0, key_type=Types.STRING()) as job:
        job.process(("a", domain.name, 10))
        job.process(("a", "clear", 0))
        job.checkpoint()
        domain.move(job, 10)
        assert job.output() == [("a", 10, None)]


@pytest.mark.parametrize("time", [10.7, Decimal("10.2"), np.int64(10), np.float64(10.9)])
def test_the_fraction_of_a_time_is_cut_off(domain: Domain, time: Any) -> None:
    with harness() as job:
        job.process(("a", domain.name, time))
        domain.move(job, 10)
        assert job.output() == [("a", 10)]


@pytest.mark.parametrize("time", ["10", None, float("nan")])
def test_a_time_that_is_no_number_is_refused(domain: Domain, time: Any) -> None:
    with harness() as job, pytest.raises(TidemillError, match="a timer needs a time in milliseconds as an int"):
        job.process(("a", domain.name, time))


def test_a_time_of_more_than_64_bits_is_refused(domain: Domain) -> None:
    with harness() as job, pytest.raises(TidemillError, match="fits 64 bits"):
        job.process(("a", domain.name, MAX_TIME + 1))


def test_outside_of_a_record_no_timer_can_be_set() -> None:
    class Keeping(KeyedProcessFunction):
        service: TimerService

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            self.service = ctx.timer_service()

    with KeyedHarness(Keeping(), key_selector=0) as job:
        job.process(("a", 1))
        job.checkpoint()
        with pytest.raises(StateError, match=r"timers of operator .* while no record was being processed"):
            job.function.service.register_event_time_timer(5)


def test_the_runtime_context_of_open_has_no_timers() -> None:
    class Early(Commands):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.timer_service()  # type: ignore[attr-defined]

    with pytest.raises(TidemillError, match=r"open\(\) of operator .*"):
        KeyedHarness(Early(), key_selector=0)


def test_what_on_timer_raises_names_the_key() -> None:
    def fail(timestamp: int, ctx: Context) -> None:
        raise ValueError("no")

    with harness(fail) as job:
        job.process(("secret", "event", 10))
        with pytest.raises(TidemillError, match=r"on_timer\(\) of operator.*'secret'"):
            job.watermark(10)


# --- other functions with timers


class TwoSided(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        ctx.timer_service().delete_event_time_timer(value[1])
        ctx.timer_service().register_processing_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.time_domain().name


def test_timers_of_connected_streams_belong_to_the_key() -> None:
    with KeyedHarness(TwoSided(), key_selector=0) as job:
        job.process(("a", 10), stream=1)
        job.process(("b", 10), stream=1)
        job.process(("a", 10), stream=2)
        job.watermark(20, stream=1)
        assert job.output() == [], "the second stream holds time back"
        job.watermark(15, stream=2)
        job.set_processing_time(10)
        assert job.output() == [("b", 10, "EVENT_TIME"), ("a", 10, "PROCESSING_TIME")]


def test_an_idle_side_lets_timers_fire() -> None:
    with KeyedHarness(TwoSided(), key_selector=0) as job:
        job.process(("a", 10), stream=1)
        job.watermark(20, stream=1)
        job.mark_idle(stream=2)
        assert job.output() == [("a", 10, "EVENT_TIME")]


LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())


class WithLimits(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LIMITS).put("most", value)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.time_domain().name, ctx.get_broadcast_state(LIMITS).get("most")


def test_a_timer_reads_broadcast_state() -> None:
    with KeyedHarness(WithLimits(), key_selector=0, broadcast=[LIMITS]) as job:
        job.process(("a", 10))
        job.process(7, stream=2)
        job.watermark(10)
        assert job.output() == [("a", 10, "EVENT_TIME", 7)]


def test_the_broadcast_side_has_no_timers() -> None:
    class Wrong(WithLimits):
        def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
            ctx.timer_service().register_event_time_timer(1)  # type: ignore[attr-defined]

    with KeyedHarness(Wrong(), key_selector=0, broadcast=[LIMITS]) as job, pytest.raises(TidemillError):
        job.process(7, stream=2)


# --- whole jobs


BACKENDS = [
    {"state.backend.type": "hashmap"},
    {"state.backend.type": "rocksdb"},
    {"state.backend.type": "rocksdb", "state.backend.rocksdb.timer-service.factory": "HEAP"},
]


def alarms(env: StreamExecutionEnvironment, events: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[2])
    stamped = events.assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    return stamped.key_by(0, Types.STRING()).process(Commands()).uid("alarms")


@pytest.mark.parametrize("configuration", BACKENDS, ids=["hashmap", "rocksdb", "rocksdb with heap timers"])
def test_timers_survive_restart_and_rescaling_on_every_backend(configuration: dict[str, str]) -> None:
    with JobHarness(alarms, inputs=["events"], configuration=configuration) as job:
        job.epoch(events=[(f"key-{n}", "event", n) for n in range(40)])
        fired = len(job.output())
        assert fired == 39, "all but the last, at 38"
        for n, parallelism in enumerate((3, 1, 2)):
            job.epoch(events=[(f"key-{k}", "processing", 1000 + 10 * n) for k in range(5)])
            job.restart(parallelism=parallelism)
        job.set_processing_time(5000)
        job.epoch(events=[])
        assert len(job.output()) == 39 + 15 + 1
        assert job.timers("alarms") == job.timers("alarms", TimeDomain.PROCESSING_TIME) == []


def test_processing_time_timers_fire_in_a_job_without_input() -> None:
    with JobHarness(alarms, inputs=["events"]) as job:
        job.epoch(events=[("a", "processing", 50)])
        assert job.head.next_timer == 50
        job.set_processing_time(60)
        job.epoch(events=[])
        assert job.output() == [("a", 50)]
        assert job.head.next_timer is None


def test_event_time_timers_fire_when_the_input_ends() -> None:
    with JobHarness(alarms, inputs=["events"]) as job:
        job.epoch(events=[("a", "event", 50), ("b", "event", MAX_TIME)])
        job.end()
        assert sorted(job.output()) == [("a", 50), ("b", MAX_TIME)]
