"""The epoch loop: which epochs it runs, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.errors import JobCancelledError
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.epoch_loop import EpochLoop
from tidemill.runtime.driver.job import StopSignal


class Job:
    """Sources with so many epochs of input, and a coordinator that lists the epochs it was given."""

    def __init__(self, epochs: int, *, ends: bool = True, whole: bool = False, most_looks: int = 100) -> None:
        self.left, self.ends, self.whole = epochs, ends, whole
        self.ran: list[EpochInput] = []
        self.timer = False
        self.pending = False
        self.manifests = self
        self.stop = StopSignal()
        self.closed = False
        self.commits = 0
        self._looks_left = most_looks
        self._waiting: list[str] = []

    # sources

    @property
    def finished(self) -> bool:
        return self.ends and not self.left

    def available(self) -> bool:
        return self.left > 0

    def committed(self) -> None:
        self.commits += 1

    def next_input(self) -> EpochInput:
        self.left = max(0, self.left - 1)
        return EpochInput(last=self.finished)

    def end_of_input(self) -> EpochInput:
        return EpochInput(last=True, ended=[0])

    def close(self) -> None:
        self.closed = True

    # coordinator

    def run_epoch(self, inputs: EpochInput) -> Any:
        self.ran.append(inputs)
        self.timer = False
        return SimpleNamespace(finished=inputs.last)

    def timer_due(self) -> bool:
        return self.timer

    def check_owner(self) -> None:
        self._looks_left -= 1
        if not self._looks_left:
            self.stop.set()

    # savepoints

    def take(self, manifests: Any, drain: Callable[[], object], cancel: Callable[[], object]) -> bool:
        self.pending = False
        drain()
        return True

    def loop(self, savepoints: Any = None, pause: float = 0.0) -> EpochLoop:
        job: Any = self
        none: Any = SimpleNamespace(pending=False)
        return EpochLoop(job, job, none, savepoints or none, pause=pause)


def test_it_runs_until_the_sources_end() -> None:
    job = Job(3)
    job.loop().run(job.stop)
    assert [inputs.last for inputs in job.ran] == [False, False, True]


def test_a_batch_job_is_one_epoch() -> None:
    job = Job(3, whole=True)
    job.loop().run(job.stop)
    assert [inputs.last for inputs in job.ran] == [True]


def test_sources_that_ended_before_are_followed_by_one_last_epoch() -> None:
    job = Job(0)
    job.loop().run(job.stop)
    assert [inputs.last for inputs in job.ran] == [True]


def test_without_input_it_runs_only_what_is_due_until_it_is_stopped() -> None:
    job = Job(0, ends=False, most_looks=5)
    job.timer = True
    with pytest.raises(JobCancelledError):
        job.loop().run(job.stop)
    assert len(job.ran) == 1


def test_a_savepoint_may_end_the_job() -> None:
    job = Job(5)
    job.pending = True
    job.loop(savepoints=job).run(job.stop)
    assert [list(inputs.ended) for inputs in job.ran] == [[0]]


def test_a_step_completes_its_input() -> None:
    job = Job(2)
    loop = job.loop()
    with_batch = EpochInput(spark={"batch_id": 7})
    loop.step(lambda inputs: with_batch)
    loop.drain(lambda inputs: EpochInput(spark={"batch_id": 7}, last=inputs.last))
    assert [inputs.spark for inputs in job.ran] == [{"batch_id": 7}] * 2
    assert job.ran[-1].last
    loop.close()
    assert job.closed


def test_epochs_are_as_far_apart_as_is_configured() -> None:
    job = Job(2, most_looks=3)
    loop = job.loop(pause=1000.0)
    assert loop.seconds_to_rest <= 0
    with pytest.raises(JobCancelledError):
        loop.run(job.stop)
    assert len(job.ran) == 1
    assert loop.seconds_to_rest > 0
