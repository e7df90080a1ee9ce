"""The user functions of the simulation's programs."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final

from tidemill.common.typeinfo import Types
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.basic import AggregateFunction, FlatMapFunction, MapFunction
from tidemill.datastream.functions.broadcast import KeyedBroadcastProcessFunction
from tidemill.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from tidemill.datastream.functions.process import KeyedCoProcessFunction, KeyedProcessFunction
from tidemill.datastream.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.datastream.output_tag import OutputTag

#: The random generator of random functions. A simulation seeds it, so results differ only if the order of calls
#: differs.
DICE: Final = random.Random()
#: ``Everything`` reports keys that have no records for this time.
_SILENCE: Final = 90


class Mean(AggregateFunction):
    """Computes sum and count as an immutable pair."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Everything(KeyedProcessFunction):
    """Uses all five kinds of state with puts, appends, removes and clears; sets, moves and fires timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG(), default_value=-1))
        self.some = runtime_context.get_list_state(ListStateDescriptor("some", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))
        self.silent = runtime_context.get_map_state(MapStateDescriptor("silent", Types.LONG(), Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, time, number = value
        before = self.last.value()
        if number % 5 == 0:
            self.last.clear()
            self.some.clear()
            self.seen.remove(number % 3)
        else:
            self.last.update(number)
        if number % 11 == 0:
            self.seen.clear()
            self.some.update([number, number])
        self.some.add(number)
        self.seen.put(number % 4, (self.seen.get(number % 4) or 0) + 1)
        self.most.add(number % 100)
        self.mean.add(number % 10)
        self._expect(time, ctx)
        seen = tuple(self.seen.items())
        yield "record", key, number, before, tuple(self.some.get()), seen, self.most.get(), self.mean.get()

    def _expect(self, time: int, ctx: KeyedProcessFunction.Context) -> None:
        """Move the timer of the key. Only timers later than this record are considered: they cannot have fired yet."""
        due = time + _SILENCE
        for other in [other for other in self.silent if time < other <= due]:
            self.silent.remove(other)
            ctx.timer_service().delete_event_time_timer(other)
        if not any(other > due for other in self.silent):
            self.silent.put(due, True)
            ctx.timer_service().register_event_time_timer(due)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        self.silent.remove(timestamp)
        yield "silent", ctx.get_current_key(), timestamp


class WindowSum(KeyedProcessFunction):
    """Implements fixed-size windows with timers: emits the sum and count of each window at its end."""

    def __init__(self, size: int) -> None:
        self.size = size

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.LONG(), Types.LONG()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        # The timestamp of records that a timer emits is the last millisecond of its window.
        end = ((ctx.timestamp() or 0) // self.size + 1) * self.size - 1
        self.sums.put(end, (self.sums.get(end) or 0) + value[2])
        self.counts.put(end, (self.counts.get(end) or 0) + 1)
        ctx.timer_service().register_event_time_timer(end)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        total, count = self.sums.get(timestamp), self.counts.get(timestamp)
        self.sums.remove(timestamp)
        self.counts.remove(timestamp)
        yield f"window {self.size}", ctx.get_current_key(), timestamp, total, count


class Match(KeyedCoProcessFunction):
    """Joins two sides in the state of their key. The output includes the watermark at that time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_state(ValueStateDescriptor("right", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.left.add(value[2])
        ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 70)
        yield "left", value[0], value[2], self.right.value(), ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.right.update(value[2])
        yield "right", value[0], value[2], tuple(self.left.get()), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any]:
        left = list(self.left.get())
        self.left.update(left[1:])
        yield "gone", ctx.get_current_key(), timestamp, left[:1]


class Sort(KeyedProcessFunction):
    """Counts records by key, and emits some of them to a side output."""

    def __init__(self, side: OutputTag) -> None:
        self.side = side

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), default_value=0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update(self.count.value() + 1)
        if value[2] % 3:
            yield self.side, value
        else:
            yield "big", value[0], value[2], self.count.value()


class Alarm(KeyedProcessFunction):
    """Sets processing-time timers: some fire in the same epoch, some in a later one, some are deleted."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        service = ctx.timer_service()
        due = self.due.value()
        if due is not None and value[2] % 4 == 0:
            service.delete_processing_time_timer(due)
            due = None
        if due is None:
            due = service.current_processing_time() + value[2] % 3 * 1000
            service.register_processing_time_timer(due)
        self.due.update(due)
        yield "set", value[0], value[2], due

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        self.due.clear()
        yield "rung", ctx.get_current_key(), timestamp


class Triples(FlatMapFunction, CheckpointedFunction):
    """Emits three records of a subtask at a time, regardless of their keys. Pending records are operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.stored = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
        self.waiting = list(self.stored.get())

    def flat_map(self, value: Any) -> Iterable[Any]:
        self.waiting.append(value)
        if len(self.waiting) == 3:
            yield "triple", value[0], tuple(record[2] for record in self.waiting)
            self.waiting = []

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(self.waiting)


class Hoard(MapFunction, CheckpointedFunction):
    """Keeps all records it has seen: in a split list, in a union list, and as raw bytes."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.dealt = store.get_list_state(ListStateDescriptor("dealt", Types.LONG()))
        self.shared = store.get_union_list_state(ListStateDescriptor("shared", Types.LONG()))
        self.raw = list(context.get_raw_operator_state_inputs())

    def map(self, value: Any) -> Any:
        self.dealt.add(value[2])
        self.shared.add(value[2])
        self.raw.append(b"%d" % value[2])
        return "kept", *value

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        output = context.get_raw_operator_state_output()
        for partition in self.raw:
            output.start_new_partition()
            output.write(partition)


LATEST: Final = MapStateDescriptor("latest", Types.STRING(), Types.LONG())


class WithLatest(KeyedBroadcastProcessFunction):
    """Joins each record with the latest broadcast value for its key. Some broadcast elements reset all totals."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.descriptor = ValueStateDescriptor("total", Types.LONG(), default_value=0)
        self.total = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        self.total.update(self.total.value() + 1)
        ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 60)
        yield "record", value[0], value[2], ctx.get_broadcast_state(LATEST).get(value[0]), self.total.value()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        latest = ctx.get_broadcast_state(LATEST)
        if value[2] % 5 == 0:
            latest.remove(value[0])
        else:
            latest.put(value[0], value[2])
        if value[2] % 7 == 0:
            ctx.apply_to_keyed_state(self.descriptor, lambda key, state: state.clear())

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any]:
        latest = ctx.get_broadcast_state(LATEST)
        yield "timer", ctx.get_current_key(), timestamp, tuple(latest.items()), self.total.value()


class RandomAmount(MapFunction):
    """Emits (number, random key, random amount), which differs in each attempt."""

    def map(self, value: Any) -> Any:
        return value[2], f"r{DICE.randrange(6)}", DICE.randrange(1_000_000)


class Sums(KeyedProcessFunction):
    """Computes the sum of all amounts of a key. Its output includes each amount."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), default_value=0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        number, key, amount = value
        self.total.update(self.total.value() + amount)
        yield amount, key, number, self.total.value()
