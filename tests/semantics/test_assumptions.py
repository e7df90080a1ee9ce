"""What happens when a program breaks an assumption that exactly-once rests on: see docs/guarantees.md.

Each job here is wrong. The tests pin how far the damage goes: nothing is applied twice, and state and output agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tidemill.common import Types
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.faults import Fault
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving

#: What changes from one read to the next, as a clock or a random number does.
READS: Final = itertools.count()


class Count(KeyedProcessFunction):
    """Counts in state, and beside it in an attribute."""

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key = ctx.get_current_key()
        self.seen[key] = self.seen.get(key, 0) + 1
        self.count.update((self.count.value() or 0) + 1)
        yield key, self.count.value(), self.seen[key]


def counted(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
    return records.key_by(lambda value: value, Types.STRING()).process(Count()).uid("count")


def test_an_attribute_is_lost_when_its_function_moves_and_state_is_not() -> None:
    with JobHarness(counted, inputs=["records"], placement=moving(2)) as job:
        for _ in range(3):
            job.epoch(records=["a"])
        assert job.output() == [("a", 1, 1), ("a", 2, 1), ("a", 3, 1)]
    with JobHarness(counted, inputs=["records"]) as job:
        job.epoch(records=["a"])
        job.epoch(records=["a"])
        job.restart()
        job.epoch(records=["a"])
        assert job.output() == [("a", 1, 1), ("a", 2, 2), ("a", 3, 1)]


class Changing(SplitSource):
    """Says that it can be read again, and then has other records."""

    bounded = True
    replayable = True
    parallelism = 1

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _Changing(int(position or 0))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        yield RecordBatch([f"read {next(READS)}"])


class _Changing(SplitEnumerator):
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        self._epoch += 1
        return [Split(self._epoch, 1)]

    def position(self) -> Position:
        return self._epoch

    @property
    def finished(self) -> bool:
        return self._epoch >= 3

    def available(self) -> bool:
        return self._epoch < 3


def test_a_source_that_changes_when_read_again_loses_what_it_had_before_and_nothing_is_mixed() -> None:
    """The epoch that counts is one read as a whole: state and output are of the same one."""

    def build(env: StreamExecutionEnvironment) -> DataStream:
        return counted(env, env.from_source(Changing(), None, "changing").uid("changing"))

    with JobHarness(build) as job:
        job.epoch()
        job.crash(Fault("manifest.before"))
        job.end()
        shown = [key for key, _, _ in job.output()]
        assert len(shown) == 3
        assert dict.fromkeys(shown, 1) == job.state("count", "count")


class Drawn:
    """Another key each time. Pickled by reference: a counter of itertools cannot be pickled from Python 3.14 on."""

    def __call__(self, value: Any) -> str:
        return f"{value}{next(READS) % 5}"


def test_a_key_selector_that_is_not_a_function_of_the_record_spreads_a_key_but_counts_each_record_once() -> None:
    """A key is taken once, where the record is sent, and goes with it: state is always in its key's subtask."""

    def build(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        return records.key_by(Drawn(), Types.STRING()).process(Count()).uid("count")

    with JobHarness(build, inputs=["records"], parallelism=3) as job:
        for _ in range(4):
            job.epoch(records=["a"] * 5)
        job.crash(Fault("manifest.after"), records=["a"] * 5)
        job.restart(parallelism=2)
        job.epoch(records=["a"] * 5)
        assert len(job.output()) == 30
        state = job.state("count", "count")
        assert len(state) == 5
        assert sum(state.values()) == 30
