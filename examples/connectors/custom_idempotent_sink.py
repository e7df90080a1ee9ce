"""A custom sink for a system in which writing twice is harmless: here, an SQLite table with a primary key.

Rows are written as they arrive, and nothing has to be committed. When an epoch runs again after a failure, its rows
overwrite the same keys. Readers may see a row before its epoch is committed; in the end each row exists once.

python -m examples.connectors.custom_idempotent_sink                   # on Spark
python -m examples.connectors.custom_idempotent_sink --target local    # in this process, without Spark
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tidemill.common import Configuration, Types
from tidemill.connectors.idempotent_sink import IdempotentSink, KeyedStore
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import RuntimeContext

WORDS = ["the", "sea", "the", "sky", "the", "sand", "a", "boat", "a", "bird", "the", "sea"]


class CountsSink(IdempotentSink):
    """Keeps the latest count of each word. Contains only attributes that can be sent to workers."""

    def __init__(self, database: str) -> None:
        super().__init__(key=lambda record: record[0])
        self.database = database

    def create_store(self) -> KeyedStore:
        return CountsTable(self.database)


class CountsTable(KeyedStore):
    """Opens one connection per subtask. Entries are durable at the end of the epoch."""

    def __init__(self, database: str) -> None:
        self.database = database

    def open(self, runtime_context: RuntimeContext) -> None:
        self.connection = sqlite3.connect(self.database, timeout=30)
        self.waiting: dict[Any, Any] = {}

    def put(self, entries: list[tuple[Any, Any]]) -> None:
        self.waiting.update(entries)

    def flush(self) -> None:
        with self.connection:
            self.connection.executemany("REPLACE INTO counts VALUES (?, ?)", self.waiting.values())
        self.waiting = {}

    def close(self) -> None:
        self.connection.close()


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, int]]:
    """Run the program and return the rows of the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    configuration = Configuration().set_string("execution.target", options.target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    with tempfile.TemporaryDirectory() as directory:
        database = str(Path(directory) / "counts.db")
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, count INTEGER)")
        counts = (
            env.from_collection(WORDS, Types.STRING())
            .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
            .key_by(0)
            .sum(1)
            .uid("counts")
        )
        counts.sink_to(CountsSink(database)).uid("table").name("table")
        env.execute("word counts")
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute("SELECT word, count FROM counts ORDER BY count DESC, word").fetchall()


if __name__ == "__main__":
    for word, count in main():
        print(f"{count} {word}")
