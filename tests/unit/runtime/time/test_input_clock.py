"""The clock of an operator over its channels and inputs: what Flink's valve and its combination of inputs do."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.runtime.batch.records import MIN_TIME
from tidemill.runtime.time.input_clock import Channel, InputClock

ONE, TWO, THREE = (Channel(0, sender) for sender in range(3))
LEFT, RIGHT = Channel(0, 0), Channel(1, 0)
IDLE, ACTIVE = True, False


def tell(clock: InputClock, *events: tuple[Channel, Any]) -> list[int | None]:
    """Watermarks and changes of status, in order; the new time after each, None if it did not move."""
    return [
        clock.set_idle(channel, what) if isinstance(what, bool) else clock.advance(channel, what)
        for channel, what in events
    ]


def test_the_clock_is_the_minimum_and_never_goes_back() -> None:
    clock = InputClock([ONE, TWO], MIN_TIME)
    told = tell(clock, (ONE, 20), (TWO, 5), (TWO, 15), (TWO, 12), (TWO, 30), (ONE, 20), (ONE, 40))
    assert told == [None, 5, 15, None, 20, None, 30]
    assert clock.current == 30


def test_one_channel_moves_the_clock_alone() -> None:
    assert tell(InputClock([ONE], MIN_TIME), (ONE, 1), (ONE, 1), (ONE, 3)) == [1, None, 3]


def test_an_epoch_continues_from_the_clock_and_waits_for_all() -> None:
    clock = InputClock([ONE, TWO], 10)
    assert tell(clock, (ONE, 10), (ONE, 25), (TWO, 10), (TWO, 15)) == [None, None, None, 15]


#: What happens to two channels, and how the clock moves; as Flink's StatusWatermarkValve does.
CHANNELS: dict[str, list[tuple[Channel, Any, int | None]]] = {
    "an idle channel is not waited for": [(ONE, 20, None), (TWO, 5, 5), (TWO, IDLE, 20), (ONE, 30, 30)],
    "who comes back counts at once if it is not behind": [
        (ONE, 20, None),
        (TWO, 20, 20),
        (TWO, IDLE, None),
        (TWO, ACTIVE, None),
        (ONE, 30, None),
        (TWO, 25, 25),
    ],
    "who comes back behind does not count until it has caught up": [
        (ONE, 20, None),
        (TWO, 5, 5),
        (TWO, IDLE, 20),
        (TWO, ACTIVE, None),
        (ONE, 30, 30),
        (TWO, 29, None),
        (ONE, 40, 40),
        (TWO, 40, None),
        (ONE, 50, None),
        (TWO, 45, 45),
    ],
    "catching up to the very clock is enough": [
        (ONE, 20, None),
        (TWO, IDLE, 20),
        (TWO, ACTIVE, None),
        (TWO, 20, None),
        (ONE, 30, None),
        (TWO, 30, 30),
    ],
    "where all are idle the greatest time counts": [(ONE, 20, None), (TWO, 5, 5), (ONE, IDLE, None), (TWO, IDLE, 20)],
    "not if the last to go idle was behind: surprising": [
        (THREE, IDLE, None),
        (ONE, 20, None),
        (TWO, 30, 20),
        (THREE, ACTIVE, None),
        (TWO, IDLE, None),
        (ONE, IDLE, None),
        (THREE, IDLE, None),
    ],
    "where only those behind are left time waits for the first of them": [
        (TWO, IDLE, None),
        (THREE, IDLE, None),
        (ONE, 20, 20),
        (TWO, ACTIVE, None),
        (THREE, ACTIVE, None),
        (ONE, IDLE, None),
        (TWO, 19, None),
        (TWO, 25, 25),
        (THREE, 24, None),
        (TWO, 28, 28),
    ],
    "idle at last, and back again": [
        (ONE, 20, None),
        (TWO, 5, 5),
        (ONE, IDLE, None),
        (TWO, IDLE, 20),
        (TWO, ACTIVE, None),
        (TWO, 10, None),
        (ONE, ACTIVE, None),
        (ONE, 22, 22),
    ],
}


@pytest.mark.parametrize("case", CHANNELS)
def test_channels_of_one_input(case: str) -> None:
    events = CHANNELS[case]
    three = any(channel is THREE for channel, *_ in events)
    clock = InputClock([ONE, TWO, THREE] if three else [ONE, TWO], MIN_TIME)
    assert tell(clock, *((channel, what) for channel, what, _ in events)) == [moved for *_, moved in events]


#: What happens to two inputs, and how the clock moves; as Flink's two-input operators do.
INPUTS: dict[str, list[tuple[Channel, Any, int | None]]] = {
    "the slower input holds time back": [(LEFT, 20, None), (RIGHT, 5, 5), (RIGHT, 30, 20)],
    "an idle input does not": [(LEFT, 20, None), (RIGHT, 5, 5), (RIGHT, IDLE, 20), (LEFT, 30, 30)],
    "an input that comes back counts at once, other than a channel: surprising": [
        (LEFT, 20, None),
        (RIGHT, 5, 5),
        (RIGHT, IDLE, 20),
        (RIGHT, ACTIVE, None),
        (LEFT, 30, None),
        (RIGHT, 25, 25),
    ],
    "where both are idle the greatest time counts": [
        (LEFT, 20, None),
        (RIGHT, 5, 5),
        (LEFT, IDLE, None),
        (RIGHT, IDLE, 20),
    ],
    "whichever of them goes first": [(LEFT, 20, None), (RIGHT, 5, 5), (RIGHT, IDLE, 20), (LEFT, IDLE, None)],
}


@pytest.mark.parametrize("case", INPUTS)
def test_inputs_of_one_operator(case: str) -> None:
    events = INPUTS[case]
    clock = InputClock([LEFT, RIGHT], MIN_TIME, {0: 0, 1: 1})
    assert tell(clock, *((channel, what) for channel, what, _ in events)) == [moved for *_, moved in events]


def test_streams_that_were_united_are_one_input() -> None:
    clock = InputClock([LEFT, RIGHT], MIN_TIME, {0: 0, 1: 0})
    told = tell(clock, (LEFT, 20), (RIGHT, 5), (RIGHT, IDLE), (RIGHT, ACTIVE), (LEFT, 30))
    assert told == [None, 5, 20, None, 30]


def test_who_is_behind_when_an_epoch_ends_is_behind_in_the_next() -> None:
    clock = InputClock([ONE, TWO], 20)
    told = tell(clock, (ONE, 20), (ONE, 30), (TWO, 5), (TWO, 29), (TWO, 35), (ONE, 40))
    assert told == [None, None, 30, None, None, 35], "until it was heard of it was waited for"


def test_who_was_idle_before_an_epoch_does_not_count_in_it() -> None:
    clock = InputClock([ONE, TWO], 20)
    assert clock.begin_idle(TWO, 90) is None
    assert tell(clock, (ONE, 20), (ONE, 30)) == [None, 30]
    assert tell(clock, (ONE, IDLE)) == [90], "nobody is waited for now"
    assert clock.idle


def test_both_inputs_idle_in_different_epochs() -> None:
    clock = InputClock([LEFT, RIGHT], 20, {0: 0, 1: 1})
    assert clock.begin_idle(LEFT, 50) is None
    assert tell(clock, (RIGHT, 20), (RIGHT, IDLE)) == [None, 50]


def test_all_go_idle_in_one_epoch() -> None:
    """Whoever is heard first: time goes to the greatest."""
    for first, second in (((ONE, 20), (TWO, 30)), ((TWO, 30), (ONE, 20))):
        clock = InputClock([ONE, TWO], 20)
        assert clock.begin_idle(*first) is None
        assert clock.begin_idle(*second) == 30
