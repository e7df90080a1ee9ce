"""Built-in aggregates: what each of them does, and that they are data until an operator is built."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.datastream.test_keys_and_fields import Pair, Point, User
from tidemill.common import Row, Types
from tidemill.datastream import (
    EventTimeSessionWindows,
    KeyedStream,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidemill.datastream.functions.built_in import AggregateKind, BuiltIn
from tidemill.datastream.program.specs import FilterSpec, ReduceSpec, WindowSpec
from tidemill.errors import TypeMismatchError
from tidemill.runtime.operators.built_in import (
    Avg,
    BuiltInReduce,
    Count,
    Max,
    MaxBy,
    Min,
    MinBy,
    Sum,
    code_of,
    with_code,
)
from tidemill.testing import JobHarness, KeyedHarness


def rolling(function: BuiltInReduce, *values: Any) -> list[Any]:
    """What a rolling reduce emits."""
    state, out = None, []
    for value in values:
        state = value if state is None else function.reduce(state, value)
        out.append(state)
    return out


class TestRolling:
    def test_sum(self) -> None:
        assert rolling(Sum(1), ("a", 1), ("b", 2), ("c", 3)) == [("a", 1), ("a", 3), ("a", 6)]

    def test_min_keeps_the_other_fields_of_the_first_record(self) -> None:
        assert rolling(Min(1), ("a", 5), ("b", 2), ("c", 3)) == [("a", 5), ("a", 2), ("a", 2)]

    def test_max_keeps_the_other_fields_of_the_first_record(self) -> None:
        assert rolling(Max(1), ("a", 5), ("b", 7), ("c", 3)) == [("a", 5), ("a", 7), ("a", 7)]

    def test_min_by_takes_the_record_and_the_first_on_ties(self) -> None:
        assert rolling(MinBy(1), ("a", 5), ("b", 2), ("c", 2)) == [("a", 5), ("b", 2), ("b", 2)]

    def test_max_by_takes_the_record_and_the_first_on_ties(self) -> None:
        assert rolling(MaxBy(1), ("a", 5), ("b", 7), ("c", 7)) == [("a", 5), ("b", 7), ("b", 7)]

    @pytest.mark.parametrize(
        ("field", "one", "two", "result"),
        [
            (0, 1, 2, 3),
            (0, 1.5, 2, 3.5),
            (0, "a", "b", "ab"),
            (1, ["a", 1], ["b", 2], ["a", 3]),
            (1, Row("a", 1), Row("b", 2), Row("a", 3)),
            ("n", Row(id="a", n=1), Row(id="b", n=2), Row(id="a", n=3)),
            ("n", {"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}),
            ("n", Pair("a", 1), Pair("b", 2), Pair("a", 3)),
            ("y", Point(1, 2), Point(3, 4), Point(1, 6)),
            ("id", User("a", 1), User("b", 2), User("ab", 1)),
            ("a.n", {"a": {"n": 1, "k": 0}}, {"a": {"n": 2}}, {"a": {"n": 3, "k": 0}}),
            ("f1", ("a", 1), ("b", 2), ("a", 3)),
        ],
    )
    def test_every_shape_of_record_and_no_argument_is_changed(
        self, field: Any, one: Any, two: Any, result: Any
    ) -> None:
        before = pickle.dumps((one, two))
        combined = Sum(field).reduce(one, two)
        assert combined == result
        assert type(combined) is type(result)
        assert pickle.dumps((one, two)) == before

    def test_errors_name_the_aggregate(self) -> None:
        with pytest.raises(TypeMismatchError, match=r"sum\(3\).*tuple"):
            Sum(3).reduce((1, 2), (1, 2))
        with pytest.raises(TypeMismatchError, match=r"max\(1\).*int"):
            Max(1).reduce(1, 2)


# --- as data


@pytest.mark.parametrize("kind", AggregateKind)
def test_a_built_in_is_data_that_can_be_sent_and_compared(kind: AggregateKind) -> None:
    built_in = BuiltIn(kind, "n")
    assert pickle.loads(pickle.dumps(built_in)) == built_in
    assert kind.value in repr(built_in)


def test_fields_that_cannot_be() -> None:
    with pytest.raises(TypeError, match="The field position must be of int or str type"):
        BuiltIn(AggregateKind.SUM, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"bool.*avg"):
        BuiltIn(AggregateKind.AVG, True)
    with pytest.raises(TypeError, match=r"max_by.*NoneType"):
        BuiltIn(AggregateKind.MAX_BY)
    with pytest.raises(ValueError, match=r"min\(-1\): positions start at 0"):
        BuiltIn(AggregateKind.MIN, -1)


def test_the_code_of_each_kind_is_chosen_in_one_place() -> None:
    code = {kind: type(code_of(BuiltIn(kind, 1))) for kind in AggregateKind}
    assert code == {
        AggregateKind.SUM: Sum,
        AggregateKind.MIN: Min,
        AggregateKind.MAX: Max,
        AggregateKind.MIN_BY: MinBy,
        AggregateKind.MAX_BY: MaxBy,
        AggregateKind.COUNT: Count,
        AggregateKind.AVG: Avg,
    }
    reduce = with_code(ReduceSpec(BuiltIn(AggregateKind.SUM, 1))).function
    assert isinstance(reduce, Sum)
    assert reduce.field == 1
    window = with_code(WindowSpec("assigner", "trigger", reduce=BuiltIn(AggregateKind.MIN, 1)))
    assert isinstance(window.reduce, Min)
    assert window.assigner == "assigner"
    for theirs in (ReduceSpec(max), WindowSpec(None, None, reduce=max, aggregate=Count()), FilterSpec(bool)):
        assert with_code(theirs) == theirs


# --- at work


RECORDS = [("a", 3), ("b", 10), ("a", 5), ("a", 1), ("b", 11)]
EXPECTED: dict[str, list[Any]] = {
    "sum": [("a", 3), ("b", 10), ("a", 8), ("a", 9), ("b", 21)],
    "min": [("a", 3), ("b", 10), ("a", 3), ("a", 1), ("b", 10)],
    "max": [("a", 3), ("b", 10), ("a", 5), ("a", 5), ("b", 11)],
    "min_by": [("a", 3), ("b", 10), ("a", 3), ("a", 1), ("b", 10)],
    "max_by": [("a", 3), ("b", 10), ("a", 5), ("a", 5), ("b", 11)],
    "count": [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)],
    "avg": [("a", 3.0), ("b", 10.0), ("a", 4.0), ("a", 3.0), ("b", 10.5)],
}


def apply(stream: Any, name: str) -> Any:
    return stream.count() if name == "count" else getattr(stream, name)(1)


@pytest.mark.parametrize("name", EXPECTED)
def test_over_keys_across_a_checkpoint_and_a_restore(name: str) -> None:
    harness = KeyedHarness(lambda keyed: apply(keyed, name), key_selector=0)
    for record in RECORDS[:2]:
        harness.process(record, timestamp=record[1])
    harness.checkpoint()
    harness.process(RECORDS[2], timestamp=5)
    found, snapshot = harness.output_with_timestamps(), harness.snapshot()
    harness.close()
    with harness.restore(snapshot) as again:
        for record in RECORDS[3:]:
            again.process(record, timestamp=record[1])
        found += again.output_with_timestamps()
    assert found == list(zip(EXPECTED[name], [3, 10, 5, 1, 11], strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_in_batch_mode_only_the_last_value_of_a_key_comes_out(name: str) -> None:
    with KeyedHarness(lambda keyed: apply(keyed, name), key_selector=0, runtime_mode="BATCH") as harness:
        for record in RECORDS:
            harness.process(record)
        harness.end_input()
        assert sorted(harness.output()) == EXPECTED[name][3:]


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(100), SlidingEventTimeWindows.of(100, 100), EventTimeSessionWindows.with_gap(50)],
)
def test_over_windows(assigner: WindowAssigner, name: str) -> None:
    def build(keyed: KeyedStream) -> Any:
        return apply(keyed.window(assigner), name)

    with KeyedHarness(build, key_selector=0, types=[Types.TUPLE([Types.STRING(), Types.LONG()])]) as harness:
        for time, record in enumerate(RECORDS):
            harness.process(record, timestamp=time)
            if time == 2:
                harness.checkpoint()
        harness.watermark(1000)
        assert sorted(harness.output()) == EXPECTED[name][3:]


def test_without_keys_the_number_comes_out_alone() -> None:
    with JobHarness(
        lambda env, numbers: {
            "count": numbers.count_window_all(3).count(),
            "avg": numbers.count_window_all(3).avg(),
        },
        inputs=["numbers"],
    ) as job:
        job.epoch(numbers=[1, 2, 6, 100])
        assert job.output("count") == [3]
        assert job.output("avg") == [3.0]


def test_a_mean_is_of_the_type_that_division_gives() -> None:
    with KeyedHarness(lambda keyed: keyed.avg(), key_selector=lambda value: 0) as harness:
        for value in (Decimal(1), Decimal(2)):
            harness.process(value)
        assert harness.output() == [(0, Decimal(1)), (0, Decimal("1.5"))]


def test_a_record_without_the_field_fails_with_its_name() -> None:
    with (
        KeyedHarness(lambda keyed: keyed.avg(2), key_selector=0) as harness,
        pytest.raises(TypeMismatchError, match=r"avg\(2\).*has no position 2"),
    ):
        harness.process(("a", 1))
