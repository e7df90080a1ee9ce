"""Timers with state: a visit ends when a user has done nothing for ten seconds.

Timers are state too: they are committed with each epoch, and fire in a restored job as if nothing had happened.

Run it with ``python -m examples.state.timers``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, ValueStateDescriptor

CLICKS = [("ann", 1_000), ("bob", 2_000), ("ann", 6_000), ("bob", 30_000), ("ann", 40_000), ("ann", 49_000)]
SILENCE_MS = 10_000


class Visits(KeyedProcessFunction):
    """Counts the clicks of each visit."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.clicks = runtime_context.get_state(ValueStateDescriptor("clicks", Types.LONG(), 0))
        self.ends = runtime_context.get_state(ValueStateDescriptor("ends", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        timers, now, ends = ctx.timer_service(), value[1], self.ends.value()
        if ends is not None:
            timers.delete_event_time_timer(ends)
            if now >= ends:  # the watermark has not reached this time yet, but the visit is over
                yield self.visit(ctx.get_current_key(), ends)
        timers.register_event_time_timer(now + SILENCE_MS)
        self.ends.update(now + SILENCE_MS)
        self.clicks.update(self.clicks.value() + 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield self.visit(ctx.get_current_key(), timestamp)
        self.ends.clear()

    def visit(self, user: str, ends: int) -> str:
        clicks = self.clicks.value()
        self.clicks.clear()
        return f"{user}: {clicks} clicks, the last at {ends - SILENCE_MS}"


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda click, _: click[1])
    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(in_order).set_parallelism(1)
    for line in sorted(clicks.key_by(0).process(Visits()).uid("visits").execute_and_collect("timers")):
        print(line)


if __name__ == "__main__":
    main()
