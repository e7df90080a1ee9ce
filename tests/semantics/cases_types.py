"""Declared types: readers find records in the form of the type, in the same chain and behind an exchange."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.semantics.case import Case
from tidemill.common import Row, Types, WatermarkStrategy
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.connectors.number_seq import NumberSequenceSource

Env = StreamExecutionEnvironment

ORDER = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.DOUBLE()])
REFUSED = OutputTag("refused", Types.ROW([Types.STRING(), Types.LONG()]))


class Total(KeyedProcessFunction):
    """Reads fields by name, and puts out rows that have none."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.DOUBLE()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.sum.update((self.sum.value() or 0.0) + value.amount)
        yield Row(value.user, self.sum.value())


class Refuse(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield REFUSED, ("late", value)


def named_rows(env: Env) -> DataStream:
    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
    orders = pairs.map(lambda pair: Row(pair[0], pair[1]), ORDER).set_parallelism(1)
    totals = orders.key_by(lambda order: order.user, Types.STRING()).process(Total(), ORDER)
    return totals.map(lambda total: (total.user, total.amount, total))


def other_forms(env: Env) -> DataStream:
    given = env.from_collection([0, 1, 2, 3]).map(
        lambda n: [("a", 1), ["b", 2], {"user": "c", "amount": 3}, Row(amount=4, user="d")][n], ORDER
    )
    return given.rebalance().map(repr)


def pairs_and_lists(env: Env) -> DataStream:
    pair = Types.TUPLE([Types.STRING(), Types.LIST(Types.DOUBLE())])
    return env.from_collection([["a", (1, 2)], ["b", ()]]).map(lambda given: given, pair).rebalance().map(repr)


def side_output(env: Env) -> DataStream:
    return env.from_collection([7, 8]).process(Refuse()).get_side_output(REFUSED).map(lambda row: (row.f0, row.f1))


def source(env: Env) -> DataStream:
    numbers = NumberSequenceSource(1, 2)
    return env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers", Types.DOUBLE()).map(repr)


CASES = [
    Case(
        "types-rows-have-the-names-of-their-type",
        named_rows,
        [
            ("a", 1.0, Row(user="a", amount=1.0)),
            ("b", 2.0, Row(user="b", amount=2.0)),
            ("a", 4.0, Row(user="a", amount=4.0)),
        ],
        key=lambda record: record[0],
        spark=True,
    ),
    Case(
        "types-rows-from-other-forms",
        other_forms,
        [f"Row(user='{user}', amount={amount})" for user, amount in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0))],
    ),
    Case("types-tuples-and-lists", pairs_and_lists, ["('a', [1.0, 2.0])", "('b', [])"]),
    Case("types-of-a-source", source, ["1.0", "2.0"]),
    Case("types-of-side-outputs", side_output, [("late", 7), ("late", 8)]),
]
