"""Sinks whose writers have state: through epochs, crashes, cold workers and changes of parallelism."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from tidemill.common import TypeInformation, Types
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter, StatefulSinkWriter, SupportsWriterState
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import UserCodeError
from tidemill.faults import Fault
from tidemill.testing.job_harness import JobHarness, moving

WIDTH = 4


class Packs(Sink, SupportsWriterState):
    """Commits records in packs of four; what does not fill a pack waits in the writer's state."""

    def __init__(self, shipped: list[list[int]] | None, type_info: TypeInformation | None = None) -> None:
        self.shipped = shipped
        self.type_info = type_info

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return PackWriter([])

    def restore_writer(self, subtask: int, parallelism: int, recovered_state: Sequence[Any]) -> StatefulSinkWriter:
        return PackWriter(recovered_state)

    def get_writer_state_type(self) -> TypeInformation | None:
        return self.type_info

    def create_committer(self) -> Committer | None:
        return None if self.shipped is None else Shipping(self.shipped)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (None, self.type_info))


class PackWriter(StatefulSinkWriter):
    def __init__(self, waiting: Sequence[int]) -> None:
        self.waiting = list(waiting)

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.waiting += values

    def prepare_commit(self) -> Sequence[bytes]:
        full = len(self.waiting) // WIDTH * WIDTH
        packs = [self.waiting[start : start + WIDTH] for start in range(0, full, WIDTH)]
        del self.waiting[:full]
        return [pickle.dumps(pack) for pack in packs]

    def snapshot_state(self, checkpoint_id: int) -> Sequence[Any]:
        return self.waiting


class Shipping(Committer):
    def __init__(self, shipped: list[list[int]]) -> None:
        self.shipped = shipped

    def commit(self, committed: Sequence[Committed]) -> None:
        packs = [pickle.loads(data) for part in committed for data in part.committables]
        self.shipped += [pack for pack in packs if pack not in self.shipped]


class Job(JobHarness):
    """A job that ships numbers, each of them once, and what it has shipped."""

    def __init__(self, sink: type[Packs] = Packs, type_info: TypeInformation | None = None, **options: Any) -> None:
        self.shipped: list[list[int]] = []
        self.count = 0

        def build(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
            numbers.rebalance().sink_to(sink(self.shipped, type_info)).uid("packs")

        super().__init__(build, inputs=["numbers"], **options)

    def numbers(self, count: int) -> list[int]:
        self.count += count
        return list(range(self.count - count, self.count))

    def waiting(self) -> list[int]:
        return sorted(n for part in self.operator_state("packs", "writer_raw_states").values() for n in part)

    def check(self) -> None:
        """Every number is in one pack, or waits for one; no writer has a whole pack waiting."""
        assert sorted([n for pack in self.shipped for n in pack] + self.waiting()) == list(range(self.count))
        assert all(len(pack) == WIDTH for pack in self.shipped)


@pytest.mark.parametrize("type_info", [None, Types.LONG()])
@pytest.mark.parametrize("live", [True, False])
def test_what_writers_hold_back_survives_any_parallelism(live: bool, type_info: TypeInformation | None) -> None:
    with Job(parallelism=2, merge_after=3, type_info=type_info) as job:
        for parallelism in (2, 5, 1, 3):
            if live:
                job.rescale(parallelism)
            else:
                job.restart(parallelism=parallelism)
            for count in (7, 1, 10):
                job.epoch(numbers=job.numbers(count))
                job.check()
        assert len(job.shipped) > 10


@pytest.mark.parametrize("point", ["sink.precommit.after", "delta.before", "manifest.before", "manifest.after"])
def test_a_crash_loses_and_repeats_nothing(point: str) -> None:
    with Job() as job:
        job.epoch(numbers=job.numbers(6))
        job.crash(Fault(point), numbers=job.numbers(5))
        job.run()
        job.check()


def test_a_warm_writer_continues_and_a_cold_one_is_restored() -> None:
    with Job() as job:
        for _ in range(3):
            job.epoch(numbers=job.numbers(3))
            job.check()
    with Job(workers=3, placement=moving(3)) as job:
        for _ in range(5):
            job.epoch(numbers=job.numbers(3))
            job.check()


def test_a_writer_that_cannot_be_restored_is_named() -> None:
    class Broken(Packs):
        def restore_writer(self, subtask: int, parallelism: int, recovered_state: Sequence[Any]) -> StatefulSinkWriter:
            raise OSError("the warehouse is closed")

    with Job(sink=Broken) as job:
        job.epoch(numbers=job.numbers(3))
        job.restart()
        with pytest.raises(UserCodeError, match=r"(?s)warehouse is closed.*restore_writer\(\).*packs"):
            job.epoch(numbers=job.numbers(3))


def test_a_writer_without_state_in_a_sink_that_has_it_is_refused() -> None:
    class Forgetful(Packs):
        def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
            class Plain(SinkWriter):
                def write(self, values: list[Any], timestamps: list[int] | None) -> None:
                    pass

            return Plain()

    with Job(sink=Forgetful) as job, pytest.raises(UserCodeError, match="Plain, not a StatefulSinkWriter"):
        job.epoch(numbers=job.numbers(3))
