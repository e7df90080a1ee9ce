"""A job whose function is random: a repeated task sends other records than the first one did.

Whatever happens, what the sink got must be what the state says. One argument, a JSON object::

    {"checkpoints": dir, "output": dir, "job_id": id, "options": {...},
     "sabotage": [{"number", "action", "token", "state"}]}

Where the keyed step meets a record with a ``number`` of the list it does the ``action``, once over all attempts:
``kill_worker``; ``lose_shuffle`` deletes all shuffle files when the other subtask has written its delta to ``state``,
then kills the worker, so that the retry finds nothing to read; ``kill_executor`` ends the JVM with all it holds, when
the other is done likewise; ``dawdle`` takes so long that Spark starts a second attempt of the task. A token ending in
``-again`` marks a later attempt. The program prints the number of runs of each epoch as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.spark.programs.keyed_job import environment, sink
from tidemill.common import Types
from tidemill.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.faults import executor_process
from tidemill.runtime.driver.job import RunningJob

NUMBERS = 1200
EPOCH = 200
KEYS = 8


class Randomly(MapFunction):
    """(random key, random amount, number): another one on each attempt."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.random = random.Random()

    def map(self, value: int) -> Any:
        return self.random.randrange(KEYS), self.random.randrange(1_000_000), value


class Sum(KeyedProcessFunction):
    def __init__(self, sabotage: list[dict[str, Any]]) -> None:
        self.sabotage = {entry["number"]: entry for entry in sabotage}

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, amount, number = value
        if number in self.sabotage:
            entry = self.sabotage[number]
            if first_time(entry["token"]):
                act(entry)
            else:
                Path(entry["token"] + "-again").touch()
        self.total.update((self.total.value() or 0) + amount)
        yield f"{key} {amount} {number}"


def first_time(token: str) -> bool:
    try:
        Path(token).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def act(entry: dict[str, Any]) -> None:
    if entry["action"] == "dawdle":
        time.sleep(120)
        return
    if entry["action"] != "kill_worker":
        await_the_other(Path(entry["state"]), (entry["number"] - 1) // EPOCH + 1)
    if entry["action"] == "lose_shuffle":
        for path in Path(entry["local_dir"]).rglob("shuffle_*"):
            path.unlink()
    os.kill(executor_process() if entry["action"] == "kill_executor" else os.getpid(), signal.SIGKILL)
    time.sleep(60)


def await_the_other(state: Path, epoch: int) -> None:
    """Wait until the other subtask has all of its input of an epoch: its delta is the first of the epoch."""
    deadline = time.monotonic() + 120
    while not any(int(delta.name.partition("-")[0]) == epoch for delta in state.rglob("*.tms")):
        assert time.monotonic() < deadline, f"the other subtask has no delta of epoch {epoch}"
        time.sleep(0.05)


def main(arguments: dict[str, Any]) -> None:
    options = {
        "execution.epoch.max-records": str(EPOCH),
        "execution.epoch.max-duration": "0 ms",  # each epoch has the same records, on a slow machine too
        "state.inline-delta-size": "1b",  # so that each delta is a file
        **arguments.get("options", {}),
    }
    env = environment(arguments["checkpoints"], arguments["job_id"], options)
    numbers = env.from_sequence(1, NUMBERS).map(Randomly())
    sums = numbers.key_by(lambda value: value[0]).process(Sum(arguments["sabotage"])).uid("sum")
    sums.sink_to(sink(Path(arguments["output"]))).uid("sink")
    client = env.execute_async("random job")
    client.get_job_execution_result().result()
    assert isinstance(client, RunningJob)
    print("\nRUNS " + json.dumps([stats.runs for stats in client.epochs]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
