"""Checks that orders pass through their states in the correct order, using state, timers and a side output.

Each order must be created, paid and shipped. A wrong step goes to the side output. An order that is not shipped within
ten seconds of its creation, in event time, is reported as late.

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
    """Uses the time in the event as its timestamp."""

    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        """The timestamp in milliseconds."""
        return value.time


class OrderMachine(KeyedProcessFunction):
    """Tracks one order, and emits its outcome: shipped or late."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the state: the last step of the order, and its deadline."""
        self.step = runtime_context.get_state(ValueStateDescriptor("step", Types.STRING()))
        self.deadline = runtime_context.get_state(ValueStateDescriptor("deadline", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Advance the order if the step is the expected one."""
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
        """Report an order that has missed its deadline."""
        yield f"{ctx.get_current_key()}: late, still {self.step.value()}"
        self.step.clear()
        self.deadline.clear()


def main(arguments: Sequence[str] | None = None) -> list[str]:
    """Run the program and return the outcome of each order, and the wrong steps."""
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
        .set_parallelism(1)  # like the source, so that the events of an order stay in order
        .key_by("order")
        .process(OrderMachine(), Types.STRING())
        .uid("orders")
    )
    wrong = orders.get_side_output(WRONG_STEPS).map(lambda text: f"wrong step, {text}", Types.STRING())
    return sorted(orders.union(wrong).execute_and_collect("state machine"))


if __name__ == "__main__":
    print("\n".join(main()))
