"""Operators on one stream: aggregates, results of functions, side outputs, async I/O, BATCH mode, printing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from tests.semantics.differential.program import Program, shown
from tidemill.common import Instant, Row, RowKind, Time, Types
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeySelector,
    OutputTag,
    ProcessFunction,
)

TRIPLE = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
NAMED = Types.ROW_NAMED(["k", "n", "x"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
ROW = Types.ROW([Types.STRING(), Types.LONG(), Types.DOUBLE()])
TRIPLES = [("a", 3, 0.5), ("a", 1, 2.5), ("b", 4, 1.0), ("a", 1, 0.25), ("b", 7, -1.0), ("a", 5, 0.5)]

# --- aggregates

FORMS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "tuple": (TRIPLE, tuple),
    "row": (ROW, lambda t: Row(*t)),
    "named": (NAMED, lambda t: Row(k=t[0], n=t[1], x=t[2])),
    "untyped-tuple": (None, tuple),
    "untyped-row": (None, lambda t: Row(k=t[0], n=t[1], x=t[2])),
    "untyped-list": (None, list),
}
AGGREGATES = ("sum", "min", "max", "min_by", "max_by")


def aggregated(form: str, method: str, by: Any, env: Any) -> Any:
    kind, made = FORMS[form]
    stream = (
        env.from_collection(list(map(made, TRIPLES)), kind) if kind else env.from_collection(list(map(made, TRIPLES)))
    )
    keyed = stream.key_by(lambda t: t[0], Types.STRING())
    return (getattr(keyed, method)(by) if by is not None else getattr(keyed, method)()).map(shown, Types.STRING())


def of_numbers(method: str, env: Any) -> Any:
    keyed = env.from_collection([3, 1, 2], Types.LONG()).key_by(lambda n: 0, Types.INT())
    return getattr(keyed, method)().map(shown, Types.STRING())


def of_odd(values: list[Any], method: str, env: Any) -> Any:
    keyed = env.from_collection([(0, value) for value in values]).key_by(lambda t: t[0], Types.INT())
    return getattr(keyed, method)(1).map(shown, Types.STRING())


ODD: dict[str, list[Any]] = {
    "text": ["b", "a", "c"],
    "none": [1, None, 2],
    "bool": [True, True],
    "mixed": [1, 0.5, 2],
    "decimal": [Decimal("1.5"), Decimal("0.5")],
    "numpy": [np.int64(2), np.int64(1)],
    "equal": [1, 1.0, True],
}


# --- results of functions


class Twice(ProcessFunction):
    def __init__(self, result: Callable[[Any], Any]) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.result(value)


def generated(value: Any) -> Iterable[Any]:
    yield value
    yield value


RESULTS: dict[str, Callable[[Any], Any]] = {
    "none": lambda v: None,
    "list": lambda v: [v, v],
    "tuple": lambda v: (v, v),
    "empty": lambda v: [],
    "generator": generated,
    "iterator": lambda v: iter([v, v]),
    "dict": lambda v: {v: 1},
    "text": lambda v: "ab",
    "number": lambda v: 7,
    "row": lambda v: Row(v, v),
    "range": lambda v: range(2),
    "numpy": lambda v: np.array([1, 2]),
    "list-of-none": lambda v: [None, v],
    "true": lambda v: True,
    "false": lambda v: False,
    "zero": lambda v: 0,
    "numpy-true": lambda v: np.bool_(True),
}


def resulting(method: str, typed: bool, result: Callable[[Any], Any], env: Any) -> Any:
    stream = env.from_collection(["x", "y"], Types.STRING())
    kind = (Types.STRING(),) if typed else ()
    if method == "filter":
        found = stream.filter(result)
    elif method == "process":
        found = stream.process(Twice(result), *kind)
    else:
        found = getattr(stream, method)(result, *kind)
    return found.map(shown, Types.STRING())


# --- keys


class First(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


KEYS: dict[str, Callable[[Any], Any]] = {
    "text": lambda t: t[0],
    "none": lambda t: None,
    "bool-and-number": lambda t: t[1] == 1 or 0,
    "float": lambda t: t[2],
    "numpy": lambda t: np.int64(t[1]),
    "tuple": lambda t: (t[0], t[1]),
    "list": lambda t: [t[0]],
    "dict": lambda t: {"k": t[0]},
    "row": lambda t: Row(t[0], t[1]),
    "named-row": lambda t: Row(k=t[0]),
    "bytes": lambda t: t[0].encode(),
    "set": lambda t: {t[0]},
    "nan": lambda t: float("nan"),
    "large": lambda t: 2**70 + t[1],
    "date": lambda t: dt.date(2024, 1, t[1]),
}


def counted_by(key: Callable[[Any], Any], kind: Any, env: Any) -> Any:
    ones = env.from_collection(TRIPLES, TRIPLE)
    keyed = ones.key_by(key, kind) if kind else ones.key_by(key)
    return keyed.reduce(lambda a, b: (a[0], a[1] + b[1], a[2])).map(shown, Types.STRING())


# --- side outputs

EVEN, NUMBERS, PAIRS = OutputTag("even", Types.LONG()), OutputTag("numbers"), OutputTag("pairs", TRIPLE)


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if value[1] % 2 == 0:
            yield EVEN, value[1]
        yield NUMBERS, value[2]
        yield PAIRS, value
        yield value[0]


def split_of(env: Any) -> tuple[Any, dict[Any, Any]]:
    """The stream with all of its side outputs: PyFlink emits to the main output what nothing reads."""
    split = env.from_collection(TRIPLES, TRIPLE).process(Split(), Types.STRING())
    return split, {tag.tag_id: split.get_side_output(tag) for tag in (EVEN, NUMBERS, PAIRS)}


def side_output(tag: Any, env: Any) -> Any:
    split, sides = split_of(env)
    return (split if tag is None else sides[tag.tag_id]).map(shown, Types.STRING())


def side_of_wrong_type(env: Any) -> Any:
    class Wrong(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
            yield EVEN, value[2]

    split = env.from_collection(TRIPLES, TRIPLE).process(Wrong(), Types.STRING())
    return split.get_side_output(EVEN).map(shown, Types.STRING())


def sides_together(env: Any) -> Any:
    split, sides = split_of(env)
    return split.union(sides[EVEN.tag_id].map(str, Types.STRING()))


# --- async


class Lookup(AsyncFunction):
    def __init__(self, result: Callable[[Any], Any]) -> None:
        self.result = result

    async def async_invoke(self, value: Any) -> Any:
        return self.result(value)

    def timeout(self, value: Any) -> Any:
        return ["late"]


def asynchronous(ordered: bool, result: Callable[[Any], Any], env: Any) -> Any:
    stream = env.from_collection(["x", "y"], Types.STRING())
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    return wait(stream, Lookup(result), Time.seconds(30), 10, Types.STRING()).map(shown, Types.STRING())


# --- printing

PRINTED: dict[str, tuple[Callable[[], Any] | None, list[Any]]] = {
    "text": (Types.STRING, ["a", "", "ü"]),
    "int": (Types.INT, [1, -1]),
    "long": (Types.LONG, [2**40]),
    "float": (Types.FLOAT, [0.1, 1e10, 1e-10, 3.0, 1.5]),
    "double": (Types.DOUBLE, [0.1, 1e10, 1e-10, 1e7, 123456.789, 3.0, float("nan"), float("inf"), -0.0]),
    "boolean": (Types.BOOLEAN, [True, False]),
    "byte": (Types.BYTE, [1]),
    "short": (Types.SHORT, [300]),
    "big-int": (Types.BIG_INT, [2**70]),
    "decimal": (Types.BIG_DEC, [Decimal("1.50"), Decimal("1E+3"), Decimal("1E-10")]),
    "date": (Types.SQL_DATE, [dt.date(2024, 2, 29)]),
    "time": (Types.SQL_TIME, [dt.time(1, 2, 3), dt.time(1, 2, 3, 456000)]),
    "timestamp": (Types.SQL_TIMESTAMP, [dt.datetime(2024, 2, 29, 1, 2, 3, 456789), dt.datetime(2024, 2, 29)]),
    "instant": (Types.INSTANT, [Instant(1700000000, 5), Instant(0, 0)]),
    "tuple": (lambda: Types.TUPLE([Types.STRING(), Types.INT()]), [("a", 1)]),
    "tuple-nested": (lambda: Types.TUPLE([Types.TUPLE([Types.INT()]), Types.DOUBLE()]), [((1,), 0.5)]),
    "row": (lambda: Types.ROW([Types.STRING(), Types.INT()]), [Row("a", 1), Row(None, None)]),
    "row-named": (lambda: Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()]), [Row("a", 1)]),
    "row-kind": (
        lambda: Types.ROW([Types.INT()]),
        [Row.of_kind(RowKind.DELETE, 1), Row.of_kind(RowKind.UPDATE_AFTER, 2)],
    ),
    "list": (lambda: Types.LIST(Types.INT()), [[1, 2], []]),
    "map": (lambda: Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, {}]),
    "primitive-array": (lambda: Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2]]),
    "basic-array": (lambda: Types.BASIC_ARRAY(Types.STRING()), [["a", "b"]]),
    "object-array": (lambda: Types.OBJECT_ARRAY(Types.STRING()), [["a", "b"]]),
    "untyped-text": (None, ["a"]),
    "untyped-int": (None, [1]),
    "untyped-float": (None, [0.1, 1e20]),
    "untyped-boolean": (None, [True]),
    "untyped-none": (None, [1, None]),
    "untyped-tuple": (None, [("a", 1)]),
    "untyped-list": (None, [[1, "a"]]),
    "untyped-dict": (None, [{"a": 1}]),
    "untyped-row": (None, [Row("a", 1), Row(k="a", n=1)]),
    "untyped-decimal": (None, [Decimal("1.50")]),
    "untyped-datetime": (None, [dt.datetime(2024, 2, 29, 1, 2, 3)]),
    "untyped-bytes": (None, [b"ab"]),
}


def printed(kind: Callable[[], Any] | None, values: list[Any], env: Any) -> Any:
    numbers = env.from_collection(list(range(len(values))), Types.INT())
    return numbers.map(lambda n: values[n], kind()) if kind else numbers.map(lambda n: values[n])


# --- streams


def plain(env: Any, values: list[Any] | None = None) -> Any:
    return env.from_collection(TRIPLES if values is None else values, TRIPLE)


STREAMS: dict[str, Callable[[Any], Any]] = {
    "project": lambda env: plain(env).project(1, 0).map(shown, Types.STRING()),
    "project-row": lambda env: (
        env.from_collection([Row(*t) for t in TRIPLES], NAMED).project(2).map(shown, Types.STRING())
    ),
    "project-none": lambda env: plain(env).project().map(shown, Types.STRING()),
    "project-negative": lambda env: plain(env).project(-1).map(shown, Types.STRING()),
    "project-too-far": lambda env: plain(env).project(3).map(shown, Types.STRING()),
    "project-untyped": lambda env: env.from_collection(TRIPLES).project(0).map(shown, Types.STRING()),
    "union": lambda env: plain(env).union(plain(env)).map(shown, Types.STRING()),
    "union-of-types": lambda env: plain(env).union(env.from_collection([1], Types.LONG())).map(shown, Types.STRING()),
    "union-untyped": lambda env: plain(env).union(env.from_collection([1])).map(shown, Types.STRING()),
    "shuffle": lambda env: plain(env).shuffle().map(shown, Types.STRING()),
    "broadcast": lambda env: plain(env).broadcast().map(shown, Types.STRING()),
    "global": lambda env: plain(env).rescale().forward().map(shown, Types.STRING()),
    "partition-custom": lambda env: (
        plain(env).partition_custom(lambda k, n: k % n, lambda t: t[1]).map(shown, Types.STRING())
    ),
    "reduce": lambda env: (
        plain(env).key_by(First()).reduce(lambda a, b: (a[0], a[1] + b[1], 0.0)).map(shown, Types.STRING())
    ),
    "reduce-changes-type": lambda env: (
        plain(env).key_by(First()).reduce(lambda a, b: [a[0], 1.5, 2]).map(shown, Types.STRING())
    ),
    "reduce-one": lambda env: (
        env.from_collection([("a", 1, 1.0)], TRIPLE)
        .key_by(First())
        .reduce(lambda a, b: None)
        .map(shown, Types.STRING())
    ),
    "empty": lambda env: env.from_collection([], Types.STRING()).map(shown, Types.STRING()),
    "sequence": lambda env: env.from_sequence(1, 5).map(shown, Types.STRING()),
    "sequence-empty": lambda env: env.from_sequence(5, 1).map(shown, Types.STRING()),
    "sequence-one": lambda env: env.from_sequence(5, 5).map(shown, Types.STRING()),
    "collection-of-types": lambda env: env.from_collection([1, "a", None, 2.5, (1,), [1], {"a": 1}]).map(
        shown, Types.STRING()
    ),
    "collection-of-none": lambda env: env.from_collection([None, "a"], Types.STRING()).map(shown, Types.STRING()),
    "collection-of-none-int": lambda env: env.from_collection([None, 1], Types.INT()).map(shown, Types.STRING()),
    "map-none-typed": lambda env: plain(env).map(lambda t: None, Types.STRING()).map(shown, Types.STRING()),
    "map-none-int": lambda env: plain(env).map(lambda t: None, Types.INT()).rebalance().map(shown, Types.STRING()),
    "raises": lambda env: plain(env).map(lambda t: 1 // 0, Types.INT()),
    "filter-raises": lambda env: plain(env).filter(lambda t: t[9]),
}

PROGRAMS = [
    *(
        Program(f"results-{method}-{name}", partial(resulting, method, True, result))
        for method in ("map", "flat_map", "process", "filter")
        for name, result in RESULTS.items()
    ),
    *(
        Program(f"results-{method}-{name}-untyped", partial(resulting, method, False, result))
        for method in ("map", "flat_map")
        for name, result in RESULTS.items()
    ),
    *(Program(f"keys-{name}", partial(counted_by, key, None)) for name, key in KEYS.items()),
    *(Program(f"keys-{name}-batch", partial(counted_by, key, None), batch=True) for name, key in KEYS.items()),
    *(
        Program(f"keys-typed-{name}", partial(counted_by, KEYS[name], kind))
        for name, kind in {
            "text": Types.STRING(),
            "none": Types.STRING(),
            "float": Types.INT(),
            "numpy": Types.LONG(),
            "tuple": Types.ROW([Types.STRING(), Types.LONG()]),
            "row": Types.TUPLE([Types.STRING(), Types.LONG()]),
            "list": Types.LIST(Types.STRING()),
            "bool-and-number": Types.BOOLEAN(),
        }.items()
    ),
    Program("side-outputs-main", partial(side_output, None)),
    Program("side-outputs-typed", partial(side_output, EVEN)),
    Program("side-outputs-untyped", partial(side_output, NUMBERS)),
    Program("side-outputs-tuples", partial(side_output, PAIRS)),
    Program("side-outputs-batch", partial(side_output, PAIRS), batch=True),
    Program("side-outputs-wrong-type", side_of_wrong_type),
    Program("side-outputs-together", sides_together),
    *(
        Program(
            f"async-{'ordered' if ordered else 'unordered'}-{name}",
            partial(asynchronous, ordered, RESULTS[name]),
            ordered=ordered,
        )
        for ordered in (True, False)
        for name in ("list", "tuple", "empty", "none", "text", "generator", "number")
    ),
    *(
        Program(f"printed-{name}", partial(printed, kind, values), ordered=True, printed=True)
        for name, (kind, values) in PRINTED.items()
    ),
    *(Program(f"streams-{name}", build) for name, build in STREAMS.items()),
    *(
        Program(f"streams-{name}-batch", STREAMS[name], batch=True)
        for name in ("reduce", "union", "reduce-one", "project")
    ),
    *(
        Program(f"aggregates-{form}-{method}-{by}", partial(aggregated, form, method, by))
        for form in FORMS
        for method in AGGREGATES
        for by in (1, *(["n"] if form in ("named", "untyped-row") else []))
    ),
    *(
        Program(f"aggregates-{form}-{method}-default", partial(aggregated, form, method, None))
        for form in ("tuple", "named")
        for method in ("min", "max_by")
    ),
    *(
        Program(f"aggregates-tuple-sum-{by}", partial(aggregated, "tuple", "sum", by))
        for by in (-1, 2, 3, "x", 1.0, True)
    ),
    *(Program(f"aggregates-named-sum-{by}", partial(aggregated, "named", "sum", by)) for by in ("x", "k", "none")),
    *(Program(f"aggregates-numbers-{method}", partial(of_numbers, method)) for method in AGGREGATES),
    *(
        Program(f"aggregates-of-{name}-{method}", partial(of_odd, values, method))
        for name, values in ODD.items()
        for method in AGGREGATES
    ),
    *(
        Program(f"aggregates-{form}-{method}-batch", partial(aggregated, form, method, 1), batch=True)
        for form in ("tuple", "named")
        for method in AGGREGATES
    ),
]
