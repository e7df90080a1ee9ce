"""Windows, sessions and triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.semantics.differential.cases_time import PAIR, ShowTimes, with_times
from tests.semantics.differential.program import Program, shown
from tidemill.common import Time, Types
from tidemill.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from tidemill.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)

EVENTS = [
    ("a", 1), ("a", 4), ("b", 7), ("a", 12), ("b", 13), ("a", 25), ("b", 26), ("a", 29), ("a", 51), ("b", 60),
]  # fmt: skip


def extent(window: Any) -> str:
    return f"{window.start}..{window.end}" if hasattr(window, "start") else type(window).__name__


class Apply(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield f"{key} {extent(window)} {[one[1] for one in inputs]}"


class Process(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield f"{key} {extent(context.window())} {context.window().max_timestamp()} {[one[1] for one in elements]}"


class ProcessNumbers(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield f"{key} {extent(context.window())} {list(elements)}"


class ProcessReturnsList(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return [f"{key} {len(list(elements))}", "end"]


class ApplyAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield f"{extent(window)} {[one[1] for one in inputs]}"


class ProcessAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield f"{extent(context.window())} {[one[1] for one in elements]}"


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[0] / accumulator[1])

    def merge(self, acc_a: Any, acc_b: Any) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 5 if element[0] == "a" else 20


class FireOnEven(Trigger):
    """A trigger of the program's own."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.FIRE if element[1] % 2 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())

    def can_merge(self) -> bool:
        return True

    @staticmethod
    def of() -> FireOnEven:
        return FireOnEven()


def keyed(env: Any) -> Any:
    return with_times(env, EVENTS).key_by(lambda e: e[0], Types.STRING())


ASSIGNERS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: TumblingEventTimeWindows.of(Time.milliseconds(10)),
    "tumbling-offset": lambda: TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3)),
    "tumbling-offset-negative": lambda: TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(-3)),
    "sliding": lambda: SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)),
    "sliding-gaps": lambda: SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(10)),
    "sliding-offset": lambda: SlidingEventTimeWindows.of(
        Time.milliseconds(20), Time.milliseconds(10), Time.milliseconds(4)
    ),
    "session": lambda: EventTimeSessionWindows.with_gap(Time.milliseconds(9)),
    "session-touching": lambda: EventTimeSessionWindows.with_gap(Time.milliseconds(13)),
    "session-dynamic": lambda: EventTimeSessionWindows.with_dynamic_gap(Gap()),
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "apply": lambda w: w.apply(Apply(), Types.STRING()),
    "process": lambda w: w.process(Process(), Types.STRING()),
    "reduce": lambda w: w.reduce(Sum()),
    "reduce-lambda": lambda w: w.reduce(lambda x, y: (x[0], x[1] * 100 + y[1])),
    "reduce-process": lambda w: w.reduce(Sum(), ProcessNumbers(), Types.STRING()),
    "aggregate": lambda w: w.aggregate(
        Mean(), accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]), output_type=Types.DOUBLE()
    ),
    "aggregate-process": lambda w: w.aggregate(
        Mean(), ProcessNumbers(), Types.TUPLE([Types.LONG(), Types.LONG()]), Types.STRING()
    ),
}
TRIGGERS: dict[str, Callable[[], Any]] = {
    "event": EventTimeTrigger.create,
    "count-2": lambda: CountTrigger.of(2),
    "purging-count-2": lambda: PurgingTrigger.of(CountTrigger.of(2)),
    "purging-event": lambda: PurgingTrigger.of(EventTimeTrigger.create()),
    "continuous": lambda: ContinuousEventTimeTrigger.of(Time.milliseconds(4)),
    "own": FireOnEven,
}


def windows(assigner: Callable[[], Any], function: Callable[[Any], Any], env: Any) -> Any:
    return function(keyed(env).window(assigner())).map(shown, Types.STRING())


