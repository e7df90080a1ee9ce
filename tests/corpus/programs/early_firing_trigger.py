"""Fires windows early, at every second record, with a trigger of its own; sessions with a gap of each key."""
from typing import Iterable, Tuple

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import (CountTumblingWindowAssigner, EventTimeSessionWindows,
                                       SessionWindowTimeGapExtractor, TimeWindow, Trigger, TriggerResult,
                                       TumblingEventTimeWindows)


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[1])


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Tuple) -> int:
        return 5 if element[0] == "hi" else 2


class Count(ProcessWindowFunction[Tuple, Tuple, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow],
                elements: Iterable[Tuple[str, int]]) -> Iterable[Tuple[str, int, int, int]]:
        return [(key, context.window().start, context.window().end, len([e for e in elements]))]

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        pass


class EverySecond(Trigger[Tuple, TimeWindow]):
    def __init__(self):
        self._seen = ValueStateDescriptor("seen", Types.LONG())

    @staticmethod
    def create() -> "EverySecond":
        return EverySecond()

    def on_element(self, element, timestamp, window, ctx: "Trigger.TriggerContext") -> TriggerResult:
        seen = ctx.get_partitioned_state(self._seen)
        seen.update((seen.value() or 0) + 1)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.FIRE if seen.value() % 2 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window, ctx) -> None:
        pass

    def clear(self, window, ctx) -> None:
        ctx.get_partitioned_state(self._seen).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    words = env.from_collection(
        [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 4), ("hi", 8), ("hi", 9), ("hi", 15), ("lo", 16), ("lo", 17)],
        type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    words = words.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second()))
    keyed = words.key_by(lambda word: word[0], key_type=Types.STRING())
    result = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()])
    keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).trigger(EverySecond.create()) \
        .process(Count(), result).print("early")
    keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Count(), result).print("session")
    keyed.window(CountTumblingWindowAssigner.of(4)).reduce(lambda a, b: (a[0], a[1] + b[1])).print("four")
    env.execute("early")


if __name__ == "__main__":
    main()
