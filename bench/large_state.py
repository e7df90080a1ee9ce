"""``python -m bench.large_state``: 20 million keys on RocksDB with little memory: runs, checkpoints, restores.

Each Python worker may use 1 GiB (``--memory``). If one uses more, the run fails. The job stops halfway through, and a
separate process restarts it from its checkpoint directory. Its local databases are deleted first, so that the state is
loaded from checkpoint files. Then the count of each key is checked.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.jobs import DiscardingSink
from bench.memory import PeakMemory
from tidemill.common import Configuration, Types
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction
from tidemill.datastream.state import ValueState, ValueStateDescriptor

_PER_EPOCH = 1_000_000
#: Each key occurs once per round.
_ROUNDS = 2


class Rounds(SplitSource):
    """Emits all keys, round after round, and ends after ``until`` epochs."""

    def __init__(self, keys: int, until: int) -> None:
        self.keys = keys
        self.until = until

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _Epochs(self.until, position or 0)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        low, high = split.payload
        for start in range(low, high, 10_000):
            # A large odd factor distributes adjacent keys over the database.
            yield RecordBatch(
                [number * 2_654_435_761 % self.keys for number in range(start, min(start + 10_000, high))]
            )


class _Epochs(SplitEnumerator):
    def __init__(self, until: int, done: int) -> None:
        self._until = until
        self._done = done

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        start = self._done * _PER_EPOCH
        self._done += 1
        step = -(-_PER_EPOCH // parallelism)
        lows = range(start, start + _PER_EPOCH, step)
        return [Split((low, min(low + step, start + _PER_EPOCH)), step) for low in lows]

    def position(self) -> Position:
        return self._done

    @property
    def finished(self) -> bool:
        return self._done >= self._until


class CountAndCheck(KeyedProcessFunction):
    """Counts records per key. A count that differs from the number of the round is an error."""

    seen: ValueState[int]

    def __init__(self, last_round_only: bool) -> None:
        self._last = last_round_only

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG(), default_value=0))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        count = self.seen.value() + 1
        if count > _ROUNDS or (self._last and count != _ROUNDS):
            raise AssertionError(f"key {value} has the count {count}")
        self.seen.update(count)
        if count == _ROUNDS:
            yield value


def run_half(keys: int, half: int, directory: Path, memory_limit: int) -> int:
    """Run one round of all keys, and print time and memory. Returns 1 if a worker used too much memory, else 0."""
    rounds = keys // _PER_EPOCH
    configuration = Configuration.from_dict(
        {
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": str(directory / "local"),
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "execution.job-id": "large-state",
            "execution.epoch.max-records": _PER_EPOCH,
            "spark.master": "local[2,4]",
            "spark.driver.memory": "2g",
        }
    )
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = environment.from_source(Rounds(keys, _ROUNDS * rounds), WatermarkStrategy.no_watermarks(), "keys").uid(
        "keys"
    )
    counted = (
        stream.key_by(lambda key: key, Types.LONG()).process(CountAndCheck(last_round_only=half == 2)).uid("count")
    )
    counted.sink_to(DiscardingSink()).uid("sink")
    started = time.perf_counter()
    with PeakMemory() as memory:
        client: Any = environment.execute_async("large state")
        result = client.get_job_execution_result()
        while half == 1 and len(client.epochs) < rounds and not result.done():
            time.sleep(0.1)
        if half == 1 and not result.done():
            client.cancel().result()
        else:
            result.result()
    seconds = sorted(epoch.seconds for epoch in client.epochs)
    sys.stdout.write(
        f"{len(seconds)} epochs in {time.perf_counter() - started:.0f} s, median {seconds[len(seconds) // 2]:.1f} s, "
        f"slowest {seconds[-1]:.1f} s, {client.epochs[-1].state_entries:,} entries, memory in MB: "
        f"{memory.megabytes()}\n"
    )
    return int(memory.megabytes()["largest worker"] > memory_limit)


def main() -> int:
    """Run both halves, each in a separate process."""
    parser = argparse.ArgumentParser(prog="bench.large_state", description=__doc__)
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--memory", type=int, default=1024, help="memory limit per Python worker, in MB")
    parser.add_argument("--half", type=int, choices=(1, 2), help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.half is not None:
        return run_half(arguments.keys, arguments.half, arguments.directory, arguments.memory)
    with tempfile.TemporaryDirectory(prefix="tidemill-large-") as directory:
        for number in ("1", "2"):
            command = [sys.executable, "-m", "bench.large_state", "--keys", str(arguments.keys), "--half", number]
            ended = subprocess.run([*command, "--directory", directory, "--memory", str(arguments.memory)], check=False)
            if ended.returncode:
                return ended.returncode
            shutil.rmtree(Path(directory, "local"), ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
