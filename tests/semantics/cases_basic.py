"""B1 and B4: one stream, record by record and key by key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.semantics.case import Case
from tidemill.common import Row, Types
from tidemill.datastream import (
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)

Env = StreamExecutionEnvironment

PAIRS = [("a", 3), ("b", 1), ("a", 1), ("c", 9), ("b", 5), ("a", 2), ("b", 5)]
TRIPLES = [("a", 3, "x"), ("a", 1, "y"), ("b", 4, "z"), ("a", 1, "w"), ("b", 7, "v"), ("a", 5, "u")]


def first(record: Any) -> Any:
    return record[0]


class Order(NamedTuple):
    user: str
    amount: int


class Scale(MapFunction):
    """Uses its runtime context."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.factor = 10 if runtime_context.get_number_of_parallel_subtasks() > 0 else 0

    def map(self, value: Any) -> Any:
        return value * self.factor


class Twice(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterable[Any]:
        yield value
        yield -value


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value % 2 == 0)


class FirstField(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class AddSecond(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


def rolling_sums(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    totals: dict[str, int] = {}
    result = []
    for key, number in pairs:
        totals[key] = totals.get(key, 0) + number
        result.append((key, totals[key]))
    return result


SUMS = rolling_sums(PAIRS)
FINAL_SUMS = list(dict(SUMS).items())


def add(one: Any, two: Any) -> Any:
    return one[0], one[1] + two[1]


def words(env: Env) -> DataStream:
    split = env.from_collection(["to be", "or not", "to be"]).flat_map(lambda line: line.split(), Types.STRING())
    return split.map(lambda word: (word, 1)).key_by(first).reduce(add)


def projected_rows(env: Env) -> DataStream:
    rows = env.from_collection([Row(id="a", n=1, x=True), Row(id="b", n=2, x=False)])
    return rows.project(1, 0).map(lambda row: (row["n"], row["id"]))


def count_up(value: Any, count: int | None) -> tuple[Any, int]:
    return (value[0], value[1], count or 0), (count or 0) + 1


def repeat(value: Any, last: int | None) -> tuple[list[Any], int | None]:
    # Forgets the key when its value is odd.
    return [(value[0], last)], None if value[1] % 2 else value[1]


def new_maximum(value: Any, most: int | None) -> tuple[bool, int]:
    return most is None or value[1] > most, value[1] if most is None else max(most, value[1])


CASES = [
    Case("map", lambda env: env.from_collection([1, 2, 3]).map(lambda n: n + 1), [2, 3, 4]),
    Case("map-rich-function", lambda env: env.from_collection([1, 2, 3]).map(Scale()), [10, 20, 30], spark=True),
    Case("map-to-none", lambda env: env.from_collection([1, 2]).map(lambda n: None), [None, None]),
    Case(
        "map-batch",
        lambda env: env.from_sequence(1, 9).map_batch(lambda ns: [n * n for n in ns]),
        [n * n for n in range(1, 10)],
    ),
    Case("flat_map", lambda env: env.from_collection([1, 2]).flat_map(Twice()), [1, -1, 2, -2], spark=True),
    Case(
        "flat_map-none-and-lists",
        lambda env: env.from_collection([0, 1, 2]).flat_map(lambda n: None if n == 0 else [n] * n),
        [1, 2, 2],
    ),
    Case("filter", lambda env: env.from_sequence(1, 6).filter(Even()), [2, 4, 6], spark=True),
    Case("filter-truthy", lambda env: env.from_collection(["a", "", "b"]).filter(lambda s: s), ["a", "b"]),
    Case("filter-all", lambda env: env.from_collection([1, 2]).filter(lambda n: False), []),
    Case(
        "project-tuples",
        lambda env: env.from_collection([("a", 1, True), ("b", 2, False)]).project(2, 0),
        [(True, "a"), (False, "b")],
    ),
    Case("project-rows", projected_rows, [(1, "a"), (2, "b")]),
    Case("word-count", words, [("to", 1), ("be", 1), ("or", 1), ("not", 1), ("to", 2), ("be", 2)], first, spark=True),
    Case("key_by-position", lambda env: env.from_collection(PAIRS).key_by(0).reduce(add), SUMS, first),
    Case(
        "key_by-field",
        lambda env: env.from_collection([Order(k, n) for k, n in PAIRS]).key_by("user").sum("amount").map(tuple),
        SUMS,
        first,
    ),
    Case(
        "key_by-nested-field",
        lambda env: (
            env.from_collection([{"user": {"id": k}, "n": n} for k, n in PAIRS])
            .key_by("user.id")
            .sum("n")
            .map(lambda record: (record["user"]["id"], record["n"]))
        ),
        SUMS,
        first,
        spark=True,
    ),
    Case(
        "key_by-row-field",
        lambda env: (
            env.from_collection([Row(k=k, n=n) for k, n in PAIRS])
            .key_by("k")
            .sum("n")
            .map(lambda row: (row["k"], row["n"]))
        ),
        SUMS,
        first,
    ),
    Case("key_by-selector", lambda env: env.from_collection(PAIRS).key_by(lambda r: r[0]).reduce(add), SUMS, first),
    Case(
        "key_by-key-selector",
        lambda env: env.from_collection(PAIRS).key_by(FirstField(), Types.STRING()).reduce(AddSecond()),
        SUMS,
        first,
        spark=True,
    ),
    Case(
        "typed-tuples",
        lambda env: env.from_collection(PAIRS, Types.TUPLE([Types.STRING(), Types.LONG()])).key_by(0).sum(1),
        SUMS,
        first,
    ),
    Case("sum", lambda env: env.from_collection(PAIRS).key_by(0).sum(1), SUMS, first, spark=True),
    Case(
        "sum-of-plain-values",
        lambda env: env.from_collection([1, 2, 3, 4]).key_by(lambda n: n % 2).sum(),
        [1, 2, 4, 6],
    ),
    Case(
        "min",
        lambda env: env.from_collection(TRIPLES).key_by(0).min(1),
        [("a", 3, "x"), ("a", 1, "x"), ("b", 4, "z"), ("a", 1, "x"), ("b", 4, "z"), ("a", 1, "x")],
        first,
    ),
    Case(
        "max",
        lambda env: env.from_collection(TRIPLES).key_by(0).max(1),
        [("a", 3, "x"), ("a", 3, "x"), ("b", 4, "z"), ("a", 3, "x"), ("b", 7, "z"), ("a", 5, "x")],
        first,
    ),
    Case(
        "min_by",
        lambda env: env.from_collection(TRIPLES).key_by(0).min_by(1),
        [("a", 3, "x"), ("a", 1, "y"), ("b", 4, "z"), ("a", 1, "y"), ("b", 4, "z"), ("a", 1, "y")],
        first,
    ),
    Case(
        "max_by",
        lambda env: env.from_collection(TRIPLES).key_by(0).max_by(1),
        [("a", 3, "x"), ("a", 3, "x"), ("b", 4, "z"), ("a", 3, "x"), ("b", 7, "v"), ("a", 5, "u")],
        first,
        spark=True,
    ),
    Case(
        "map_with_state",
        lambda env: env.from_collection(PAIRS).key_by(0).map_with_state(count_up, state_type=Types.LONG()),
        [("a", 3, 0), ("b", 1, 0), ("a", 1, 1), ("c", 9, 0), ("b", 5, 1), ("a", 2, 2), ("b", 5, 2)],
        first,
        spark=True,
    ),
    Case(
        "flat_map_with_state-forgets",
        lambda env: (
            env.from_collection([("a", 2), ("a", 4), ("a", 1), ("a", 6), ("b", 2)])
            .key_by(0)
            .flat_map_with_state(repeat)
        ),
        [("a", None), ("a", 2), ("a", 4), ("a", None), ("b", None)],
        first,
    ),
    Case(
        "filter_with_state",
        lambda env: env.from_collection(PAIRS).key_by(0).filter_with_state(new_maximum),
        [("a", 3), ("b", 1), ("c", 9), ("b", 5)],
        first,
    ),
    Case("batch-sum", lambda env: env.from_collection(PAIRS).key_by(0).sum(1), FINAL_SUMS, mode="BATCH", spark=True),
    Case("batch-reduce", lambda env: env.from_collection(PAIRS).key_by(0).reduce(add), FINAL_SUMS, mode="BATCH"),
    Case(
        "batch-two-aggregates-in-a-row",
        lambda env: env.from_collection(PAIRS).key_by(0).sum(1).map(lambda r: ("all", r[1])).key_by(0).sum(1),
        [("all", sum(n for _, n in PAIRS))],
        mode="BATCH",
    ),
    Case(
        "automatic-mode-of-bounded-input",
        lambda env: env.from_collection(PAIRS).key_by(0).sum(1),
        FINAL_SUMS,
        mode="AUTOMATIC",
    ),
    Case("empty-input", lambda env: env.from_collection([]).key_by(0).sum(1), []),
]
