"""Processing time while the wall clock jumps: it never goes back, never stops, and returns to wall time in time."""

from __future__ import annotations

import logging
import random

import pytest

from tidemill.runtime.time.processing_clock import LARGEST_STEP, ProcessingClock, SmoothTime

SECOND = 10**9
HOUR = 3600 * SECOND
START = 1_700_000_000 * SECOND


class Machine:
    """A wall clock that can be set, and a steady one."""

    def __init__(self, jump_delay: int = 60 * SECOND) -> None:
        self.offset = 0
        self.steady = 5 * SECOND
        self.time = SmoothTime(jump_delay)
        self.readings = [self.read()]

    @property
    def wall(self) -> int:
        return START + self.steady + self.offset

    def read(self) -> int:
        return self.time.read(self.wall, self.steady)

    def run(self, seconds: float, step: float = 0.02) -> None:
        for _ in range(round(seconds / step)):
            self.steady += round(step * SECOND)
            self.readings.append(self.read())

    @property
    def ahead(self) -> float:
        """By how many seconds processing time is ahead of the wall clock."""
        return (self.readings[-1] - self.wall) / SECOND


def test_without_jumps_it_is_wall_time() -> None:
    machine = Machine()
    machine.run(10)
    assert machine.ahead == 0


@pytest.mark.parametrize("step", [0.001, 0.02, 1.0])
def test_a_clock_that_goes_back_halves_the_pace_until_it_has_caught_up(step: float) -> None:
    machine = Machine()
    machine.offset -= 30 * SECOND
    machine.run(10, step)
    assert machine.ahead == pytest.approx(25)
    machine.run(49, step)
    assert machine.ahead == pytest.approx(0.5)
    machine.run(2, step)
    assert machine.ahead == 0
    assert machine.readings == sorted(set(machine.readings)), "it never stops"


def test_a_jump_ahead_and_back_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    with caplog.at_level(logging.WARNING):
        machine.offset += HOUR // SECOND * SECOND
        machine.run(30)
        assert machine.ahead == -3600
        machine.offset = 0
        machine.run(1)
    assert machine.ahead == 0
    assert [record.getMessage().split(".")[0] for record in caplog.records] == [
        "the wall clock has jumped ahead by 1:00:00",
        "the wall clock has jumped back; processing time had not followed the jump ahead",
    ]


def test_a_jump_ahead_that_lasts_is_followed_after_the_delay(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.offset += HOUR
    with caplog.at_level(logging.WARNING):
        machine.run(59)
        assert machine.ahead == -3600
        machine.run(2)
    assert machine.ahead == 0
    assert "processing time follows the wall clock, which is ahead by 1:00:00" in caplog.text


def test_a_jump_ahead_that_was_followed_and_is_taken_back_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(jump_delay=0)
    machine.offset += 100 * SECOND
    machine.run(1)
    assert machine.ahead == 0
    machine.offset = 0
    with caplog.at_level(logging.WARNING):
        before = machine.readings[-1]
        machine.run(10)
        assert (machine.readings[-1] - before) / SECOND == pytest.approx(5)
        machine.run(191)
    assert machine.ahead == 0
    assert "until they agree, in about 0:03:20" in caplog.text
    assert "processing time agrees with the wall clock again" in caplog.text


def test_small_steps_ahead_are_followed_at_once_and_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    with caplog.at_level(logging.DEBUG):
        machine.offset += LARGEST_STEP - SECOND
        machine.run(0.02)
        machine.offset -= SECOND // 2
        machine.run(3)
    assert machine.ahead == 0
    assert not caplog.records


def test_a_machine_that_slept_is_followed_at_once() -> None:
    machine = Machine()
    machine.run(8 * 3600, step=8 * 3600)
    assert machine.ahead == 0


def test_a_steady_clock_that_is_not_steady_does_not_stop_time_either() -> None:
    machine = Machine()
    machine.run(5)
    machine.steady -= HOUR
    machine.run(10)
    assert machine.readings[-1] - machine.readings[250] == pytest.approx(5 * SECOND, rel=0.01)


@pytest.mark.parametrize("seed", range(30))
def test_any_jumps_leave_a_time_that_passes_and_returns(seed: int) -> None:
    dice = random.Random(seed)
    machine = Machine(jump_delay=dice.choice([0, 5, 60]) * SECOND)
    for _ in range(20):
        machine.offset += dice.choice([0, 1, -1]) * dice.randrange(200 * SECOND)
        machine.run(dice.uniform(0, 60), step=0.25)
    assert all(after > before for before, after in zip(machine.readings, machine.readings[1:], strict=False))
    machine.run(2 * abs(machine.ahead) + 61, step=0.25)
    assert machine.ahead == 0


def test_a_job_whose_last_epoch_is_ahead_of_the_clock_continues_from_there() -> None:
    steady = [0]
    clock = ProcessingClock(wall=lambda: START + steady[0], steady=lambda: steady[0])
    ahead = (START + 20 * SECOND) // 10**6
    clock.resume(ahead)
    assert clock() == ahead
    steady[0] += 10 * SECOND
    assert clock() == ahead + 5_000
    steady[0] += 30 * SECOND
    assert clock() == (START + steady[0]) // 10**6


def test_a_job_that_was_down_continues_at_wall_time() -> None:
    clock = ProcessingClock(wall=lambda: START, steady=lambda: 0)
    clock.resume((START - HOUR) // 10**6)
    assert clock() == START // 10**6
