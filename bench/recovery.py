"""``python -m bench.recovery``: the time that a job with large state needs to resume after losing workers or driver.

A job fills its state. Then its Python workers are killed, and the benchmark measures the time to the second epoch after
that. With RocksDB the new workers are *warm*: they find the databases on their disks and read only newer changes.
Otherwise they are *cold* and load the whole state from checkpoint files. Then the driver is lost too. A separate
process starts the job again, and the benchmark measures the time to its first committed epoch. This start is always
cold, because the new program may be a different one, with its state in another form.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.jobs import DiscardingSink
from tidemill.common import Configuration, Types
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction
from tidemill.datastream.state import ValueState, ValueStateDescriptor

_VALUE_BYTES = 1_000
_KEYS_PER_EPOCH = 100_000
#: After this time RocksDB has flushed its data to disk. A worker killed earlier leaves nothing to resume from.
_FLUSHED_SECONDS = 75.0


class Keys(SplitSource):
    """Emits each key once, then the same key repeatedly. It never ends."""

    parallelism = 1

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _Keys(self.keys, position or 0)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        low, high = split.payload
        for start in range(low, high, 10_000):
            yield RecordBatch(list(range(start, min(start + 10_000, high))))


class _Keys(SplitEnumerator):
    def __init__(self, keys: int, done: int) -> None:
        self._keys = keys
        self._done = done

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        low, self._done = self._done, min(self._done + _KEYS_PER_EPOCH, self._keys)
        # A job whose state is complete continues with little work.
        return [Split((low, self._done), self._done - low)] if low < self._keys else [Split((0, 1), 1)]

    def position(self) -> Position:
        return self._done

    @property
    def finished(self) -> bool:
        return False


class Remember(KeyedProcessFunction):
    """Stores one kilobyte per key."""

    seen: ValueState[bytes]

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self.seen.update(value.to_bytes(8, "little") * (_VALUE_BYTES // 8))
        yield value


def run(directory: Path, backend: str, keys: int, epochs: int, least: float, *, kill: bool) -> dict[str, float]:
    """Run ``epochs`` epochs, for at least ``least`` seconds, then stop.

    Returns the seconds to the first epoch, and the size of the state. With ``kill``, the workers are killed before the
    end, and the result also contains the seconds to the second epoch after that.
    """
    configuration = Configuration.from_dict(
        {
            "state.backend.type": backend,
            "state.backend.rocksdb.localdir": str(directory / "local"),
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "execution.job-id": "recovery",
            "worker.cache.size": "8 gb",
            "spark.master": "local[2,4]",
            "spark.driver.memory": "2g",
        }
    )
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = environment.from_source(Keys(keys), WatermarkStrategy.no_watermarks(), "keys").uid("keys")
    remembered = stream.key_by(lambda key: key, Types.LONG()).process(Remember()).uid("remember")
    remembered.sink_to(DiscardingSink()).uid("sink")
    client: Any = environment.execute_async("recovery")
    started = time.perf_counter()
    result = client.get_job_execution_result()
    first = None
    while (epochs_of(client) < epochs or time.perf_counter() - started < least) and not result.done():
        time.sleep(0.01)
        if client.epochs and first is None:
            first = time.perf_counter() - started
    size = client.get_checkpoint_history().checkpoints[-1].state_size
    figures = {"state, MB": round(size / 1e6), "first epoch, s": round(first or 0.0, 2)}
    if kill:
        wanted = epochs_of(client) + 2  # the next epoch may already be complete
        started = time.perf_counter()
        for worker in workers():
            worker.kill()
        while epochs_of(client) < wanted and not result.done():
            time.sleep(0.01)
        figures["second epoch after the kill, s"] = round(time.perf_counter() - started, 2)
    if result.done():
        result.result()
    # The process ends without cancelling the job, like a killed driver: nothing is cleaned up.
    return figures


def epochs_of(client: Any) -> int:
    """The number of committed epochs. A client keeps the figures of only the latest epochs."""
    return client.epochs[-1].epoch if client.epochs else 0


def workers() -> list[psutil.Process]:
    """The Python workers of Spark in this process: all were forked by its daemon."""
    daemons = [process for process in psutil.Process().children(recursive=True) if _is_daemon(process)]
    return [process for process in daemons if process.ppid() in {daemon.pid for daemon in daemons}]


def _is_daemon(process: psutil.Process) -> bool:
    try:
        return "pyspark.daemon" in process.cmdline()
    except psutil.Error:
        return False  # the process has ended


def _in_new_process(
    arguments: argparse.Namespace, directory: Path, backend: str, epochs: int, least: float = 0.0, *, kill: bool = False
) -> Any:
    command = [sys.executable, "-m", "bench.recovery", "--megabytes", str(arguments.megabytes)]
    command += ["--directory", str(directory), "--backend", backend, "--epochs", str(epochs)]
    command += ["--least", str(least), *(["--kill"] if kill else [])]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def main() -> int:
    """Fill, kill the workers, stop and restart with each backend, and print the times."""
    parser = argparse.ArgumentParser(prog="bench.recovery", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--least", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--kill", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    keys = arguments.megabytes * 1_000_000 // _VALUE_BYTES
    if arguments.backend is not None:
        directory, backend = arguments.directory, arguments.backend
        figures = run(directory, backend, keys, arguments.epochs, arguments.least, kill=arguments.kill)
        sys.stdout.write(json.dumps(figures) + "\n")
        return 0
    filling = -(-keys // _KEYS_PER_EPOCH) + 1
    for backend in ("hashmap", "rocksdb"):
        with tempfile.TemporaryDirectory(prefix="tidemill-recovery-") as name:
            least = _FLUSHED_SECONDS if backend == "rocksdb" else 0.0
            figures = _in_new_process(arguments, Path(name), backend, filling, least, kill=True)
            took = figures["second epoch after the kill, s"]
            sys.stdout.write(f"{backend}: {figures['state, MB']} MB; workers lost: {took} s\n")
            figures = _in_new_process(arguments, Path(name), backend, 2)
            sys.stdout.write(f"{backend}: driver lost: {figures['first epoch, s']} s\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
