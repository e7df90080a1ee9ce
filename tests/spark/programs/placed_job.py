"""A keyed job of many small epochs whose function notes in a file whenever it is opened. Argument: settings as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidemill.common import Configuration, Types
from tidemill.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

EPOCHS = 15
PARALLELISM = 2


class Counting(KeyedProcessFunction):
    """Counts records per key."""

    def __init__(self, notes: str) -> None:
        self._notes = notes

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), default_value=0))
        with Path(self._notes).open("a") as notes:
            notes.write(f"{runtime_context.get_index_of_this_subtask()} {os.getpid()}\n")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update(self.count.value() + 1)
        if self.count.value() == EPOCHS:
            yield value % 10, self.count.value()


def main() -> None:
    arguments = json.loads(sys.argv[1])
    configuration = Configuration.from_dict(
        {
            "execution.epoch.max-records": 10,
            "execution.epoch.max-duration": "0 ms",
            "parallelism.default": PARALLELISM,
            **arguments["options"],
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_sequence(0, 10 * EPOCHS - 1)
    found = numbers.key_by(lambda number: number % 10).process(Counting(arguments["notes"])).execute_and_collect()
    print("RESULT", sorted(found))


if __name__ == "__main__":
    main()
