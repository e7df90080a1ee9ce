"""A job of windows, sessions, an interval join and timers, with exchanges before and behind them.

Run as a program it takes one argument, a JSON object: ``{"checkpoints": dir, "output": dir, "options": {key: value}}``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.spark.programs.keyed_job import sink
from tidemill.common import Configuration, Duration, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    DataStream,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)

Record = tuple[str, int, int]

JOB_ID = "windowed"
RECORDS = 240
EPOCHS = 12
KEYS = 11
DISORDER = 60
SIZE, GAP, NEAR, WAIT, TOTAL = 200, 90, 70, 150, 1000


def records() -> list[Record]:
    """(key, event time, number): times rise by 10 ms, with a pause now and then, and are up to 60 ms out of order."""
    return [(f"k{n * 7 % KEYS}", 10 * n + 300 * (n // 60) - n * 13 % DISORDER, n) for n in range(RECORDS)]


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return value[1]


class Numbers(ProcessWindowFunction):
    """What a window holds."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        numbers = "+".join(map(str, sorted(number for *_, number in elements)))
        yield self.kind, f"{key} {context.window().start}..{context.window().end} {numbers}"


class Near(ProcessJoinFunction):
    """Pairs of a record and one shortly before it."""

    def process_element(self, left: Record, right: Record, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        yield "near", f"{left[2]} {right[2]}"


class Reminder(KeyedProcessFunction):
    """Emits a record again some time after it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.waiting.add(value)
        ctx.timer_service().register_event_time_timer(value[1] + WAIT)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        waiting = list(self.waiting.get())
        self.waiting.update([record for record in waiting if record[1] + WAIT > timestamp])
        for _, at, number in waiting:
            if at + WAIT <= timestamp:
                yield "reminder", f"{number} {timestamp}"


class Total(ProcessWindowFunction):
    """How many results of a kind there were in a second."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        yield f"total {key} {context.window().start} {len(list(elements))}"


def build(stream: DataStream, output: Path) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    timed = stream.rebalance().map(tuple).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Stamp()))
    keyed = timed.key_by(lambda record: record[0])
    results = (
        keyed.window(TumblingEventTimeWindows.of(Duration.of_millis(SIZE))).process(Numbers("tumbling")).uid("tumbling")
    ).union(
        keyed.window(EventTimeSessionWindows.with_gap(Duration.of_millis(GAP)))
        .process(Numbers("session"))
        .uid("session"),
        keyed.interval_join(timed.key_by(lambda record: record[0]))
        .between(Duration.of_millis(-NEAR), Duration.of_millis(-1))
        .process(Near())
        .uid("near"),
        keyed.process(Reminder()).uid("reminder"),
    )
    results.map(" ".join).sink_to(sink(output / "results")).uid("results")
    totals = results.key_by(lambda result: result[0]).window(TumblingEventTimeWindows.of(Duration.of_millis(TOTAL)))
    totals.process(Total()).uid("totals").sink_to(sink(output / "totals")).uid("totals-sink")


def truth() -> tuple[Counter[str], Counter[str]]:
    """The lines of both sinks, computed from all records at once."""
    lines: Counter[str] = Counter()
    totals: Counter[tuple[str, int]] = Counter()

    def add(kind: str, line: str, at: int) -> None:
        lines[f"{kind} {line}"] += 1
        totals[kind, at - at % TOTAL] += 1

    by_key: dict[str, list[Record]] = defaultdict(list)
    for record in records():
        by_key[record[0]].append(record)
    for key, mine in by_key.items():
        windows: dict[int, list[int]] = defaultdict(list)
        sessions: list[tuple[int, int, list[int]]] = []
        for _, at, number in sorted(mine, key=lambda record: record[1]):
            windows[at - at % SIZE].append(number)
            if sessions and at <= sessions[-1][1]:
                sessions[-1] = sessions[-1][0], at + GAP, [*sessions[-1][2], number]
            else:
                sessions.append((at, at + GAP, [number]))
            for _, before, other in mine:
                if at - NEAR <= before < at:
                    add("near", f"{number} {other}", at)
            add("reminder", f"{number} {at + WAIT}", at + WAIT)
        spans = [("tumbling", start, start + SIZE, numbers) for start, numbers in windows.items()]
        spans += [("session", *session) for session in sessions]
        for kind, start, end, numbers in spans:
            add(kind, f"{key} {start}..{end} {'+'.join(map(str, sorted(numbers)))}", end - 1)
    return lines, Counter(f"total {kind} {second} {count}" for (kind, second), count in totals.items())


def found(output: Path) -> tuple[Counter[str], Counter[str]]:
    """The lines that are committed in both sinks."""

    def lines(folder: Path) -> Counter[str]:
        return Counter(line for path in folder.glob("[!.]*") for line in path.read_text().splitlines())

    return lines(output / "results"), lines(output / "totals")


def environment(arguments: dict[str, Any]) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.dir": arguments["checkpoints"],
        "execution.job-id": JOB_ID,
        "execution.epoch.max-records": str(RECORDS // EPOCHS),
        "execution.epoch.max-duration": "0 ms",  # each epoch has the same records, on a slow machine too
        "execution.epoch.snapshot-interval": "8",
        "parallelism.default": "2",
        "spark.master": "local[2,4]",
        **arguments.get("options", {}),
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    build(env.from_collection(records()).uid("records"), Path(arguments["output"]))
    return env


if __name__ == "__main__":
    environment(json.loads(sys.argv[1])).execute("windowed job")