def triggered(assigner: Callable[[], Any], trigger: Callable[[], Any], env: Any) -> Any:
    return keyed(env).window(assigner()).trigger(trigger()).apply(Apply(), Types.STRING())


def all_windows(assigner: Callable[[], Any], function: Callable[[Any], Any], env: Any) -> Any:
    return function(with_times(env, EVENTS).window_all(assigner())).map(shown, Types.STRING())


def window_times(assigner: Callable[[], Any], env: Any) -> Any:
    return keyed(env).window(assigner()).apply(Apply(), Types.STRING()).process(ShowTimes(), Types.STRING())


def counted(size: int, slide: int | None, function: Callable[[Any], Any], env: Any) -> Any:
    stream = env.from_collection(EVENTS, PAIR).key_by(lambda e: e[0], Types.STRING())
    counting = stream.count_window(size) if slide is None else stream.count_window(size, slide)
    return function(counting).map(shown, Types.STRING())


def global_windows(trigger: Callable[[], Any], env: Any) -> Any:
    stream = env.from_collection(EVENTS, PAIR).key_by(lambda e: e[0], Types.STRING())
    return stream.window(GlobalWindows.create()).trigger(trigger()).apply(Apply(), Types.STRING())


def global_without_trigger(env: Any) -> Any:
    stream = env.from_collection(EVENTS, PAIR).key_by(lambda e: e[0], Types.STRING())
    return stream.window(GlobalWindows.create()).apply(Apply(), Types.STRING())


def late() -> OutputTag:
    """A tag, with a type of its own: PyFlink cannot pickle one that another program has used."""
    return OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))


def with_lateness(env: Any) -> Any:
    window = keyed(env).window(ASSIGNERS["tumbling"]()).allowed_lateness(100).side_output_late_data(late())
    return window.apply(Apply(), Types.STRING())


def late_side(env: Any) -> Any:
    window = keyed(env).window(ASSIGNERS["tumbling"]()).side_output_late_data(late())
    return window.apply(Apply(), Types.STRING()).get_side_output(late()).map(shown, Types.STRING())


def two_windows(env: Any) -> Any:
    first = keyed(env).window(ASSIGNERS["tumbling"]()).reduce(Sum())
    return first.key_by(lambda e: e[0], Types.STRING()).window(ASSIGNERS["sliding"]()).apply(Apply(), Types.STRING())


def returns_list(env: Any) -> Any:
    return keyed(env).window(ASSIGNERS["tumbling"]()).process(ProcessReturnsList(), Types.STRING())


def untyped(env: Any) -> Any:
    return keyed(env).window(ASSIGNERS["tumbling"]()).reduce(Sum()).map(shown)


class Counting(ProcessWindowFunction):
    """Counts windows by key, and firings by window."""

    def open(self, runtime_context: Any) -> None:
        self.count = ValueStateDescriptor("count", Types.LONG())

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        of_key, of_window = context.global_state().get_state(self.count), context.window_state().get_state(self.count)
        of_key.update((of_key.value() or 0) + 1)
        of_window.update((of_window.value() or 0) + 1)
        yield f"{key} {extent(context.window())} {of_key.value()} {of_window.value()}"

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.count).clear()


def counting(trigger: Callable[[], Any] | None, env: Any) -> Any:
    window = keyed(env).window(ASSIGNERS["tumbling"]())
    if trigger is not None:
        window = window.trigger(trigger())
    return window.process(Counting(), Types.STRING())


class Names(Counting):
    """The same with two names."""

    def open(self, runtime_context: Any) -> None:
        self.count, self.fired = (
            ValueStateDescriptor("of key", Types.LONG()),
            ValueStateDescriptor("of w", Types.LONG()),
        )

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        of_key, of_window = context.global_state().get_state(self.count), context.window_state().get_state(self.fired)
        of_key.update((of_key.value() or 0) + 1)
        of_window.update((of_window.value() or 0) + 1)
        yield f"{key} {extent(context.window())} {of_key.value()} {of_window.value()}"

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.fired).clear()


