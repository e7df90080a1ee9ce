"""One subtask of one epoch: forwarding, failures, deltas in files, what a rerun gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.plans import bundle, launch
from tidemill.checkpoint.model import Ack
from tidemill.checkpoint.storage.storages import MemoryStorage, Storage
from tidemill.errors import CheckpointError
from tidemill.local.engine import LocalEngine
from tidemill.runtime.batch.failures import Failure
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.exchange.outbox import Outbox, read_report
from tidemill.runtime.exchange.parcels import Header, ParcelKind
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.pieces import PieceForm
from tidemill.runtime.task.task import execute_subtask
from tidemill.runtime.task.warm import WarmChains


def count(env: Any) -> Any:
    return env.from_collection([("a", n) for n in range(100)]).key_by(0).sum(1)


def context_of(job: JobBundle, **more: Any) -> EpochContext:
    parallelism = tuple(chain.parallelism or 1 for chain in job.plan.chains)
    values: dict[str, Any] = {"epoch": 1, "rerun": 0, "head": None, "processing_time": 0, "parallelism": parallelism}
    return EpochContext("unit", "lineage", **{**values, **more})


def run_all(job: JobBundle, build: Any, **more: Any) -> list[Ack | Failure]:
    launched = launch(build)
    inputs = SplitInput(launched.plan, launched.split_sources(), {}, launched.parallelism(2), 10**6).next_input()
    engine = LocalEngine(job)
    return [read_report(report) for report in engine.run_epoch(context_of(job, **more), inputs)]


def test_every_subtask_acks_with_what_it_consumed() -> None:
    job = bundle(count)
    reports = run_all(job, count)
    acks = {(ack.subtask.chain, ack.subtask.subtask): ack for ack in reports if isinstance(ack, Ack)}
    assert len(acks) == len(reports) == 3
    source = next(ack for ack in acks.values() if not ack.consumed)
    for ack in acks.values():
        if ack is not source:
            assert ack.consumed == {source.subtask: source.attempt}
    assert sum(len(ack.pieces) for ack in acks.values()) == 1


def test_small_deltas_ride_in_the_ack_and_large_ones_are_files() -> None:
    storage = MemoryStorage()
    small = bundle(count, storage)
    (piece,) = [piece for ack in run_all(small, count) if isinstance(ack, Ack) for piece in ack.pieces]
    assert piece.data is not None
    assert storage.list() == []
    large = JobBundle(small.job_id, small.plan, storage, form=PieceForm(inline_limit=0))
    (piece,) = [piece for ack in run_all(large, count) if isinstance(ack, Ack) for piece in ack.pieces]
    assert piece.data is None
    assert piece.file is not None
    assert storage.list() == [piece.file]
    assert len(storage.read(piece.file)) == piece.length


def test_a_rerun_gives_the_same_bytes() -> None:
    def build(env: Any) -> Any:
        numbers = env.from_sequence(1, 500).shuffle().map(lambda n: (f"k{n % 7}", [n]))
        return numbers.key_by(lambda r: r[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))

    job = bundle(build)
    runs = []
    for run in range(2):
        reports = run_all(job, build, rerun=run)
        runs.append({(r.subtask, piece.sha256) for r in reports if isinstance(r, Ack) for piece in r.pieces})
        runs[-1] |= {(r.subtask, str(r.committables)) for r in reports if isinstance(r, Ack)}
    assert runs[0] == runs[1]


def test_a_failure_of_the_first_level_reaches_the_driver_through_those_that_fail_because_of_it() -> None:
    def build(env: Any) -> Any:
        return env.from_collection([0]).key_by(lambda n: 1 // n).sum().key_by(lambda n: n).sum()

    reports = run_all(bundle(build), build)
    failures = [report for report in reports if isinstance(report, Failure)]
    assert len(failures) == len(reports)
    assert [failure.kind for failure in failures if failure.primary] == ["UserCodeError"]


def test_a_failed_chain_is_closed_and_not_kept() -> None:
    def build(env: Any) -> Any:
        return env.from_collection([0]).map(lambda n: 1 // n)

    job = bundle(build, parallelism=1)
    warm = WarmChains()
    launched = launch(build, parallelism=1)
    inputs = SplitInput(launched.plan, launched.split_sources(), {}, launched.parallelism(1), 10).next_input()
    splits = inputs.splits[0]
    out = list(execute_subtask(job, context_of(job), 0, 0, warm, iter(splits)))
    assert isinstance(read_report(out[-1][1]), Failure)
    assert warm.drop("unit") == 0


class FullDisk(MemoryStorage):
    def write(self, name: str, data: bytes) -> None:
        raise CheckpointError("the disk is full")


def test_what_is_no_fault_of_the_program_is_the_engines_to_retry() -> None:
    storage: Storage = FullDisk()
    small = bundle(count, storage)
    job = JobBundle(small.job_id, small.plan, storage, form=PieceForm(inline_limit=0))
    with pytest.raises(CheckpointError, match="the disk is full"):
        run_all(job, count)


def test_parcels_for_deeper_levels_are_passed_on_whatever_happens_here() -> None:
    job = bundle(lambda env: count(env).key_by(0).max(1).key_by(0).min(1))
    layout = Layout(job.plan, context_of(job).parallelism)
    outbox = Outbox(context_of(job), layout, 0, 0)
    deep = Header(ParcelKind.DATA, 3, 0, 1, 0, 0, 0, b"a" * 16)
    outbox.pass_on(deep, b"deep")
    outbox.ship(Header(ParcelKind.DATA, 1, 0, 1, 0, 0, 0, b"a" * 16), b"near")
    outbox.drop()
    assert [parcel for _, parcel in outbox.drain()] == [b"deep"]
    assert outbox.drain() == []


def test_unknown_input_is_no_input() -> None:
    job = bundle(count)
    reports = LocalEngine(job).run_epoch(context_of(job, last=True), EpochInput())
    assert all(isinstance(read_report(report), Ack) for report in reports)
