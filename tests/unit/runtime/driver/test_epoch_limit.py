"""The limit of an epoch, against simulated jobs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tidemill.common import Configuration
from tidemill.runtime.driver.epoch_limit import EpochLimit

MOST = 1_000_000
DURATION = 10.0


class Job:
    """A job whose epochs take ``fixed`` seconds and a ``cost`` for each record, by its number."""

    def __init__(self, cost: float | Callable[[int], float], fixed: float = 0.1, *, noise: float = 0.0) -> None:
        self.limit = EpochLimit(MOST, DURATION)
        self._cost = cost if callable(cost) else lambda number: cost
        self._fixed = fixed
        self._noise = noise
        self._dice = random.Random(7)
        self.read = 0
        self.epochs: list[tuple[int, float]] = []

    @property
    def seconds(self) -> list[float]:
        return [seconds for _, seconds in self.epochs]

    @property
    def records(self) -> list[int]:
        return [records for records, _ in self.epochs]

    def run(self, epochs: int, *, most: int = MOST) -> Job:
        for _ in range(epochs):
            records = min(self.limit.records, most)
            # Costs change slowly or at one place: a few samples are enough.
            samples = [self._cost(self.read + records * part // 64) for part in range(64)]
            seconds = self._fixed + records * sum(samples) / 64
            seconds *= self._dice.uniform(1 - self._noise, 1 + self._noise)
            self.read += records
            self.limit.committed(records=records, sources=1, seconds=seconds)
            self.epochs.append((records, seconds))
        return self


@pytest.mark.parametrize("cost", [1e-3, 0.01, 0.05, 0.07])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_records_of_any_cost_make_epochs_of_half_the_duration(cost: float, noise: float) -> None:
    job = Job(cost, noise=noise).run(40)
    assert max(job.seconds) <= DURATION
    assert all(DURATION / 4 < seconds < DURATION for seconds in job.seconds[5:])


def test_a_record_that_takes_longer_than_an_epoch_may_is_an_epoch() -> None:
    job = Job(25.0).run(20)
    assert job.records[0] == 100, "nothing was known of it"
    assert set(job.records[3:]) == {1}


@pytest.mark.parametrize("fixed", [0.05, 0.2, 1.0])
def test_a_fast_job_soon_has_epochs_of_all_the_records_that_it_may_have(fixed: float) -> None:
    job = Job(1e-6, fixed).run(20)
    assert set(job.records[7:]) == {MOST}
    assert sum(job.seconds[: job.records.index(MOST)]) < 7 * fixed + 0.5, "the slow start costs no more than its epochs"


def test_a_cold_start_does_not_hold_a_fast_job_up() -> None:
    limit = EpochLimit(MOST, DURATION)
    records = []
    for seconds in (4.0, 0.1, 0.1, 0.1, 0.1, 1.0, 1.0):
        records.append(limit.records)
        limit.committed(records=limit.records, sources=1, seconds=seconds)
    assert records[-1] == MOST


def test_the_first_epochs_of_slow_records_are_short() -> None:
    job = Job(0.01, fixed=0.0).run(4)
    assert job.records[:2] == [100, 500]
    assert job.seconds[:2] == pytest.approx([1.0, 5.0])


@pytest.mark.parametrize("factor", [10, 100, 1000])
def test_when_the_cost_jumps_one_epoch_is_long(factor: int) -> None:
    job = Job(lambda number: 1e-4 if number < 500_000 else factor * 1e-4).run(60)
    long = [seconds for seconds in job.seconds if seconds > DURATION]
    assert len(long) <= 3
    assert all(seconds < DURATION for seconds in job.seconds[-10:])


def test_when_the_cost_falls_the_limit_rises() -> None:
    job = Job(lambda number: 0.01 if number < 5_000 else 1e-6).run(30)
    assert job.records[-1] == MOST


@pytest.mark.parametrize("doubled_after", [2_000, 20_000])
def test_a_cost_that_grows_with_the_state_is_followed(doubled_after: int) -> None:
    job = Job(lambda number: 1e-3 * (1 + number / doubled_after)).run(60)
    assert max(job.seconds) <= DURATION
    short = [seconds for seconds in job.seconds[5:] if seconds < DURATION / 4]
    assert len(short) <= 4, "one in a while shows that the time is not fixed"


@pytest.mark.parametrize("fixed", [6.0, 15.0])
def test_a_commit_that_takes_long_by_itself_does_not_make_epochs_small(fixed: float) -> None:
    job = Job(2e-6, fixed).run(60)
    assert job.records[-1] == MOST
    best = MOST / (fixed + 2e-6 * MOST)
    assert job.read / sum(job.seconds) > 0.7 * best


def test_a_commit_that_takes_long_leaves_half_of_the_time_to_records() -> None:
    job = Job(0.01, 20.0).run(80)
    assert all(30 < seconds < 45 for seconds in job.seconds[-20:])


def test_a_commit_that_becomes_fast_again_makes_epochs_short_again() -> None:
    job = Job(0.01, 20.0).run(80)
    job._fixed = 0.1
    job.run(20)
    assert all(seconds < DURATION for seconds in job.seconds[-5:])


def test_a_cost_that_grows_while_epochs_get_smaller_is_not_taken_for_a_fixed_one() -> None:
    job = Job(1e-4).run(10)
    for _ in range(6):
        before = job._cost(0)
        job._cost = lambda number, before=before: before * 2.1
        job.run(1)
    job.run(15)
    assert all(DURATION / 4 < seconds < DURATION for seconds in job.seconds[-5:])


def test_a_trickle_of_input_does_not_lower_the_limit() -> None:
    job = Job(1e-6, 0.1).run(10)
    job.run(100, most=3)
    assert job.limit.records == MOST
    slow = Job(1e-6, 0.1).run(100, most=3)
    assert slow.run(5).records[-1] == MOST


def test_epochs_without_records_say_nothing() -> None:
    limit = EpochLimit(MOST, DURATION)
    for _ in range(10):
        limit.committed(records=0, sources=0, seconds=30.0)
    assert limit.records == 100


def test_several_sources_share_the_time() -> None:
    limit = EpochLimit(MOST, DURATION)
    for _ in range(10):
        limit.committed(records=4 * limit.records, sources=4, seconds=4 * limit.records * 1e-3)
    assert limit.records == pytest.approx(1250, rel=0.01)


def test_an_epoch_that_failed_after_very_long_is_tried_with_fewer_records() -> None:
    job = Job(1e-6).run(10)
    job.limit.failed(seconds=3.0)
    assert job.limit.records == MOST
    job.limit.failed(seconds=600.0)
    assert job.limit.records == pytest.approx(MOST / 120, rel=0.01)


def test_the_most_records_bound_the_first_epoch_too() -> None:
    assert EpochLimit(7, DURATION).records == 7


@pytest.mark.parametrize(("value", "batch"), [("0 ms", False), ("10 s", True)])
def test_without_a_bound_or_in_batch_mode_an_epoch_has_all_it_may_have(value: str, batch: bool) -> None:
    limit = EpochLimit.of(Configuration.from_dict({"execution.epoch.max-duration": value}), batch=batch)
    assert limit.records == MOST
    limit.committed(records=MOST, sources=1, seconds=500.0)
    limit.failed(seconds=500.0)
    assert limit.records == MOST