class Purges(FireOnEven):
    """Gives up a window at an even number."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.PURGE if element[1] % 2 == 0 else TriggerResult.CONTINUE


class Counts(FireOnEven):
    """Fires at every second record of a window, with a state of its own."""

    def __init__(self) -> None:
        self.seen = ValueStateDescriptor("seen", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        seen = ctx.get_partitioned_state(self.seen)
        seen.update((seen.value() or 0) + 1)
        return TriggerResult.FIRE if seen.value() % 2 == 0 else TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.seen).clear()


def own_state(trigger: Callable[[], Any], env: Any) -> Any:
    window = keyed(env).window(ASSIGNERS["tumbling"]()).trigger(trigger())
    return window.process(Names(), Types.STRING())


COUNTS = {"2": (2, None), "3": (3, None), "1": (1, None), "3-1": (3, 1), "2-2": (2, 2), "2-3": (2, 3)}

PROGRAMS = [
    *(Program(f"windows-{a}-{f}", partial(windows, assigner, function))
      for a, assigner in ASSIGNERS.items() for f, function in FUNCTIONS.items()),
    # On PyFlink, such a job never ends: two of them show it.
    *(Program(f"windows-tumbling-{f}-batch", partial(windows, ASSIGNERS["tumbling"], FUNCTIONS[f]), batch=True)
      for f in ("apply", "process")),
    *(Program(f"triggers-{a}-{t}", partial(triggered, ASSIGNERS[a], trigger))
      for a in ("tumbling", "sliding", "session") for t, trigger in TRIGGERS.items()),
    *(Program(f"windows-times-{a}", partial(window_times, assigner)) for a, assigner in ASSIGNERS.items()),
    *(Program(f"windows-all-{a}-{f}", partial(all_windows, ASSIGNERS[a], function))
      for a in ("tumbling", "sliding", "session")
      for f, function in {
          "apply": lambda w: w.apply(ApplyAll(), Types.STRING()),
          "process": lambda w: w.process(ProcessAll(), Types.STRING()),
          "reduce": lambda w: w.reduce(Sum()),
      }.items()),
    *(Program(f"windows-count-{c}-{f}", partial(counted, *COUNTS[c], FUNCTIONS[f]))
      for c in COUNTS for f in ("apply", "reduce", "aggregate")),
    *(Program(f"windows-global-{t}", partial(global_windows, TRIGGERS[t]))
      for t in ("count-2", "purging-count-2")),
    Program("windows-global-never", global_without_trigger),
    Program("windows-lateness", with_lateness),
    Program("windows-late-side-output", late_side),
    Program("windows-in-a-row", two_windows),
    Program("windows-process-returns-a-list", returns_list),
    Program("windows-untyped", untyped),
    Program("windows-state", partial(counting, None)),
    Program("windows-state-count", partial(counting, TRIGGERS["count-2"])),
    Program("windows-state-own", partial(counting, TRIGGERS["own"])),
    Program("windows-state-names", lambda env: keyed(env).window(ASSIGNERS["tumbling"]()).process(
        Names(), Types.STRING())),
    *(Program(f"triggers-{a}-purges", partial(triggered, ASSIGNERS[a], Purges)) for a in ("tumbling", "session")),
    *(Program(f"triggers-{a}-counts", partial(triggered, ASSIGNERS[a], Counts)) for a in ("tumbling", "sliding")),
    *(Program(f"triggers-global-{t}", partial(global_windows, trigger))
      for t, trigger in {**TRIGGERS, "counts": Counts}.items() if t not in ("count-2", "purging-count-2")),
    *(Program(f"triggers-state-{t}", partial(own_state, TRIGGERS[t])) for t in ("count-2", "purging-count-2", "own")),
]  # fmt: skip
