"""Windows and interval joins do what Flink's own operators did with the same steps: see ``recorded/*.txt``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidemill.datastream import (
    AggregateFunction,
    CountEvictor,
    DataStream,
    DeltaEvictor,
    Evictor,
    KeyedStream,
    OutputTag,
    ProcessJoinFunction,
    ProcessWindowFunction,
    TimeEvictor,
    WindowAssigner,
    WindowFunction,
)
from tidemill.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidemill.runtime.batch.records import MAX_TIME
from tidemill.testing import KeyedHarness

LATE, LATE_RIGHT = OutputTag("late"), OutputTag("late2")


@dataclass(frozen=True)
class Recording:
    """A case of a file: its name, what runs, and its steps with what came out of each."""

    name: str
    what: str
    options: dict[str, str]
    steps: list[tuple[list[str], list[str]]]


def recordings(file: str) -> list[Any]:
    lines = (Path(__file__).parent / "recorded" / file).read_text().splitlines()
    return [pytest.param(found, id=found.name) for found in parse(line for line in lines if not line.startswith("#"))]


def parse(lines: Iterable[str]) -> Iterator[Recording]:
    for block in "\n".join(lines).split("== ")[1:]:
        name, first, *steps = block.strip().split("\n")
        what, *options = first.split(" ")
        told = [step.replace("MAX", str(MAX_TIME)).partition(" -> ") for step in steps]
        split = [(step.split(" "), said.split("  ") if said else []) for step, _, said in told]
        yield Recording(name, what, dict(option.split("=", 1) for option in options), split)


def shown(records: Iterable[tuple[Any, int | None]], prefix: str = "") -> list[str]:
    return [
        f"{prefix}{f'({value[0]},{value[1]})' if isinstance(value, tuple) else value}@{time}" for value, time in records
    ]


# --- windows


def extent(window: Any) -> str:
    return f"{window.start}..{window.end}" if isinstance(window, TimeWindow) else "global"


class Show(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield f"{key}|{extent(window)}|{','.join(str(number) for _, number in inputs)}"


class ShowListed(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield f"{key}|{extent(window)}|{','.join(inputs)}"


class ShowTimes(ProcessWindowFunction):
    cleared: list[str] = []  # noqa: RUF012 - the test looks at it

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        yield from Show().apply(key, context.window(), elements)
        yield f"{key}|wm{context.current_watermark()}|pt{context.current_processing_time()}"

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        self.cleared.append(f"clear:{extent(context.window())}")


class Listed(AggregateFunction):
    def create_accumulator(self) -> str:
        return ""

    def add(self, value: Any, accumulator: str) -> str:
        return f"{accumulator},{value[1]}" if accumulator else f"{value[1]}"

    def get_result(self, accumulator: str) -> str:
        return accumulator

    def merge(self, acc_a: str, acc_b: str) -> str:
        return f"{acc_a},{acc_b}"


def last_digit(pair: Any) -> int:
    return int(pair[1] % 10 + 1)


def assigner_of(text: str) -> WindowAssigner:
    name, *numbers = text.split(":")
    makers: dict[str, Callable[..., WindowAssigner]] = {
        "te": TumblingEventTimeWindows.of,
        "tp": TumblingProcessingTimeWindows.of,
        "se": SlidingEventTimeWindows.of,
        "sp": SlidingProcessingTimeWindows.of,
        "ses": EventTimeSessionWindows.with_gap,
        "psess": ProcessingTimeSessionWindows.with_gap,
        "dses": lambda: EventTimeSessionWindows.with_dynamic_gap(last_digit),
        "dpses": lambda: ProcessingTimeSessionWindows.with_dynamic_gap(last_digit),
        "global": GlobalWindows.create,
        "globaleos": GlobalWindows.create_with_end_of_stream_trigger,
    }
    return makers[name](*map(int, numbers))


def trigger_of(text: str) -> Trigger:
    name, _, inner = text.partition("(")
    if name == "purging":
        return PurgingTrigger.of(trigger_of(inner[:-1]))
    if name == "timeout":
        nested, timeout, reset, clear = inner[:-1].rsplit(";", 3)
        return ProcessingTimeoutTrigger.of(trigger_of(nested), int(timeout), reset == "1", clear == "1")
    name, *numbers = text.split(":")
    makers: dict[str, Callable[..., Trigger]] = {
        "event": EventTimeTrigger.create,
        "proc": ProcessingTimeTrigger.create,
        "count": CountTrigger.of,
        "cevent": ContinuousEventTimeTrigger.of,
        "cproc": ContinuousProcessingTimeTrigger.of,
    }
    return makers[name](*map(int, numbers))


def evictor_of(text: str) -> Evictor:
    name, number, after = text.split(":")
    if name == "delta":
        return DeltaEvictor.of(int(number), lambda old, new: new[1] - old[1], after == "1")
    return (CountEvictor if name == "count" else TimeEvictor).of(int(number), after == "1")


def windowed(recording: Recording) -> Callable[[KeyedStream], DataStream]:
    options = recording.options

    def build(keyed: KeyedStream) -> DataStream:
        windows = keyed.window(assigner_of(recording.what)).allowed_lateness(int(options.get("lateness", 0)))
        if "trigger" in options:
            windows.trigger(trigger_of(options["trigger"]))
        if "evictor" in options:
            windows.evictor(evictor_of(options["evictor"]))
        if "late" in options:
            windows.side_output_late_data(LATE)
        function = options.get("fn", "apply")
        if function == "process":
            return windows.process(ShowTimes())
        if function == "reduce":
            return windows.reduce(lambda one, two: (one[0], one[1] + two[1]), Show())
        return windows.apply(Show()) if function == "apply" else windows.aggregate(Listed(), ShowListed())

    return build


def comparable(said: list[str], sessions: bool) -> list[str]:
    """What of a step does not depend on the order of hashes: results by key, and in sessions the sorted numbers."""
    if sessions:
        said = [with_sorted_numbers(one) for one in said]
    return sorted(said, key=lambda one: one.split("|")[0] if "|" in one else "~")


def with_sorted_numbers(said: str) -> str:
    key, of_window, rest = said.split("|") if said.count("|") == 2 else ("", "", "")
    if ".." not in of_window:
        return said
    numbers, time = rest.split("@")
    return f"{key}|{of_window}|{','.join(sorted(numbers.split(','), key=int))}@{time}"


@pytest.mark.parametrize("recording", [*recordings("windows.txt"), *recordings("windows_random.txt")])
def test_windows(recording: Recording) -> None:
    sessions = "ses" in recording.what
    ShowTimes.cleared.clear()
    with KeyedHarness(windowed(recording), key_selector=0) as harness:
        for number, (step, said) in enumerate(recording.steps):
            if step[0] == "R":
                time = None if step[3] == "none" else int(step[3])
                harness.process((step[1], int(step[2])), timestamp=time)
            elif step[0] == "W":
                harness.watermark(int(step[1]))
            else:
                harness.set_processing_time(int(step[1]))
            late = shown(harness.side_output_with_timestamps(LATE), "late:")
            out = shown(harness.output_with_timestamps()) + late + ShowTimes.cleared
            assert comparable(out, sessions) == comparable(said, sessions), f"step {number + 1}: {' '.join(step)}"
            harness.clear_output()
            ShowTimes.cleared.clear()


# --- interval joins


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        times = f"{ctx.get_left_timestamp()},{ctx.get_right_timestamp()},{ctx.get_timestamp()}"
        yield f"{left[0]}|{left[1]}~{right[1]}|{times}"


def joined(recording: Recording) -> Callable[[KeyedStream, KeyedStream], DataStream]:
    lower, upper = map(int, recording.what.split(":"))

    def build(left: KeyedStream, right: KeyedStream) -> DataStream:
        join = left.interval_join(right).between(lower, upper)
        if "lower" in recording.options:
            join = join.lower_bound_exclusive()
        if "upper" in recording.options:
            join = join.upper_bound_exclusive()
        if "late" in recording.options:
            join = join.side_output_left_late_data(LATE).side_output_right_late_data(LATE_RIGHT)
        return join.process(Pair())

    return build


@pytest.mark.parametrize("recording", recordings("interval_joins.txt"))
def test_interval_joins(recording: Recording) -> None:
    with KeyedHarness(joined(recording), key_selector=0) as harness:
        for number, (step, said) in enumerate(recording.steps):
            was_idle = harness.is_idle
            stream = int(step[0][1]) if len(step[0]) == 2 else None
            if step[0] in ("L", "R"):
                harness.process((step[1], int(step[2])), timestamp=int(step[3]), stream=1 if step[0] == "L" else 2)
            elif step[0].startswith("W"):
                harness.watermark(int(step[1]), stream=stream)
            elif step[1] == "1":
                harness.mark_idle(stream=stream)
            else:
                harness.mark_active(stream=stream)
            out = shown(harness.output_with_timestamps())
            out += shown(harness.side_output_with_timestamps(LATE), "late:")
            out += shown(harness.side_output_with_timestamps(LATE_RIGHT), "late2:")
            if stream is not None:
                out += [f"WM{time}" for time in harness.watermarks()]
            if harness.is_idle != was_idle:
                out.append("IDLE" if harness.is_idle else "ACTIVE")
            assert sorted(out) == sorted(said), f"step {number + 1}: {' '.join(step)}"
            harness.clear_output()
