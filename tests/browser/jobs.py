"""Jobs on the local engine for a browser to look at, each with a REST server of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.unit.ops.rest.serving import Client, environment, options
from tests.waiting import eventually
from tidemill.common import Duration, Encoder, RestartStrategies, Types, WatermarkStrategy
from tidemill.common.job_client import JobClient
from tidemill.datastream import (
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.ops.rest.server import RestServer, servers

#: More than the page shows of a state at once.
CUSTOMERS = 60
PRODUCTS = ("tea", "salt", "rope", "oil")
#: At this order the parser fails, once.
BAD_ORDER = 90
#: A file below the job's folder: when it comes, the job fails.
FAIL = "fail"
LARGE = OutputTag("large")
#: How long a job may take for a few epochs, also on Spark, which starts its workers first.
SECONDS = 60


class Order(NamedTuple):
    """What a customer buys; ``at`` is the event time in milliseconds."""

    customer: str
    product: str
    cents: int
    at: int


class Parse:
    """Makes an order of its number; fails at one of them the first time that it comes, and whenever a flag says so."""

    def __init__(self, folder: Path) -> None:
        self._failed = folder / "failed"
        self._told = folder / FAIL
        self._begin = time.time_ns() // 1_000_000

    def __call__(self, number: int) -> Order:
        if number == BAD_ORDER and not self._failed.exists():
            self._failed.touch()
            raise ValueError(f"order {number} has no price")
        if self._told.exists() and self._was_told():
            raise RuntimeError("told to fail")
        customer = f"customer-{number % CUSTOMERS}"
        return Order(customer, PRODUCTS[number % len(PRODUCTS)], number % 1000, self._begin + 50 * number)

    def _was_told(self) -> bool:
        """Whether it is this subtask that fails, of all that see the file."""
        try:
            self._told.unlink()
        except FileNotFoundError:
            return False
        return True


class Spending(KeyedProcessFunction):
    """What each customer has spent, and how often on which product; large orders go aside."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.spent = runtime_context.get_state(ValueStateDescriptor("spent", Types.LONG()))
        self.bought = runtime_context.get_map_state(MapStateDescriptor("bought", Types.STRING(), Types.LONG()))

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context) -> Iterator[object]:
        self.spent.update((self.spent.value() or 0) + value.cents)
        self.bought.put(value.product, (self.bought.get(value.product) or 0) + 1)
        if value.cents > 900:
            yield LARGE, value
        yield value


@dataclass(frozen=True)
class Served:
    """A job and the server that shows it."""

    job: JobClient
    server: RestServer

    @property
    def id(self) -> str:
        return str(self.job.get_job_id())

    @property
    def rest(self) -> Client:
        return Client(self.server)

    @property
    def epochs(self) -> int:
        """How many are committed."""
        return self.job.get_checkpoint_history().completed

    def goes_on(self) -> None:
        """Returns when two more epochs are committed: one may have been under way."""
        seen = self.epochs
        eventually(lambda: self.epochs > seen + 1, SECONDS)


def fast(folder: Path, **more: str) -> dict[str, str]:
    """Settings for four epochs a second, which leave the machine to the browser; none is forgotten while it looks."""
    pace = {"execution.epoch.max-records": "100", "execution.epoch.min-interval": "250 ms"}
    return {**options(folder), **pace, "web.checkpoints.history": "10000", **more}


def orders(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Orders in; sales per product and window, and large orders, out. Six vertices, one of them with state."""
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10))
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        lambda order, _: order.at
    )
    placed = (
        env.from_sequence(1, 10_000_000)
        .name("orders")
        .uid("orders")
        .map(Parse(folder))
        .name("parse")
        .uid("parse")
        .assign_timestamps_and_watermarks(in_time)
        .uid("times")
    )
    spending = placed.key_by(lambda order: order.customer).process(Spending()).name("spending").uid("spending")
    sales = (
        spending.map(lambda order: (order.product, order.cents))
        .uid("pairs")
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Duration.of_seconds(5)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .name("sales per window")
        .uid("sales")
    )
    sales.map(str).uid("sales lines").sink_to(_files(folder / "sales")).name("sales files").uid("sales files")
    large = spending.get_side_output(LARGE).rebalance().map(str).name("large orders").uid("large orders")
    large.filter(lambda _: False).print()


def start_orders(settings: Mapping[str, str], folder: Path, name: str = "orders") -> JobClient:
    """The job with the orders."""
    env = environment(settings)
    orders(env, folder)
    return env.execute_async(name)


@contextmanager
def served(start: Callable[[], JobClient], epochs: int = 3, beside: Served | None = None) -> Iterator[Served]:
    """A job that has committed a few epochs, with its server; both are gone afterwards.

    With ``beside`` it is shown by the server of that job, which stays.
    """
    job = start()
    server = servers()[-1] if beside is None else beside.server
    try:
        found = Served(job, server)
        eventually(lambda: found.epochs >= epochs, SECONDS)
        yield found
    finally:
        job.cancel().result(60)
        if beside is None:
            server.close()


def _files(folder: Path) -> FileSink:
    return (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
