"""Checks that orders go through their states in the right order: state, timers and a side output.

Each order must be created, paid and shipped. A wrong step goes to the side output; an order that is not shipped within
ten seconds of its creation, by the time in the events, is reported as late.

    python -m examples.state_machine                   # on Spark
    python -m examples.state_machine --target local    # in this process, without Spark
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tidemill.common import Configuration, Duration, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream.state import ValueStateDescriptor

NEXT = {None: "created", "created": "paid", "paid": "shipped"}
PATIENCE_MS = 10_000


class Event(NamedTuple):
    """One step of an order."""

    order: str
    step: str
    time: int


EVENTS = [
    Event("A", "created", 1_000),
    Event("B", "created", 2_000),
    Event("A", "paid", 3_000),
    Event("B", "shipped", 4_000),  # not paid
    Event("A", "shipped", 5_000),
    Event("C", "created", 6_000),
    Event("C", "paid", 7_000),  # never shipped
]

WRONG_STEPS = OutputTag("wrong-steps", Types.STRING())


class EventTime(TimestampAssigner):
    """The time in the event."""

    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        """Milliseconds."""
        return value.time


class OrderMachine(KeyedProcessFunction):
    """Follows one order; emits its end: shipped, or late."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the state: how far the order is, and when patience ends."""
        self.step = runtime_context.get_state(ValueStateDescriptor("step", Types.STRING()))
        self.deadline = runtime_context.get_state(ValueStateDescriptor("deadline", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Take one step, if it is the right one."""
        if value.step != NEXT.get(self.step.value()):
            yield WRONG_STEPS, f"{value.order}: {value.step} after {self.step.value()}"
            return
        if value.step == "shipped":
            ctx.timer_service().delete_event_time_timer(self.deadline.value())
            self.step.clear()
            self.deadline.clear()
            yield f"{value.order}: shipped"
            return
        if self.deadline.value() is None:
            self.deadline.update(value.time + PATIENCE_MS)
            ctx.timer_service().register_event_time_timer(value.time + PATIENCE_MS)
        self.step.update(value.step)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Patience ended."""
        yield f"{ctx.get_current_key()}: late, still {self.step.value()}"
        self.step.clear()
        self.deadline.clear()


def main(arguments: Sequence[str] | None = None) -> list[str]:
    """Run the program; returns how each order ended, and the wrong steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    configuration = Configuration().set_string("execution.target", options.target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        EventTime()
    )
    orders = (
        env.from_collection(EVENTS)
        .assign_timestamps_and_watermarks(strategy)
        .set_parallelism(1)  # as the source: events of one order stay in order
        .key_by("order")
        .process(OrderMachine(), Types.STRING())
        .uid("orders")
    )
    wrong = orders.get_side_output(WRONG_STEPS).map(lambda text: f"wrong step, {text}", Types.STRING())
    return sorted(orders.union(wrong).execute_and_collect("state machine"))


if __name__ == "__main__":
    print("\n".join(main()))
