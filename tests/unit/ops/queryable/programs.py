"""A program with every kind of queryable state, and a model of what it keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.common import Types
from tidemill.datastream import AggregateFunction, DataStream, KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

KINDS = ("value", "list", "map", "reducing", "aggregating")


class Mean(AggregateFunction):
    """The accumulator is (sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def descriptors() -> dict[str, StateDescriptor]:
    """One of each kind, queryable by the name of its kind."""
    found: dict[str, StateDescriptor] = {
        "value": ValueStateDescriptor("value-state", Types.LONG()),
        "list": ListStateDescriptor("list-state", Types.LONG()),
        "map": MapStateDescriptor("map-state", Types.STRING(), Types.LONG()),
        "reducing": ReducingStateDescriptor("reducing-state", lambda one, two: one + two, Types.LONG()),
        "aggregating": AggregatingStateDescriptor(
            "aggregating-state", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])
        ),
    }
    for name, descriptor in found.items():
        descriptor.set_queryable(name)
    return found


class Remember(KeyedProcessFunction):
    """A record is (key, n). 0 clears all; a negative number removes a map entry, and replaces the list."""

    def open(self, runtime_context: RuntimeContext) -> None:
        made: dict[str, Any] = descriptors()
        self.value = runtime_context.get_state(made["value"])
        self.list = runtime_context.get_list_state(made["list"])
        self.map = runtime_context.get_map_state(made["map"])
        self.reducing = runtime_context.get_reducing_state(made["reducing"])
        self.aggregating = runtime_context.get_aggregating_state(made["aggregating"])

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        n = value[1]
        if n == 0:
            for state in (self.value, self.list, self.map, self.reducing, self.aggregating):
                state.clear()
            return ()
        self.value.update(n)
        if n < 0:
            self.map.remove(str(-n % 3))
            self.list.update([n])
        else:
            self.map.put(str(n % 3), n)
            self.list.add(n)
        self.reducing.add(n)
        self.aggregating.add(n)
        return ()


def remember(_env: Any, records: DataStream) -> DataStream:
    return records.key_by(lambda record: record[0], Types.STRING()).process(Remember()).uid("remember")


Model = dict[str, dict[str, Any]]


def expected(records: Iterable[tuple[str, int]]) -> Model:
    """By kind and key, what is kept after all these records, as plain data; for "aggregating" the accumulator."""
    model: Model = {kind: {} for kind in KINDS}
    for key, n in records:
        if n == 0:
            for kept in model.values():
                kept.pop(key, None)
            continue
        model["value"][key] = n
        entries = model["map"].setdefault(key, {})
        if n < 0:
            entries.pop(str(-n % 3), None)
            model["list"][key] = [n]
        else:
            entries[str(n % 3)] = n
            model["list"].setdefault(key, []).append(n)
        if not entries:
            del model["map"][key]
        model["reducing"][key] = model["reducing"].get(key, 0) + n
        total, count = model["aggregating"].get(key, (0, 0))
        model["aggregating"][key] = total + n, count + 1
    return model
