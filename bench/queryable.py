"""Reads of queryable state per second, and their cost for the job: epoch times with and without reads.

The job has one subtask, so that on a machine with two cores one core is left for the reads. Server and reader are
separate processes. Turns with and without reads alternate within one run of the job. The slowdown of epochs during
reads is the median, over all rounds, of the ratio within a round.
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
from dataclasses import dataclass
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
#: Concurrent lookups of a reader.
_AT_ONCE = 64
_NO_READS = "no reads"


def measure_queries(turns: int, seconds: float, reads_per_second: int = 3_000) -> list[Measurement]:
    """Run a job, in turns of ``seconds`` seconds: without reads, with a fixed rate, and with as many as possible."""
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
    contenders = {_NO_READS: None, f"{rate:,} reads/s": rate, "as many reads as possible": 0}
    rounds: list[dict[str, Turn]] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdout.readline()  # the reader has read all keys once
        time.sleep(seconds)  # the JVM's warm-up
        for number in range(turns):
            # Every second round is in reverse order: a machine that becomes slower or faster affects all equally.
            order = list(contenders) if number % 2 == 0 else list(contenders)[::-1]
            found: dict[str, Turn] = {}
            for name in order:
                first, used, limit = client.epochs[-1].epoch, _cpu(server), contenders[name]
                counts = {"reads": 0, "seconds": seconds, "client": 0.0}
                if limit is None:
                    time.sleep(seconds)
                else:
                    reader.stdin.write(f"{json.dumps([seconds, limit])}\n")
                    reader.stdin.flush()
                    counts = json.loads(reader.stdout.readline())
                # The epoch in which the turn began is part of two turns.
                epochs = [epoch.seconds for epoch in list(client.epochs) if epoch.epoch > first + 1]
                found[name] = Turn(epochs, **counts, server=_cpu(server) - used)
            rounds.append(found)
        reader.stdin.close()
    return [_measurement(name, rounds) for name in contenders]


@dataclass(frozen=True)
class Turn:
    """One turn: the seconds of each epoch, the number of reads, and the CPU seconds of client and server."""

    epochs: list[float]
    reads: float
    seconds: float
    client: float
    server: float


def _measurement(name: str, rounds: list[dict[str, Turn]]) -> Measurement:
    turns = [one[name] for one in rounds]
    taken = [seconds for turn in turns for seconds in turn.epochs]
    reads, lasted = sum(turn.reads for turn in turns), sum(turn.seconds for turn in turns)
    server, client = sum(turn.server for turn in turns), sum(turn.client for turn in turns)
    details: dict[str, Any] = {
        "epochs": len(taken),
        "keys": _KEYS,
        "records per epoch": _PER_EPOCH,
        "share of a core, server": server / lasted,
        # Within each round, because other turns are not comparable enough.
        "slowdown": statistics.median(
            statistics.median(one[name].epochs) / statistics.median(one[_NO_READS].epochs) for one in rounds
        ),
    }
    if reads:
        details |= {
            "reads per second": reads / lasted,
            "reads per second of a core, server": reads / server,
            "reads per second of a core, client": reads / client,
            "reads per second of a core, server and client": reads / (server + client),
        }
    return Measurement("queryable state", name, 0.0, statistics.median(taken), details)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _read(host: str, port: int) -> None:
    """Run the reader: for each line of input (seconds, reads per second or 0), read for that time and print the result.

    It represents another machine, and therefore runs at the lowest priority on this one.
    """
    os.nice(19)
    dice = random.Random(1)
    with QueryableStateClient(host, port, timeout=60) as client:

        def look(keys: list[int]) -> None:
            lookups = [client.get_kv_state(_JOB, "counts", key, Types.LONG(), _COUNTS) for key in keys]
            for future in lookups:
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
