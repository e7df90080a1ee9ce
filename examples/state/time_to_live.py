"""Time to live: forwards an alarm unless the same device raised one within the last minute.

The state of a device expires a minute after it was written, without a timer. This example uses event time, which Flink
does not offer: entries expire by the watermark, which is just behind the previous alarm. The default is processing
time.

Run it with ``python -m examples.state.time_to_live``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import Time, Types, WatermarkStrategy
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, StateTtlConfig, ValueStateDescriptor

ALARMS = [
    ("pump", 0),
    ("pump", 20),  # too soon
    ("door", 30),
    ("pump", 59),  # too soon
    ("door", 65),  # too soon
    ("pump", 66),
    ("pump", 95),  # too soon
    ("door", 96),
]


class OncePerMinute(KeyedProcessFunction):
    """Drops alarms that follow another one too soon."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("alarmed", Types.BOOLEAN())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.minutes(1)).use_event_time().build())
        self.alarmed = runtime_context.get_state(descriptor)

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        if self.alarmed.value() is None:
            self.alarmed.update(True)
            yield f"{value[0]} at {value[1]} s"


def main(arguments: Sequence[str] | None = None) -> None:
    # The watermark advances between epochs: here, after each record.
    env = environment(__doc__, arguments, {"execution.epoch.max-records": "1"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda alarm, _: alarm[1] * 1000)
    alarms = env.from_collection(ALARMS).assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    for line in alarms.key_by(0).process(OncePerMinute()).uid("once-per-minute").execute_and_collect("time to live"):
        print(line)


if __name__ == "__main__":
    main()
