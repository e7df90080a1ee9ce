"""A job that reads three records and then waits for more, for ever, with a server of queryable state beside it.

One argument, JSON: ``checkpoints`` and ``job_id``. Says ``IDLE`` when the records are committed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tidemill.common import Configuration, Types, run_main
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.queryable import address_of

RECORDS = 3


class Waiting(SplitSource):
    """Three numbers, and no end."""

    bounded = False
    parallelism = 1

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _Enumerator(int(position or 0))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        yield RecordBatch([(number, 1) for number in split.payload])


class _Enumerator(SplitEnumerator):
    def __init__(self, position: int) -> None:
        self._next = position

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        numbers = list(range(self._next, RECORDS))
        self._next = RECORDS
        return [Split(numbers, len(numbers))] if numbers else []

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return False

    def available(self) -> bool:
        return self._next < RECORDS


def main(arguments: dict[str, Any]) -> None:
    options = {
        "execution.target": "local",
        "execution.checkpointing.dir": arguments["checkpoints"],
        "execution.job-id": arguments["job_id"],
        "execution.owner-check-interval": "500 ms",
        "queryable-state.enable": "true",
        "queryable-state.proxy.ports": "0",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    numbers = env.from_source(Waiting(), WatermarkStrategy.no_watermarks(), "waiting").uid("waiting")
    pairs = numbers.map(lambda pair: pair, output_type=Types.TUPLE([Types.LONG(), Types.LONG()])).uid("pairs")
    pairs.key_by(0, Types.LONG()).sum(1).uid("sum").print().uid("print")
    client = env.execute_async("idle")
    address_of(arguments["job_id"])
    while not client.get_accumulators().result():
        time.sleep(0.05)
    print("IDLE", flush=True)
    client.get_job_execution_result().result()


if __name__ == "__main__":
    sys.exit(run_main(lambda: main(json.loads(sys.argv[1]))))
