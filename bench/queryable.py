"""Reads of queryable state per second, and what they cost the job: epochs with and without somebody who reads.

The job has one subtask, so that on a machine of two cores it leaves one to the reads. Server and reader are processes
of their own. Times of reading and not reading alternate within one run of the job.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil

from bench.measure import Measurement
from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.state import ReducingStateDescriptor
from tidemill.ops.queryable import (
    QueryableStateClient,
    UnknownKeyOrNamespaceError,
    address_of,
    stop_queryable_state,
)

_JOB = "queryable"
_PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
_COUNTS = ReducingStateDescriptor("counts", lambda one, two: (one[0], one[1] + two[1]), _PAIR)
_KEYS = 100_000
_PER_EPOCH = 20_000
#: Lookups that a reader has under way at once.
_AT_ONCE = 64


def measure_queries(turns: int, seconds: float, reads_per_second: int = 3_000) -> list[Measurement]:
    """Run a job; in turns of so many seconds leave it alone, read at a fixed rate, and read as fast as it goes."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        options = {
            "execution.job-id": _JOB,
            "execution.checkpointing.dir": directory,
            "execution.epoch.max-records": str(_PER_EPOCH),
            "parallelism.default": "1",
            "queryable-state.enable": "true",
            "queryable-state.proxy.ports": "0",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        numbers = env.from_sequence(1, 10**12).map(lambda n: (n % _KEYS, 1), _PAIR)
        numbers.key_by(0, Types.LONG()).as_queryable_state("counts", _COUNTS)
        client: Any = env.execute_async(_JOB)
        try:
            return _in_turns(client, *address_of(_JOB, 60), turns, seconds, reads_per_second)
        finally:
            client.cancel().result()
            stop_queryable_state(_JOB)


def _in_turns(client: Any, host: str, port: int, turns: int, seconds: float, rate: int) -> list[Measurement]:
    server = next(child for child in psutil.Process().children() if "tidemill.ops.queryable" in child.cmdline())
    command = [sys.executable, "-m", "bench.queryable", host, str(port)]
    contenders = {"nobody reads": None, f"{rate:,} reads/s": rate, "as many reads as it goes": 0}
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    reads: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdout.readline()  # it has read all keys once
        time.sleep(seconds)  # the JVM's warm-up
        for _ in range(turns):
            for name, limit in contenders.items():
                first, used = len(client.epochs), _cpu(server)
                if limit is None:
                    time.sleep(seconds)
                else:
                    reader.stdin.write(f"{json.dumps([seconds, limit])}\n")
                    reader.stdin.flush()
                    told = json.loads(reader.stdout.readline())
                    reads[name].append({**told, "server": _cpu(server) - used})
                # The epoch in which the turn began, and the one in which it ends, belong to two turns.
                taken[name] += [epoch.seconds for epoch in client.epochs[first + 1 :]]
        reader.stdin.close()
    return [_measurement(name, taken[name], reads[name]) for name in contenders]


def _measurement(name: str, taken: list[float], reads: list[dict[str, float]]) -> Measurement:
    details: dict[str, Any] = {"epochs": len(taken), "keys": _KEYS, "records per epoch": _PER_EPOCH}
    rate = 0.0
    if reads:
        count = sum(one["reads"] for one in reads)
        rate = count / sum(one["seconds"] for one in reads)
        server, client = (sum(one[who] for one in reads) for who in ("server", "client"))
        details |= {
            "reads per second": rate,
            "reads per second of a core, server": count / server,
            "reads per second of a core, server and client": count / (server + client),
        }
    return Measurement("queryable state", name, 0.0, statistics.median(taken), details)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _read(host: str, port: int) -> None:
    """The reader: for each line of input (seconds, reads per second or 0) reads so long, and tells how much.

    It stands for another machine, and so takes only what others leave of this one.
    """
    os.nice(19)
    dice = random.Random(1)
    with QueryableStateClient(host, port, timeout=60) as client:

        def look(keys: list[int]) -> None:
            asked = [client.get_kv_state(_JOB, "counts", key, Types.LONG(), _COUNTS) for key in keys]
            for future in asked:
                future.result()

        while True:  # until all keys have been written once
            try:
                look(list(range(0, _KEYS, 97)))
                break
            except UnknownKeyOrNamespaceError:
                time.sleep(0.5)
        print("ready", flush=True)
        for line in sys.stdin:
            seconds, rate = json.loads(line)
            count, began, used = 0, time.monotonic(), time.process_time()
            while time.monotonic() - began < seconds:
                look([dice.randrange(_KEYS) for _ in range(_AT_ONCE)])
                count += _AT_ONCE
                ahead = count / rate - (time.monotonic() - began) if rate else 0.0
                time.sleep(max(0.0, ahead))
            lasted = time.monotonic() - began
            print(json.dumps({"reads": count, "seconds": lasted, "client": time.process_time() - used}), flush=True)


if __name__ == "__main__":
    _read(sys.argv[1], int(sys.argv[2]))
