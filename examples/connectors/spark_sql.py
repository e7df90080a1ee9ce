"""SQL before and after stateful Python: reads the DataFrame of a query, computes running totals, and queries them.

Run it with ``python -m examples.connectors.spark_sql``. It needs Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from pyspark.sql import SparkSession

from tidemill.common import Row, Types
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from tidemill.datastream.connectors.spark import SparkSink

ORDERS = [(1, "Ada", 30), (2, "Bob", 20), (3, "Ada", 12), (4, "Eve", 0), (5, "Bob", 5)]
TOTAL = "customer STRING, orders INT, total BIGINT"


class RunningTotal(KeyedProcessFunction):
    """Counts and adds up the orders of each customer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        pair = Types.TUPLE([Types.INT(), Types.LONG()])
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", pair))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        orders, total = self.seen.value() or (0, 0)
        self.seen.update((orders + 1, total + value.amount))
        yield Row(customer=value.customer, orders=orders + 1, total=total + value.amount)


def main() -> tuple[list[tuple[str, int, int]], int]:
    """Run the program twice.

    Returns the largest total of each customer, and the number of rows that a Spark writer wrote.
    """
    spark = SparkSession.builder.master("local[2,4]").appName("spark_sql").getOrCreate()
    spark.createDataFrame(ORDERS, "id LONG, customer STRING, amount LONG").createOrReplaceTempView("orders")
    paid = spark.sql("SELECT customer, amount FROM orders WHERE amount > 0").coalesce(1)

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    totals = env.from_dataframe(paid).key_by("customer").process(RunningTotal()).uid("totals")
    totals.to_dataframe(TOTAL).createOrReplaceTempView("totals")
    last = spark.sql("SELECT customer, max(orders), max(total) FROM totals GROUP BY customer ORDER BY customer")

    with tempfile.TemporaryDirectory() as folder:
        env.from_dataframe(paid).key_by("customer").process(RunningTotal()).uid("totals").sink_to(
            SparkSink.for_format("orc", TOTAL).partition_by("customer").save(folder)
        ).uid("orc")
        env.execute("totals by customer")
        return [tuple(row) for row in last.collect()], spark.read.orc(folder).count()


if __name__ == "__main__":
    totals, written = main()
    for customer, orders, total in totals:
        print(f"{customer}: {orders} orders, {total} in all")
    print(f"{written} rows in ORC files")
