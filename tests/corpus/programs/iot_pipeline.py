#!/usr/bin/env python
"""Parses, validates, aggregates and classifies sensor messages."""
import argparse
import json
import logging
from typing import Optional

from pyflink.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, ProcessFunction, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

log = logging.getLogger("iot")
INVALID = OutputTag("invalid", Types.STRING())
READING = Types.ROW_NAMED(["device", "ts", "temperature"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])


class ParseJson(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context):
        try:
            message = json.loads(value)
            yield Row(message["device"], int(message["ts"]), float(message["temperature"]))
        except (ValueError, KeyError) as e:
            yield INVALID, "%s: %s" % (type(e).__name__, value)


class DeviceTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return value.ts


class MinMaxMean(AggregateFunction):
    def create_accumulator(self):
        return float("inf"), float("-inf"), 0.0, 0

    def add(self, value, acc):
        t = value.temperature
        return min(acc[0], t), max(acc[1], t), acc[2] + t, acc[3] + 1

    def get_result(self, acc):
        return acc[0], acc[1], acc[2] / acc[3]

    def merge(self, a, b):
        return min(a[0], b[0]), max(a[1], b[1]), a[2] + b[2], a[3] + b[3]


class Classify(ProcessWindowFunction):
    def process(self, key, context, elements):
        low, high, mean = next(iter(elements))
        label = "hot" if mean > 30 else "ok"
        yield "%s [%d] %.1f..%.1f %.2f %s" % (key, context.window().start, low, high, mean, label)


def build(env: StreamExecutionEnvironment, messages, window: int) -> DataStream:
    parsed = env.from_collection(messages, type_info=Types.STRING()).process(ParseJson(), output_type=READING)
    parsed.get_side_output(INVALID).print()
    return parsed \
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
            .with_timestamp_assigner(DeviceTime())) \
        .key_by(lambda r: r.device, key_type=Types.STRING()) \
        .window(TumblingEventTimeWindows.of(Time.seconds(window))) \
        .aggregate(MinMaxMean(), window_function=Classify(),
                   accumulator_type=Types.TUPLE([Types.DOUBLE(), Types.DOUBLE(), Types.DOUBLE(), Types.LONG()]),
                   output_type=Types.STRING())


def main(argv: Optional[list] = None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=60)
    parser.add_argument("--parallelism", type=int, default=1)
    options = parser.parse_args(argv)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(options.parallelism)
    messages = [json.dumps({"device": d, "ts": ts * 1000, "temperature": t})
                for d, ts, t in [("d1", 1, 20), ("d1", 30, 25), ("d2", 31, 40), ("d1", 61, 21), ("d2", 59, 38)]]
    build(env, [*messages, "{", '{"device": "d3"}'], options.window).print()
    env.execute("iot")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main()
