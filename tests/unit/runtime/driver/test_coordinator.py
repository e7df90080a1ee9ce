"""The coordinator with engines that misbehave: it runs again, or it raises and leaves the head as it was."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.runtime.plans import launch
from tidemill.checkpoint.model import Ack, Attempt
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.connectors.sinks import Committed, Committer
from tidemill.errors import CheckpointError, FencedError, GraphError, JobExecutionError, StateError, UserCodeError
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.local.engine import LocalEngine
from tidemill.runtime.batch.failures import Failure
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.launch import Launch
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.exchange.outbox import Outbox, read_report
from tidemill.runtime.observe.epoch_stats import EpochStats
from tidemill.state.keys.key_groups import Subtask
from tidemill.testing.recording_sink import Recording

Tamper = Callable[[int, list[Ack]], list[Ack | Failure]]


def count(env: Any) -> Any:
    return env.from_collection(["a", "b", "a", "c"]).key_by(lambda w: w).map_with_state(number).uid("count")


def number(word: str, seen: int | None) -> tuple[Any, int]:
    return (word, (seen or 0) + 1), (seen or 0) + 1


class TamperingEngine(LocalEngine):
    """Runs epochs for real, and lets a test change what is reported."""

    def __init__(self, launched: Launch, storage: MemoryStorage, tamper: Tamper | None = None) -> None:
        super().__init__(launched.bundle(storage), workers=2)
        self.tamper = tamper
        self.contexts: list[EpochContext] = []
        self.closed = False

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        self.contexts.append(context)
        reports = super().run_epoch(context, inputs)
        if self.tamper is None:
            return reports
        acks = [report for report in map(read_report, reports) if isinstance(report, Ack)]
        outbox = Outbox(context, Layout(self._bundle.plan, context.parallelism), 99, 0)
        for report in self.tamper(context.rerun, acks):
            outbox.report(report)
        return [parcel for _, parcel in outbox.drain()]

    def close(self) -> None:
        super().close()
        self.closed = True


class Job:
    """A coordinator with its storage and input, epoch by epoch."""

    def __init__(self, storage: MemoryStorage | None = None, tamper: Tamper | None = None, build: Any = count) -> None:
        self.storage = storage or MemoryStorage()
        self.recording = Recording()
        self.launch = launch(build, self.recording)
        self.engine = TamperingEngine(self.launch, self.storage, tamper)
        self.parallelism = self.launch.parallelism(2)
        self.stats: list[EpochStats] = []
        self.clock = 0
        self.coordinator = Coordinator(
            self.launch.bundle(self.storage),
            self.engine,
            self.parallelism,
            self.launch.committers(),
            clock=lambda: self.clock,
            on_epoch=self.stats.append,
        )
        self.restored = self.coordinator.open()
        self.sources = SplitInput(
            self.launch.plan,
            self.launch.split_sources(),
            self.coordinator.head.sources,
            self.parallelism,
            max_records=2,
        )

    def epoch(self) -> None:
        self.coordinator.run_epoch(self.sources.next_input())


def test_epochs_are_committed_one_after_the_other() -> None:
    job = Job()
    assert job.restored is None
    job.epoch()
    job.epoch()
    assert sorted(job.recording.values()) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    assert job.coordinator.head.finished
    assert [(stats.epoch, stats.records_in, stats.runs) for stats in job.stats] == [(1, 2, 1), (2, 2, 1)]
    job.coordinator.close()
    assert job.engine.closed


def test_the_next_epoch_names_what_the_head_was_made_of() -> None:
    job = Job()
    job.epoch()
    job.epoch()
    first, second = job.engine.contexts
    keyed = next(chain.id for chain in job.launch.plan.chains if chain.head.keyed)
    assert first.attempts == {}
    assert first.head is None
    assert len(second.attempts[keyed]) == 2
    assert second.last
    assert second.epoch == first.epoch + 1


def test_processing_time_never_goes_back() -> None:
    job = Job()
    job.clock = 100
    job.epoch()
    job.clock = 50
    job.epoch()
    assert [context.processing_time for context in job.engine.contexts] == [100, 100]


def other_attempt(rerun: int, acks: list[Ack]) -> list[Ack | Failure]:
    """In the first run a sender acks another attempt than the one that was consumed."""
    if rerun > 0:
        return [*acks]
    other = Attempt(str(uuid.uuid4()))
    return [ack if ack.consumed else dataclasses.replace(ack, attempt=other) for ack in acks]


def missing_ack(rerun: int, acks: list[Ack]) -> list[Ack | Failure]:
    return [*acks] if rerun > 1 else [*acks[1:]]


def double_ack(rerun: int, acks: list[Ack]) -> list[Ack | Failure]:
    return [*acks] if rerun > 0 else [*acks, acks[0]]


def old_run(rerun: int, acks: list[Ack]) -> list[Ack | Failure]:
    return [*acks] if rerun > 0 else [dataclasses.replace(ack, rerun=7) for ack in acks]


@pytest.mark.parametrize("tamper", [other_attempt, missing_ack, double_ack, old_run])
def test_what_does_not_fit_together_is_run_again(tamper: Tamper) -> None:
    job = Job(tamper=tamper)
    job.epoch()
    job.epoch()
    assert sorted(job.recording.values()) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    assert job.stats[0].runs > 1
    assert [context.rerun for context in job.engine.contexts[:2]] == [0, 1]


def test_an_epoch_that_never_fits_is_given_up() -> None:
    job = Job(tamper=lambda rerun, acks: [*acks[1:]])
    head = job.coordinator.head
    with pytest.raises(
        JobExecutionError, match=r"epoch 1 produced no consistent result in 10 runs; last: .* did not ack"
    ):
        job.epoch()
    assert job.coordinator.head == head
    assert job.recording.values() == []


def test_a_failure_is_raised_and_leaves_the_head() -> None:
    job = Job()
    job.epoch()
    head = job.coordinator.head
    job.engine.tamper = lambda rerun, acks: [
        Failure("TidemillError", "did not finish", "x", Subtask(0), primary=False),
        Failure("UserCodeError", "user's fault", "y", Subtask(1)),
        *acks,
    ]
    with pytest.raises(UserCodeError, match="user's fault"):
        job.epoch()
    assert job.coordinator.head == head
    again = Job(job.storage)
    assert again.restored is not None
    assert again.restored.epoch == 1
    again.epoch()
    assert ("a", 2) in again.recording.values()


def test_a_crash_after_the_manifest_is_committed_by_the_next_driver() -> None:
    job = Job()
    with injected(Fault("manifest.after")), pytest.raises(InjectedFaultError):
        job.epoch()
    assert job.recording.values() == []
    again = Job(job.storage)
    assert sorted(again.recording.values()) == [("a", 1), ("b", 1)]
    assert again.coordinator.head.epoch == 1
    again.epoch()
    assert sorted(again.recording.values()) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


def test_a_driver_that_was_taken_over_stops() -> None:
    job = Job()
    job.epoch()
    successor = Job(job.storage)
    with pytest.raises(FencedError):
        job.epoch()
    successor.epoch()
    assert successor.coordinator.head.epoch == 2


def test_a_driver_that_was_taken_over_does_not_take_it_for_a_failure_of_its_own() -> None:
    job = Job()
    job.epoch()
    Job(job.storage)
    job.engine.tamper = lambda rerun, acks: [Failure("CorruptFileError", "a file is gone", "x", Subtask(0)), *acks]
    with pytest.raises(FencedError, match="was taken over by lineage"):
        job.epoch()


def test_a_timer_is_due_when_its_time_has_come() -> None:
    job = Job()
    job.epoch()
    assert not job.coordinator.timer_due()
    head = dataclasses.replace(job.coordinator.head, next_timer=50)
    job.coordinator._log._head = head
    assert not job.coordinator.timer_due()
    job.clock = 50
    assert job.coordinator.timer_due()


def test_state_without_its_operator_is_refused_before_anything_runs() -> None:
    Job().coordinator.close()
    job = Job()
    job.epoch()
    with pytest.raises(StateError, match=r"state of operator 'MapWithState' \(uid count\).*not part of the program"):
        Job(job.storage, build=lambda env: env.from_collection([1]).map(abs))


def test_another_max_parallelism_is_refused_with_both_numbers() -> None:
    job = Job()
    job.epoch()
    with pytest.raises(GraphError, match=r"max parallelism 1024 and now has 64"):
        Job(job.storage, build=lambda env: count(env).set_max_parallelism(64))


def test_committables_without_their_sink_are_refused() -> None:
    job = Job()
    job.coordinator._commits._committers = {}
    with pytest.raises(CheckpointError, match=r"results to commit for the sink with uid 'sink'"):
        job.epoch()


class Stubborn(Committer):
    def __init__(self) -> None:
        self.closed = False

    def commit(self, committed: Sequence[Committed]) -> None:
        raise AssertionError("not called")

    def close(self) -> None:
        self.closed = True
        raise RuntimeError("cannot close")


def test_closing_never_raises() -> None:
    job = Job()
    stubborn = Stubborn()
    job.coordinator._commits._opened = {"sink": stubborn}
    job.coordinator.close()
    assert stubborn.closed
    assert job.engine.closed
