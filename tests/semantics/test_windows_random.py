"""Random streams against the simplest thing that could be right: windows as lists in a dict, looked at one by one."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.semantics.cases_state import SecondField
from tests.semantics.windows import Show, feed, left, random_steps, windows
from tests.thorough import how_many
from tidemill.common import Duration, Types, WatermarkStrategy
from tidemill.datastream import (
    DataStream,
    EventTimeSessionWindows,
    OutputTag,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WindowFunction,
)
from tidemill.faults import Fault
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving

LATE = OutputTag("late")
Extent = tuple[int, int]


class FixedModel:
    """Tumbling and sliding windows with lateness."""

    def __init__(self, size: int, slide: int, lateness: int) -> None:
        self.size, self.slide, self.lateness = size, slide, lateness
        self.watermark = MIN_TIME
        self.open: dict[tuple[str, Extent], list[int]] = {}
        self.late: list[tuple[str, int]] = []

    def record(self, key: str, number: int, timestamp: int) -> list[Any]:
        starts = [start for start in range(timestamp - self.size + 1, timestamp + 1) if start % self.slide == 0]
        extents = [(start, start + self.size) for start in reversed(starts)]
        taken = [extent for extent in extents if extent[1] - 1 + self.lateness > self.watermark]
        fired = []
        for extent in taken:
            self.open.setdefault((key, extent), []).append(number)
            if extent[1] - 1 <= self.watermark:
                fired.append((key, *extent, list(self.open[key, extent])))
        if not taken:
            self.late.append((key, number))
        return fired

    def advance(self, watermark: int) -> list[Any]:
        before, self.watermark = self.watermark, watermark
        fired = [
            (key, *extent, list(numbers))
            for (key, extent), numbers in self.open.items()
            if before < extent[1] - 1 <= watermark
        ]
        self.open = {
            place: numbers for place, numbers in self.open.items() if place[1][1] - 1 + self.lateness > watermark
        }
        return fired


class SessionModel(FixedModel):
    """Sessions with lateness: intervals that overlap or touch become one."""

    def __init__(self, gap: int, lateness: int) -> None:
        super().__init__(gap, gap, lateness)

    def record(self, key: str, number: int, timestamp: int) -> list[Any]:
        start, end, numbers = timestamp, timestamp + self.size, [number]
        merged = [extent for owner, extent in self.open if owner == key and extent[0] <= end and extent[1] >= start]
        cover = min([start, *(one[0] for one in merged)]), max([end, *(one[1] for one in merged)])
        if cover[1] - 1 + self.lateness <= self.watermark:
            self.late.append((key, number))
            return []
        for extent in merged:
            numbers = self.open.pop((key, extent)) + numbers
        self.open[key, cover] = numbers
        return [(key, *cover, sorted(numbers))] if cover[1] - 1 <= self.watermark else []

    def advance(self, watermark: int) -> list[Any]:
        return [(*record[:3], sorted(record[3])) for record in super().advance(watermark)]


class ShowSorted(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield key, window.start, window.end, sorted(number for _, number in inputs)


def in_fire_order(fired: list[Any]) -> list[Any]:
    return sorted(fired, key=lambda record: (record[2], record[0], record[1]))


@pytest.mark.parametrize("seed", range(how_many(24, 60)))
def test_windows_are_what_the_model_says(seed: int) -> None:
    rng = random.Random(seed)
    lateness = rng.choice([0, 0, 5, 12])
    kind = rng.choice(["tumbling", "sliding", "sessions"])
    size = rng.choice([1, 5, 10])
    slide = rng.choice([1, 2, 5]) if kind == "sliding" else size
    slide = min(slide, size)
    model: FixedModel
    if kind == "sessions":
        assigner: Any = EventTimeSessionWindows.with_gap(size)
        model, function = SessionModel(size, lateness), ShowSorted()
    else:
        assigner = TumblingEventTimeWindows.of(size) if kind == "tumbling" else SlidingEventTimeWindows.of(size, slide)
        model, function = FixedModel(size, slide, lateness), Show()  # type: ignore[assignment]
    harness = windows(
        assigner, lambda windowed: windowed.allowed_lateness(lateness).side_output_late_data(LATE).apply(function)
    )
    late: list[Any] = []
    for step in random_steps(rng):
        before = len(harness.output())
        feed(harness, step)
        fired = harness.output()[before:]
        if isinstance(step, int):
            expected = model.advance(step)
            assert [record[2] for record in fired] == sorted(record[2] for record in expected)  # by time
            assert in_fire_order(fired) == in_fire_order(expected)
        else:
            assert fired == [record for one in step for record in model.record(*one)]
        if rng.random() < 0.3:
            harness.checkpoint()
        elif rng.random() < 0.2:
            late += harness.side_output(LATE)
            snapshot = harness.snapshot()
            harness.close()
            harness = harness.restore(snapshot)
    assert late + harness.side_output(LATE) == model.late
    assert left(harness) == 0
    harness.close()


# --- in jobs: epochs, crashes, restarts and rescales change nothing


def kinds(keyed: Any) -> dict[str, DataStream]:
    """Windows of each kind; what comes out of them does not depend on the order of records."""
    return {
        "tumbling": keyed.window(TumblingEventTimeWindows.of(10, 3)).apply(ShowSorted()).uid("tumbling"),
        "sliding": keyed.window(SlidingEventTimeWindows.of(12, 4)).sum(1).uid("sliding"),
        "sessions": keyed.window(EventTimeSessionWindows.with_gap(6)).apply(ShowSorted()).uid("sessions"),
        "counts": keyed.count_window(3).sum(1).uid("counts"),
    }


def expected_of(records: list[tuple[str, int]]) -> dict[str, list[Any]]:
    by_key: dict[str, list[int]] = {}
    for key, time in records:
        by_key.setdefault(key, []).append(time)
    found: dict[str, list[Any]] = {"tumbling": [], "sliding": [], "sessions": [], "counts": []}
    for key, times in by_key.items():
        for start in range(-27, 400, 10):
            numbers = sorted(time for time in times if start <= time < start + 10)
            found["tumbling"] += [(key, start, start + 10, numbers)] if numbers else []
        for start in range(-40, 400, 4):
            inside = [time for time in times if start <= time < start + 12]
            found["sliding"] += [(key, sum(inside))] if inside else []
        session: list[int] = []
        for time in [*sorted(times), MAX_TIME]:
            if session and time > session[-1] + 6:
                found["sessions"].append((key, session[0], session[-1] + 6, session))
                session = []
            session = [*session, time]
        found["counts"] += [(key, sum(times[at : at + 3])) for at in range(0, len(times) - 2, 3)]
    return {name: sorted(results) for name, results in found.items()}


def program(env: StreamExecutionEnvironment, events: DataStream) -> dict[str, DataStream]:
    return timed_program(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)), events)


def program_in_order(env: StreamExecutionEnvironment, events: DataStream) -> dict[str, DataStream]:
    return timed_program(WatermarkStrategy.for_monotonous_timestamps(), events)


def timed_program(strategy: WatermarkStrategy, events: DataStream) -> dict[str, DataStream]:
    timed = events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField())).set_parallelism(1)
    return kinds(timed.key_by(0, Types.STRING()))


def run_job(seed: int, configuration: dict[str, str], *, in_order: bool = False) -> None:
    rng = random.Random(seed)
    now = 0
    records: list[tuple[str, int]] = []
    with JobHarness(
        program_in_order if in_order else program,
        inputs=["events"],
        parallelism=rng.randint(1, 3),
        workers=2,
        placement=rng.choice([None, moving(2)]),
        merge_after=rng.choice([2, 8]),
        configuration=configuration,
    ) as job:
        for _ in range(rng.randint(4, 9)):
            batch = []
            for _ in range(rng.randint(0, 12)):
                # In order, never a gap apart: such sessions are one only if the first is not over yet.
                now += rng.choice([0, 0, 0, 4, 4, 8] if in_order else [0, 0, 1, 2, 3, 9])
                batch.append((rng.choice(["a", "b", "c", "d", "e"]), now if in_order else now - rng.randint(0, 4)))
            records += batch
            what = rng.random()
            if what < 0.2 and batch:
                job.crash(Fault("manifest.before"), events=batch)
                job.run()
            else:
                job.epoch(events=batch)
            if what > 0.8:
                job.restart(parallelism=rng.randint(1, 4))
            elif what > 0.7:
                job.rescale(rng.randint(1, 4))
        job.end()
        expected = expected_of(records)
        assert {name: sorted(job.output(name)) for name in expected} == expected
        for name in ("tumbling", "sliding", "sessions"):
            assert job.timers(name) == []
        assert job.state("sessions", "merging-window-set") == {}


@pytest.mark.parametrize("seed", range(how_many(4, 12)))
def test_epochs_restarts_and_rescales_change_nothing(seed: int) -> None:
    run_job(seed, {})


@pytest.mark.parametrize("seed", range(200, how_many(203, 208)))
def test_nor_do_they_where_time_is_never_behind_the_records(seed: int) -> None:
    """Timestamps that never fall: the watermark follows the last record, and windows close as early as they can."""
    run_job(seed, {}, in_order=True)


@pytest.mark.parametrize("seed", range(100, how_many(101, 104)))
def test_nor_do_they_with_state_in_rocksdb(seed: int, tmp_path: Path) -> None:
    run_job(
        seed,
        {
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": str(tmp_path),
            "state.backend.rocksdb.cached-values": "2",
            "state.backend.rocksdb.timer-service.cache-size": "2",
        },
    )
