"""B2, B3 and the shapes of graphs: several streams, exchanges, forks, diamonds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.semantics.case import Case
from tests.semantics.cases_basic import PAIRS, SUMS, add, first
from tidemill.common import Types
from tidemill.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

Env = StreamExecutionEnvironment
NUMBERS = list(range(1, 13))
ODD = OutputTag("odd", Types.LONG())
BIG = OutputTag("big", Types.STRING())


class ToText(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return f"number {value}"

    def map2(self, value: Any) -> Any:
        return None if value == "skip" else f"text {value}"


class Spread(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterable[Any]:
        for _ in range(value):
            yield value

    def flat_map2(self, value: Any) -> Iterable[Any]:
        yield from value.split()


class Label(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield 1, value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield 2, value
        yield BIG, str(value)


class Both(KeyedCoProcessFunction):
    """Counts the records of both sides in one state; emits when a key has its third."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        return self._count(ctx)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        return self._count(ctx)

    def _count(self, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        if self.seen.value() == 3:
            yield ctx.get_current_key()


class KeyedCounts(CoMapFunction):
    """Keyed state in a co-map."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def map1(self, value: Any) -> Any:
        self.seen.update((self.seen.value() or 0) + value[1])

    def map2(self, value: Any) -> Any:
        self.seen.update((self.seen.value() or 0) + value[1])


class Sort(ProcessFunction):
    """Odd numbers to one side, big ones to another, even ones to the main output."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value
        if value > 10:
            yield BIG, f"big {value}"


class WithSubtask(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return self.subtask, value


class ByRemainder(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return int(key % num_partitions)


def sides(env: Env) -> DataStream:
    sorted_ = env.from_collection(NUMBERS).process(Sort(), Types.LONG())
    odd = sorted_.get_side_output(ODD).map(lambda n: ("odd", n))
    big = sorted_.get_side_output(BIG).map(lambda text: ("big", text))
    return sorted_.map(lambda n: ("even", n)).union(odd, big)


def side_by_key(env: Env) -> DataStream:
    sorted_ = env.from_collection(NUMBERS).process(Sort()).set_parallelism(1)
    return sorted_.get_side_output(ODD).key_by(lambda n: n % 3).reduce(lambda one, two: one + two)


def side_sums() -> list[int]:
    totals: dict[int, int] = {}
    result = []
    for n in NUMBERS:
        if n % 2:
            totals[n % 3] = totals.get(n % 3, 0) + n
            result.append(totals[n % 3])
    return result


def split_select(env: Env) -> DataStream:
    split = env.from_collection(NUMBERS).split(lambda n: ["low"] if n < 4 else ["high", "all"] if n > 10 else ["all"])
    return split.select("low").map(lambda n: -n).union(split.select("high", "all"))


def co_processed(env: Env) -> DataStream:
    labelled = env.from_collection([1, 2]).connect(env.from_collection([3])).process(Label())
    return labelled.map(str).union(labelled.get_side_output(BIG))


def both_sides(env: Env) -> DataStream:
    one, two = env.from_collection(["a", "b", "c"]), env.from_collection(["a", "a", "b", "d"])
    return one.connect(two).key_by(lambda v: v, lambda v: v, Types.STRING()).process(Both())


def keyed_co_map(env: Env) -> DataStream:
    one, two = env.from_collection(PAIRS), env.from_collection(PAIRS)
    return one.key_by(0).connect(two.key_by(0)).map(KeyedCounts())


def diamond(env: Env) -> DataStream:
    numbers = env.from_collection(NUMBERS)
    plus = numbers.map(lambda n: ("x", n)).key_by(0).reduce(add).map(lambda r: ("plus", 1))
    minus = numbers.rebalance().map(lambda n: ("minus", 1))
    return plus.union(minus).key_by(0).sum(1)


def skipping(env: Env) -> DataStream:
    """One edge goes from level 0 to the last level, over two exchanges of the other branch."""
    pairs = env.from_collection(PAIRS)
    deep = pairs.key_by(0).sum(1).key_by(0).max(1).map(lambda r: ("deep", r[0], r[1]))
    return deep.rebalance().union(pairs.map(lambda r: ("flat", r[0], r[1])).rebalance()).filter(lambda r: True)


def sums_of_maxima() -> list[Any]:
    return [("deep", *pair) for pair in SUMS] + [("flat", *pair) for pair in PAIRS]


def several_sources(env: Env) -> DataStream:
    streams = [env.from_collection([(f"s{i}", n) for n in range(i + 2)]) for i in range(4)]
    return streams[0].union(*streams[1:]).key_by(0).map(lambda r: r)


def different_parallelism(env: Env) -> DataStream:
    pairs = env.from_collection(PAIRS).map(lambda r: r).set_parallelism(3)
    ones = pairs.map(lambda r: (r[0], 1)).set_parallelism(1)
    return ones.key_by(0).sum(1).set_parallelism(4).rescale().map(lambda r: r).set_parallelism(2)


def exchange_after_exchange(env: Env) -> DataStream:
    numbers = env.from_collection(NUMBERS).rebalance().map(lambda n: n).shuffle().map(lambda n: n)
    return numbers.rescale().map(lambda n: n).global_().map(lambda n: n).rebalance().filter(lambda n: n % 2 == 1)


def ones() -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    result = []
    for key, _ in PAIRS:
        counts[key] = counts.get(key, 0) + 1
        result.append((key, counts[key]))
    return result


def with_itself(env: Env) -> DataStream:
    numbers = env.from_collection([1, 2])
    return numbers.union(numbers)


def custom(env: Env) -> DataStream:
    spread = env.from_collection(NUMBERS).partition_custom(ByRemainder(), lambda n: n)
    return spread.map(WithSubtask()).set_parallelism(3).map(lambda r: (r[0] == r[1] % 3, r[1])).set_parallelism(3)


def spread_by(method: str) -> Any:
    def build(env: Env) -> DataStream:
        stream: DataStream = getattr(env.from_collection(NUMBERS), method)()
        return stream.map(lambda n: n * 2)

    return build


DOUBLED = [2 * n for n in NUMBERS]

CASES = [
    Case("union-of-two", lambda env: env.from_collection([1, 2]).union(env.from_collection([3])), [1, 2, 3]),
    Case(
        "union-of-three",
        lambda env: (
            env.from_collection([1, 2])
            .union(env.from_collection([3]), env.from_collection([4, 5, 6]))
            .map(lambda n: -n)
        ),
        [-1, -2, -3, -4, -5, -6],
        spark=True,
    ),
    Case("union-with-itself", with_itself, [1, 1, 2, 2]),
    Case(
        "co_map",
        lambda env: env.from_collection([1, 2]).connect(env.from_collection(["a", "skip"])).map(ToText()),
        ["number 1", "number 2", "text a"],
        spark=True,
    ),
    Case(
        "co_flat_map",
        lambda env: env.from_collection([2, 1]).connect(env.from_collection(["a b"])).flat_map(Spread()),
        [2, 2, 1, "a", "b"],
    ),
    Case("co_process", co_processed, ["(1, 1)", "(1, 2)", "(2, 3)", "3"]),
    Case("keyed-co_process", both_sides, ["a"], spark=True),
    Case("keyed-co_map", keyed_co_map, []),
    Case(
        "side-outputs",
        sides,
        [
            *(("even", n) for n in NUMBERS if n % 2 == 0),
            *(("odd", n) for n in NUMBERS if n % 2),
            ("big", "big 11"),
            ("big", "big 12"),
        ],
        spark=True,
    ),
    Case("side-output-keyed", side_by_key, side_sums()),
    Case("split-select", split_select, [-1, -2, -3, *range(4, 13)]),
    Case("shuffle", spread_by("shuffle"), DOUBLED),
    Case("rebalance", spread_by("rebalance"), DOUBLED, spark=True),
    Case("rescale", spread_by("rescale"), DOUBLED),
    Case("global", spread_by("global_"), DOUBLED, lambda n: 0),
    Case(
        "forward",
        lambda env: env.from_sequence(1, 12).forward().map(lambda n: n * 2).disable_chaining().forward().map(int),
        DOUBLED,
    ),
    Case(
        "broadcast",
        lambda env: env.from_collection(NUMBERS).broadcast().map(WithSubtask()).set_parallelism(3),
        [(subtask, n) for subtask in range(3) for n in NUMBERS],
        spark=True,
    ),
    Case("partition_custom", custom, [(True, n) for n in NUMBERS], spark=True),
    Case(
        "diamond",
        diamond,
        [(side, n) for side in ("plus", "minus") for n in range(1, 13)],
        first,
        spark=True,
    ),
    Case("skip-level-edge", skipping, sums_of_maxima(), spark=True),
    Case(
        "several-sources",
        several_sources,
        [(f"s{i}", n) for i in range(4) for n in range(i + 2)],
        first,
    ),
    Case("different-parallelism", different_parallelism, ones(), spark=True),
    Case("exchange-after-exchange", exchange_after_exchange, [n for n in NUMBERS if n % 2], spark=True),
]
