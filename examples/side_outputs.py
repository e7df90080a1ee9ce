"""Side outputs: one process function splits a stream into three streams, each with its own type.

Run it with ``python -m examples.side_outputs``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from tidemill.common import Configuration, Types
from tidemill.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

LINES = ["cups 12", "plates eight", "spoons 30", "", "knives -4", "forks 25"]

ITEM = Types.TUPLE([Types.STRING(), Types.LONG()])
REJECTED = OutputTag("rejected", Types.STRING())
LOW = OutputTag("low", ITEM)


class Parse(ProcessFunction):
    """Emits valid items. Lines that cannot be parsed, and items that are low in stock, go to side outputs."""

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[Any]:
        name, _, count = value.partition(" ")
        try:
            item = name, int(count)
        except ValueError:
            yield REJECTED, value
            return
        if item[1] < 0:
            yield REJECTED, value
        else:
            yield item
            if item[1] < 20:
                yield LOW, item


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    configuration = Configuration().set_string("execution.target", parser.parse_args(arguments).target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    stock = env.from_collection(LINES).process(Parse(), ITEM).uid("parse")
    stock.print("stock")
    stock.get_side_output(LOW).print("low")
    stock.get_side_output(REJECTED).map(repr).print("rejected")
    env.execute("side outputs")


if __name__ == "__main__":
    main()
