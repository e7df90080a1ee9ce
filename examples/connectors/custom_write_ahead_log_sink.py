"""A custom exactly-once sink, for a system whose transactions end with the process that started them.

Records are first written to a log next to the job's checkpoints. After an epoch is committed, the records of its
subtasks are delivered to the destination: here, an SQLite table. A single transaction inserts the rows and advances a
mark that records the progress. A delivery that is repeated or delayed therefore changes nothing.

python -m examples.connectors.custom_write_ahead_log_sink                   # on Spark
python -m examples.connectors.custom_write_ahead_log_sink --target local    # in this process, without Spark
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tidemill.common import Configuration
from tidemill.connectors.write_ahead_log import Delivery, Destination, Mark, WriteAheadLogSink
from tidemill.datastream import StreamExecutionEnvironment

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER, amount INTEGER);
CREATE TABLE IF NOT EXISTS marks (job TEXT, operator TEXT, subtask INTEGER, mark TEXT,
                                  PRIMARY KEY (job, operator, subtask));
"""


class OrdersSink(WriteAheadLogSink):
    """Writes orders as rows of a table. Contains only attributes that can be sent to workers."""

    def __init__(self, database: str) -> None:
        self.database = database

    def encode(self, values: list[Any], timestamps: list[int] | None) -> bytes:
        """In the subtask: serialize a batch of orders for the log."""
        return json.dumps(values).encode()

    def create_destination(self) -> Destination:
        """On the driver, or on a worker if there is a lot of data to deliver."""
        return OrdersTable(self.database)


class OrdersTable(Destination):
    """Applies each delivery in one transaction."""

    def __init__(self, database: str) -> None:
        self.database = database

    def deliver(self, delivery: Delivery) -> None:
        place = (delivery.job_id, delivery.operator_uid, delivery.subtask)
        with closing(sqlite3.connect(self.database, timeout=30, isolation_level=None)) as connection:
            connection.executescript(TABLES)
            connection.execute("BEGIN IMMEDIATE")  # so that the mark cannot change between our read and our write
            stored = connection.execute(
                "SELECT mark FROM marks WHERE job = ? AND operator = ? AND subtask = ?", place
            ).fetchone()
            if not delivery.covered_by(None if stored is None else Mark.from_text(stored[0])):
                for batch in delivery.batches():
                    connection.executemany("INSERT INTO orders VALUES (?, ?)", json.loads(batch))
                connection.execute("REPLACE INTO marks VALUES (?, ?, ?, ?)", (*place, delivery.mark.to_text()))
            connection.execute("COMMIT")


def main(arguments: Sequence[str] | None = None) -> tuple[int, int]:
    """Run the program and return the number of orders in the table and their total amount."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    configuration = Configuration().set_string("execution.target", options.target)
    configuration.set_string("execution.epoch.max-records", "40")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    with tempfile.TemporaryDirectory() as directory:
        database = str(Path(directory) / "orders.db")
        orders = env.from_sequence(1, 100).map(lambda number: (number, 10 * number))
        orders.sink_to(OrdersSink(database)).uid("orders").name("orders")
        env.execute("orders")
        with closing(sqlite3.connect(database)) as connection:
            count, total = connection.execute("SELECT count(*), sum(amount) FROM orders").fetchone()
    return count, total


if __name__ == "__main__":
    print("{} orders, {} in all".format(*main()))
