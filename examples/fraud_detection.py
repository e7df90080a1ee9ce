"""Card fraud detection on a live stream that survives the loss of a worker: ``make demo``.

10 000 payments per second arrive for 30 seconds. Two rules evaluate the history of each card, kept in keyed state:

* card testing: a payment below 1.00, followed within a minute by one of 500.00 or more;
* impossible travel: a payment in a country where the card was not used recently, minutes after one in another country.

The first line of output is the address of the job's web page. Halfway through, the demo kills one of its own worker
processes, which has half of the state in its memory. At the end, everything the job wrote is compared with the results
that plain Python computes from the same payments. The exit code is 0 if both are equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from examples.support.demo import STARTS, run_demo
from examples.support.findings import LARGE, SMALL, TRAVEL, Alert, Statement, to_line
from examples.support.payments import MIDNIGHT, MINUTE, Payment, PaymentSource
from tidemill.common import Configuration, Encoder, Types, WatermarkStrategy
from tidemill.datastream import (
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy

STATEMENTS = OutputTag("statements")


class FraudDetector(KeyedProcessFunction):
    """Checks each payment against the history of its card. Each card has its own state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        get_state, get_map_state = runtime_context.get_state, runtime_context.get_map_state
        self.totals = get_state(ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.LONG()])))
        self.tested = get_state(ValueStateDescriptor("tested", Types.LONG()))
        self.countries = get_map_state(MapStateDescriptor("countries", Types.STRING(), Types.LONG()))
        runtime_context.get_metrics_group().counter(STARTS).inc()  # once per worker, so once more after a kill

    def process_element(self, value: Payment, ctx: KeyedProcessFunction.Context) -> Iterator[Alert]:
        self.add_to_totals(value, ctx)
        yield from self.find_card_testing(value, ctx)
        yield from self.find_impossible_travel(value)

    def add_to_totals(self, payment: Payment, ctx: KeyedProcessFunction.Context) -> None:
        count, cents = self.totals.value() or (0, 0)
        self.totals.update((count + 1, cents + payment.cents))
        if count == 0:
            ctx.timer_service().register_event_time_timer(MIDNIGHT)

    def find_card_testing(self, payment: Payment, ctx: KeyedProcessFunction.Context) -> Iterator[Alert]:
        if payment.cents < SMALL:
            self.tested.update(payment.at)
            ctx.timer_service().register_event_time_timer(payment.at + MINUTE)
        elif payment.cents >= LARGE:
            tested = self.tested.value()
            if tested is not None and payment.at - tested <= MINUTE:
                yield Alert(
                    payment.at, payment.card, "card testing", f"{payment.cents / 100:.2f} at {payment.merchant}"
                )

    def find_impossible_travel(self, payment: Payment) -> Iterator[Alert]:
        last_here = self.countries.get(payment.country)
        if last_here is None or payment.at - last_here > TRAVEL:
            for country, last_there in self.countries.items():
                if country != payment.country and payment.at - last_there <= TRAVEL:
                    yield Alert(payment.at, payment.card, "impossible travel", f"{payment.country} after {country}")
        self.countries.put(payment.country, payment.at)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        if timestamp == MIDNIGHT:  # also fires at the end of the stream, whose last watermark is after every timestamp
            yield STATEMENTS, Statement(ctx.get_current_key(), *self.totals.value())
        elif self.tested.value() == timestamp - MINUTE:
            self.tested.clear()


def build(env: StreamExecutionEnvironment, source: PaymentSource, output: Path) -> None:
    """Build the program: it reads payments, and writes alerts and statements to separate files, exactly once."""
    payments = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "payments").uid("payments")
    alerts = payments.key_by(lambda payment: payment.card, Types.LONG()).process(FraudDetector()).uid("detector")
    alerts.map(to_line).sink_to(files_in(output / "alerts")).uid("alerts")
    alerts.get_side_output(STATEMENTS).map(to_line).sink_to(files_in(output / "statements")).uid("statements")


def files_in(folder: Path) -> FileSink:
    """A sink whose files become visible when their epoch is committed, and not earlier."""
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return (
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="length of the stream (default: %(default)s)")
    parser.add_argument(
        "--stay", type=float, default=60, help="on a terminal, seconds to serve the page at the end (%(default)s)"
    )
    options = parser.parse_args(arguments)

    configuration = Configuration()
    configuration.set_string("spark.master", "local[2,4]")  # two slots; a failed task is attempted up to four times
    configuration.set_string("execution.epoch.min-interval", "100 ms")
    configuration.set_string("execution.epoch.max-records", "20000")  # a backlog is processed in small epochs
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return run_demo(env, PaymentSource(options.seconds), build, options.stay)


if __name__ == "__main__":
    sys.exit(main())
