"""Queryable state: another program looks up the last temperature of each sensor, and its number of alerts, by key.

Run it with ``python -m examples.queryable_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.common import Configuration, Types
from tidemill.datastream import (
    KeyedProcessFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.ops.queryable import (
    QueryableStateClient,
    UnknownKeyOrNamespaceError,
    address_of,
    stop_queryable_state,
)

READINGS = [("roof", 19.0), ("cellar", 12.5), ("roof", 21.0), ("roof", 18.5), ("cellar", 12.0), ("roof", 23.5)]
JOB = "sensors"
READING = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
LAST = ValueStateDescriptor("last", Types.DOUBLE())
LAST.set_queryable("lastTemperature")
CHANGE = Types.TUPLE([Types.STRING(), Types.LONG()])
ALERTS = ReducingStateDescriptor("alerts", lambda one, two: (one[0], one[1] + two[1]), CHANGE)


class Changes(KeyedProcessFunction):
    """Emits a 1 for each reading that differs by more than 1.7 degrees from the previous one of its sensor."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(LAST)

    def process_element(self, value: tuple[str, float], ctx: KeyedProcessFunction.Context) -> Iterable[tuple[str, int]]:
        sensor, degrees = value
        last = self.last.value()
        self.last.update(degrees)
        if last is not None and abs(degrees - last) > 1.7:
            yield sensor, 1


def build(env: StreamExecutionEnvironment) -> None:
    """Show two ways to make state queryable: through its descriptor in a function, and as the end of a stream."""
    readings = env.from_collection(READINGS, READING).uid("readings")
    changes = readings.key_by(0, Types.STRING()).process(Changes(), CHANGE).uid("changes")
    changes.key_by(0, Types.STRING()).as_queryable_state("alerts", ALERTS)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    target = parser.parse_args(arguments).target
    with tempfile.TemporaryDirectory() as directory:
        configuration = Configuration.from_dict(
            {
                "execution.target": target,
                "execution.job-id": JOB,
                "execution.checkpointing.dir": directory,
                "queryable-state.enable": "true",
                "queryable-state.proxy.ports": "9069-9169",
            }
        )
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
        build(env)
        env.execute(JOB)  # the server answers while the job runs, and then until this process ends
        host, port = address_of(JOB)
        # The client waits until the server has found a committed epoch (here there is only one). It checks every 50 ms.
        with QueryableStateClient(host, port, timeout=60) as client:
            report(client)
        stop_queryable_state(JOB)  # stop it now, because its directory is about to be deleted


def report(client: QueryableStateClient) -> None:
    """Query the state as another program would: with the address, the job id, and the names and types of the states."""
    for sensor in ("roof", "cellar"):
        last: Any = client.get_kv_state(JOB, "lastTemperature", sensor, Types.STRING(), LAST).result()
        print(f"{sensor} was at {last.value()} degrees last")
    alerts: Any = client.get_kv_state(JOB, "alerts", "roof", Types.STRING(), ALERTS).result()
    print(f"roof: {alerts.get()[1]} alerts")
    try:
        client.get_kv_state(JOB, "lastTemperature", "attic", Types.STRING(), LAST).result()
    except UnknownKeyOrNamespaceError:
        print("nothing is known of the attic")


if __name__ == "__main__":
    main()
