"""Keyed state with exactly-once PostgreSQL sinks: ``python -m chaos.job_postgres <folder>`` is one driver."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from chaos.control import VARIABLE
from chaos.functions import Account, Numbers, Stamp
from chaos.job import run_job
from chaos.truth import DISORDER, Truth
from chaos.variant import Variant
from chaos.verdict import compare
from tests.postgres_server import PASSWORD, USER, PostgresServer, postgres_server
from tidemill.common import Duration, Types, WatermarkStrategy, run_main
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExactlyOnceSink,
    JdbcExecutionOptions,
    JdbcSink,
)

_ADDRESS: Final = "postgres"
_LINES: Final = "INSERT INTO lines VALUES (?)"
_COUNTS: Final = "INSERT INTO counts VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET count = excluded.count"


class PostgresVariant(Variant):
    """Drivers, workers and the database server are killed. Each table contains every result once."""

    module = "chaos.job_postgres"
    faults: Mapping[str, int] = {
        "kill_worker": 3,
        "kill_executor": 2,
        "kill_server": 3,
        "rescale": 2,
        "kill_driver": 2,
        "stop_driver": 1,
    }

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with postgres_server() as server:
            self._server: PostgresServer = server
            # The first table would show any duplicates; the rows of the second are updated in every epoch.
            server.run("CREATE TABLE lines (line text)")
            server.run("CREATE TABLE counts (key text PRIMARY KEY, count bigint)")
            (self.folder / _ADDRESS).write_text(server.url)
            yield

    def _kill_server(self, dice: random.Random) -> str:
        seconds = dice.random() * 3
        self._server.kill()
        time.sleep(seconds)
        self._server.start()
        return f"killed the database server for {seconds:.1f} s"

    def differences(self, records: int) -> Iterator[str]:
        truth = Truth.of(records)
        lines = Counter(line for (line,) in self._server.run("SELECT line FROM lines"))
        yield from compare("lines", truth.output["accounts"], lines)
        counts = Counter(f"{key} {count}" for key, count in self._server.run("SELECT key, count FROM counts"))
        yield from compare("counts", Counter(f"{key} {count}" for key, count in truth.counts.items()), counts)
        if left := self._server.prepared():
            yield f"transactions are still prepared after the end of the job: {left}"


def sink(folder: Path, sql: str, *types: str) -> JdbcExactlyOnceSink:
    """Create a sink with small batches and a short lock timeout."""
    kinds = {"text": Types.STRING(), "bigint": Types.LONG()}
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url((folder / _ADDRESS).read_text())
    return JdbcSink.exactly_once_sink(
        sql,
        Types.TUPLE([kinds[name] for name in types]),
        builder.with_user_name(USER).with_password(PASSWORD).build(),
        JdbcExecutionOptions.builder().with_batch_size(50).build(),
        JdbcExactlyOnceOptions.builder().with_timeout_sec(2).build(),
    )


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Build a job with counts and timers per key. One sink inserts all results, the other upserts the count per key."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    source = Numbers(os.environ[VARIABLE])
    numbers = env.from_source(source, bounded.with_timestamp_assigner(Stamp()), "numbers").uid("numbers")
    lines = numbers.key_by(lambda record: record[0]).process(Account(), Types.STRING()).uid("accounts")
    lines.map(lambda line: (line,)).sink_to(sink(folder, _LINES, "text")).uid("lines")
    seen = lines.filter(lambda line: line.startswith("seen ")).map(lambda line: line.split()[1:3])
    counts = seen.map(lambda words: (words[0], int(words[1]))).key_by(lambda pair: pair[0])
    counts.max(1).sink_to(sink(folder, _COUNTS, "text", "bigint")).uid("counts")


if __name__ == "__main__":
    sys.exit(run_main(lambda: run_job(build)))
