"""Reads a database table in partitions, computes totals, and upserts them into another table.

The database is an SQLite file, so nothing has to be installed. With the URL of a PostgreSQL server, the program is the
same.

python -m examples.connectors.jdbc_orders                   # on Spark
python -m examples.connectors.jdbc_orders --target local    # in this process, without Spark
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from examples.support.target import environment
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink, JdbcSource

ORDERS = [("Ada", 30), ("Bob", 20), ("Ada", 12), ("Eve", 7), ("Bob", 5), ("Ada", 1)]
ORDER = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])
TOTAL = Types.ROW_NAMED(["customer", "total"], [Types.STRING(), Types.LONG()])


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, int]]:
    """Run the program and return the rows of the table of totals."""
    env = environment(__doc__, arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, amount INTEGER)")
            database.execute("CREATE TABLE totals (customer TEXT PRIMARY KEY, total INTEGER)")
            database.executemany("INSERT INTO orders (customer, amount) VALUES (?, ?)", ORDERS)

        url = f"jdbc:sqlite:{path}"
        orders = (
            JdbcSource.builder()
            .set_db_url(url)
            .set_table("orders")
            .set_type_information(ORDER)
            .set_partitions("id", 3)
            .build()
        )
        options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()
        totals = (
            env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders")
            .map(lambda order: (order[1], order[2]), Types.TUPLE([Types.STRING(), Types.LONG()]))
            .key_by(0)
            .sum(1)
            .uid("totals")
        )
        totals.sink_to(JdbcSink.upsert("totals", ["customer"], TOTAL, options)).uid("totals-sink")
        env.execute("totals per customer")

        with closing(sqlite3.connect(path)) as database:
            return database.execute("SELECT customer, total FROM totals ORDER BY customer").fetchall()


if __name__ == "__main__":
    for customer, total in main():
        print(f"{customer} {total}")
