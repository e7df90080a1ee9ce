"""The job in the screenshots of the web page: card payments in shops and online, with one failure of a service."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Final

from examples.fraud_detection import FraudDetector
from examples.support.findings import Alert
from examples.support.payments import COUNTRIES, MERCHANTS, Payment
from tidemill.common import Duration, Encoder, Types, WatermarkStrategy
from tidemill.datastream import DataStream, StreamExecutionEnvironment, TumblingEventTimeWindows
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy

CARDS: Final = 5_000
PER_SECOND: Final = {"shop terminals": 3_000, "online shop": 1_500}


def payment(number: int) -> Payment:
    """Create a payment with a recent timestamp. Some cards are used more often than others."""
    chance = random.Random(number)
    card = int(CARDS * chance.random() ** 3)
    country = COUNTRIES[card % len(COUNTRIES) if chance.random() < 0.999 else 0]
    cents = int(chance.lognormvariate(7.5, 1.2))
    at = time.time_ns() // 1_000_000 - chance.randrange(500)
    return Payment(card, cents, country, chance.choice(MERCHANTS), at)


class ToEuros:
    """Requests the exchange rate from a service, which fails once after the file ``away`` is created."""

    def __init__(self, away: Path) -> None:
        self._away = away

    def __call__(self, payment: Payment) -> Payment:
        return payment._replace(cents=int(payment.cents * self.rate_of(payment.country)))

    def rate_of(self, country: str) -> float:
        """The value of one unit of the country's currency in euros."""
        if country == "US" and self._away.exists():
            self._away.unlink()
            raise ConnectionError(f"the service of exchange rates did not answer for {country}")
        return 1.0 if country in ("AT", "DE", "FR") else 0.9


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Build the job: it reads payments, and writes alerts and revenue per ten seconds to files."""
    in_shops, online = (payments(env, name) for name in PER_SECOND)
    euros = in_shops.union(online).map(ToEuros(folder / "away")).name("to euros").uid("to euros")
    detected = euros.key_by(lambda payment: payment.card, Types.LONG()).process(FraudDetector())
    alerts = detected.name("fraud detector").uid("detector")
    amounts = euros.map(lambda payment: (payment.merchant, payment.cents), Types.TUPLE([Types.STRING(), Types.LONG()]))
    revenue = (
        amounts.name("amounts")
        .uid("amounts")
        .key_by(lambda pair: pair[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Duration.of_seconds(10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .name("revenue per merchant")
        .uid("revenue")
    )
    write(alerts.map(alert_line), "alerts", folder)
    write(revenue.map(str), "revenue", folder)


def payments(env: StreamExecutionEnvironment, name: str) -> DataStream:
    """Create a stream of payments with event time."""
    source = DataGeneratorSource(payment, rate_limiter_strategy=RateLimiterStrategy.per_second(PER_SECOND[name]))
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        lambda payment, _: payment.at
    )
    return env.from_source(source, in_time, name).uid(name)


def write(lines: DataStream, name: str, folder: Path) -> None:
    """Write lines to files below the folder, in one subtask."""
    sink = (
        FileSink.for_row_format(str(folder / name), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
    lines.name(f"{name} lines").uid(f"{name} lines").set_parallelism(1).sink_to(sink).name(f"{name} files").uid(
        f"{name} files"
    ).set_parallelism(1)


def alert_line(alert: Alert) -> str:
    """Format an alert as a line."""
    return f"{alert.card}: {alert.rule}, {alert.detail}"
