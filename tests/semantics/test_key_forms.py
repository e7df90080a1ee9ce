"""Keys of a declared type are the same keys whatever form they are given in, before and after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Row, Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream import DataStream, KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor
from tidemill.testing import JobHarness, KeyedHarness

UNNAMED = Types.ROW([Types.DOUBLE(), Types.LONG()])
NAMED = Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), Types.LONG()])
PAIR = Types.TUPLE([Types.DOUBLE(), Types.LONG()])
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())

#: A type, forms that its keys are given in, and the one that functions find.
FORMS: list[tuple[TypeInformation, list[Any], Any]] = [
    (UNNAMED, [(1, 2), Row(1, 2), Row(1.0, 2)], Row(1.0, 2)),
    (NAMED, [(1, 2), Row(1, 2), Row(a=1, b=2)], Row(a=1.0, b=2)),
    (PAIR, [(1, 2), Row(1, 2)], (1.0, 2)),
    (BYTES, [(1, 2), b"\x01\x02"], b"\x01\x02"),
]


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update(self.count.value() + 1)
        yield self.count.value(), ctx.get_current_key()


class CountEntries(KeyedProcessFunction):
    def __init__(self, key_type: TypeInformation) -> None:
        self.key_type = key_type

    def open(self, runtime_context: Any) -> None:
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", self.key_type, Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.counts.put(value, (self.counts.get(value) or 0) + 1)
        yield self.counts.get(value), list(self.counts.keys())


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("key_type", "forms", "found"), FORMS, ids=str)
def test_state_is_found_by_any_form_of_a_key(
    backend: str, key_type: TypeInformation, forms: list[Any], found: Any, tmp_path: Path
) -> None:
    def by_key(env: Any, records: DataStream) -> DataStream:
        return records.key_by(lambda value: value, key_type).process(Count()).uid("count")

    def by_entry(env: Any, records: DataStream) -> DataStream:
        return records.key_by(lambda value: 0).process(CountEntries(key_type)).uid("count")

    settings = {"state.backend.type": backend, "state.backend.rocksdb.localdir": str(tmp_path)}
    for build, seen in ((by_key, found), (by_entry, [found])):
        with JobHarness(build, inputs=["records"], parallelism=2, configuration=settings) as job:
            job.epoch(records=forms)
            job.epoch(records=forms)
            job.restart()
            job.epoch(records=forms)
            assert job.output() == [(count + 1, seen) for count in range(3 * len(forms))]


def test_a_key_that_is_a_field() -> None:
    with KeyedHarness(
        lambda records: records.process(Count()), key_selector=lambda value: value[0], key_type=NAMED
    ) as harness:
        harness.process((Row(1, 2), "x"))
        harness.process((Row(a=1, b=2), "y"))
        assert harness.output() == [(1, Row(a=1.0, b=2)), (2, Row(a=1.0, b=2))]
    with JobHarness(
        lambda env, records: records.key_by(0, NAMED).process(Count()), inputs=["records"], parallelism=3
    ) as job:
        job.epoch(records=[(Row(1, 2), "x"), ((1, 2), "y")])
        assert [count for count, _ in job.output()] == [1, 2]


def test_a_key_that_its_type_does_not_describe_is_refused_where_it_is_stored() -> None:
    def build(env: Any, records: DataStream) -> DataStream:
        return records.key_by(lambda value: value, NAMED).process(Count()).uid("count")

    with (
        JobHarness(build, inputs=["records"]) as job,
        pytest.raises(Exception, match=r"(?s)cannot be stored|expected"),
    ):
        job.epoch(records=[Row(1, 2), "text"])
