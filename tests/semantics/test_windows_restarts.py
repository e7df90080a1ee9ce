"""Windows, timers and a time to live over random lives of a job: equal to a computation over all records at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.semantics.restarts import (
    DELAY,
    Happening,
    Life,
    Record,
    entries_left,
    harness,
    live,
    lives,
    lives_of_a_job,
    stamped,
    streams,
)
from tidemill.common import Duration, Types
from tidemill.datastream import (
    DataStream,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    SlidingEventTimeWindows,
    StateTtlConfig,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.testing import JobHarness

Env = StreamExecutionEnvironment
GAP = 6
WAIT = 17
NEVER = 10**6


class Numbers(ProcessWindowFunction):
    """The window and the numbers in it."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        assert context.current_watermark() >= window.max_timestamp()
        yield key, window.start, window.end, sorted(number for *_, number in elements)


class Collected(KeyedProcessFunction):
    """Each record sets a timer, which emits all that is due by then; another timer is set and taken back at once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        service = ctx.timer_service()
        assert service.current_watermark() < value[1] == ctx.timestamp(), "nothing is late"
        self.waiting.add(value)
        service.register_event_time_timer(value[1] + WAIT)
        service.register_event_time_timer(NEVER)
        service.delete_event_time_timer(NEVER)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.timer_service().current_watermark() >= timestamp == ctx.timestamp()
        waiting = list(self.waiting.get())
        self.waiting.update([record for record in waiting if record[1] > timestamp])
        yield ctx.get_current_key(), timestamp, sorted(number for _, at, number in waiting if at <= timestamp)


def program(env: Env, events: DataStream) -> dict[str, DataStream]:
    keyed = stamped(events).key_by(0, Types.STRING())
    return {
        "tumbling": keyed.window(TumblingEventTimeWindows.of(10, 3)).process(Numbers()).uid("tumbling"),
        "sliding": keyed.window(SlidingEventTimeWindows.of(12, 5)).process(Numbers()).uid("sliding"),
        "sessions": keyed.window(EventTimeSessionWindows.with_gap(GAP)).process(Numbers()).uid("sessions"),
        "timers": keyed.process(Collected()).uid("timers"),
    }


def by_key(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record[0]].append(record)
    return found


def fixed_windows(records: list[Record], size: int, slide: int, offset: int = 0) -> list[Any]:
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key, at, number in records:
        for start in range(at - size + 1, at + 1):
            if (start - offset) % slide == 0:
                found[key, start].append(number)
    return sorted((key, start, start + size, numbers) for (key, start), numbers in found.items())


def sessions(records: list[Record]) -> list[Any]:
    found: list[list[Any]] = []
    for key, of_key in by_key(records).items():
        for _, at, number in sorted(of_key, key=lambda record: record[1]):
            if found and found[-1][0] == key and at <= found[-1][2]:
                found[-1][2:] = [at + GAP, sorted([*found[-1][3], number])]
            else:
                found.append([key, at, at + GAP, [number]])
    return sorted(map(tuple, found))


def timers(records: list[Record]) -> list[Any]:
    found = []
    for key, of_key in by_key(records).items():
        before = -(10**9)
        for due in sorted({at + WAIT for _, at, _ in of_key}):
            found.append((key, due, [number for _, at, number in of_key if before < at <= due]))
            before = due
    return sorted(found)


@lives
@given(streams(), lives_of_a_job())
def test_windows_and_timers(records: list[Record], life: Life) -> None:
    with harness(program, ["events"], life) as job:
        live(job, life, events=records)
        job.end()
        assert {name: sorted(job.output(name)) for name in ("tumbling", "sliding", "sessions", "timers")} == {
            "tumbling": fixed_windows(records, 10, 10, 3),
            "sliding": fixed_windows(records, 12, 5),
            "sessions": sessions(records),
            "timers": timers(records),
        }
        assert entries_left(job) == {}


# --- late records: what is late depends on where epochs end, and on nothing else

LATE = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))


def with_late_records(env: Env, events: DataStream) -> dict[str, DataStream]:
    keyed = stamped(events).set_parallelism(1).key_by(0, Types.STRING())
    found: dict[str, DataStream] = {}
    for name, assigner in (
        ("tumbling", TumblingEventTimeWindows.of(10)),
        ("sessions", EventTimeSessionWindows.with_gap(GAP)),
    ):
        windowed = keyed.window(assigner).allowed_lateness(8).side_output_late_data(LATE)
        found[name] = windowed.process(Numbers()).uid(name)
        found[f"late {name}"] = found[name].get_side_output(LATE)
    return found


@lives
@given(streams(disorder=40), lives_of_a_job())
def test_late_records(records: list[Record], life: Life) -> None:
    def outcome(life: Life) -> dict[str, list[Any]]:
        with JobHarness(with_late_records, inputs=["events"], parallelism=life.parallelism, merge_after=3) as job:
            live(job, life, events=records)
            job.end()
            assert entries_left(job) == {}
            return {
                name: sorted(job.output(name)) for name in ("tumbling", "sessions", "late tumbling", "late sessions")
            }

    assert outcome(life) == outcome(Life(life.cuts, [Happening("nothing", 1)] * len(life.happenings), 1, cold=False))


def test_a_long_run_keeps_only_what_is_open() -> None:
    """State does not wait for the end: after each epoch there are but the windows that are open."""
    life = Life([], [], 2, cold=True)
    with harness(program, ["events"], life) as job:
        for epoch in range(16):
            if epoch % 5 == 3:
                job.restart(parallelism=1 + epoch % 3)
            job.epoch(events=[(key, 100 * epoch + n, n) for n in range(4) for key in "abcd"])
            counts = entries_left(job)
            assert sum(counts.values()) <= 120, f"epoch {epoch}: {counts}"
        job.end()
        assert entries_left(job) == {}


# --- time to live

LIFE = 50


class Counted(KeyedProcessFunction):
    """Counts records of a key; the count dies when there was none for a while of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(LIFE)).use_event_time().build())
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], value[2], self.count.value()


def counting(env: Env, events: DataStream) -> DataStream:
    return stamped(events).key_by(0, Types.STRING()).process(Counted()).uid("counted")


#: Short enough that what is counted in a burst never dies within it, whatever the watermark is.
bursts = st.lists(st.tuples(streams(5, 12, step=3), lives_of_a_job()), min_size=1, max_size=3)


@lives
@given(bursts)
def test_event_time_to_live(drawn: list[tuple[list[Record], Life]]) -> None:
    """Counts live through a burst, however it is cut, and are dead in the next one, which is far behind."""
    begin = 0
    expected: list[Any] = []
    with harness(counting, ["events"], drawn[0][1]) as job:
        for burst, life in drawn:
            records = [(key, begin + at, number) for key, at, number in burst]
            live(job, life, events=records)
            for of_key in by_key(records).values():
                expected += [(key, count) for count, (key, *_) in enumerate(of_key, 1)]
            begin += 1000
            # Time advances in all subtasks of the source, until the counts are dead and those of the ticks as well.
            for at in (begin, begin + 5 * LIFE):
                job.epoch(events=[("tick", at, 0)] * 8)
            begin += 1000
        found = [(key, count) for key, _, count in job.output() if key != "tick"]
        assert sorted(found) == sorted(expected)
        for at in range(begin, begin + 20 * LIFE, 2 * LIFE):
            job.epoch(events=[("tick", at + DELAY, 0)] * 8)
        assert set(job.state("counted", "count")) <= {"tick"}, "nobody looks at the others any more, and still they go"
