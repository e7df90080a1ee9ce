"""Windows as namespaces: state and timers of a window come back with the very window, in the same order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.contract.keyed_state import NOTHING, NewBackend, Operator
from tidemill.datastream.window import CountWindow, GlobalWindow, TimeWindow, Window
from tidemill.state.codecs.tagged_reader import TaggedReader
from tidemill.state.codecs.tagged_writer import TaggedWriter

WINDOWS: list[Window] = [TimeWindow(-10, 0), TimeWindow(0, 10), TimeWindow(0, 2**62), CountWindow(3), GlobalWindow()]


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_windows_are_stored_without_pickle(window: Window) -> None:
    writer = TaggedWriter()
    found = TaggedReader().loads(writer.dumps(window))
    assert (found, type(found), writer.used_pickle) == (window, type(window), False)


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_state_of_a_window_is_restored(new_backend: NewBackend, window: Window) -> None:
    operator = Operator(new_backend)
    operator.at("a", window).fill(5)
    operator.at("a").fill(7)
    operator.commit()
    restored = Operator(new_backend, files=operator.files)
    assert restored.at("a", window).seen() == operator.at("a", window).seen() != restored.at("a").seen()
    assert restored.at("a", TimeWindow(77, 78)).seen() == NOTHING


def test_timers_of_one_time_and_key_fire_in_the_order_of_their_windows(new_backend: NewBackend) -> None:
    windows = [TimeWindow(start, end) for start, end in itertools.product((-5, 0, 5), (10, 20))]
    operator = Operator(new_backend)
    queue = operator.subtasks[0].backend.event_timers
    for window in reversed(windows[:3]):
        queue.register(100, "a", window)
    operator.commit()
    for window in windows[3:]:
        queue.register(100, "a", window)
    operator.commit()
    for current in (Operator(new_backend, files=operator.files), operator):
        fired: list[Any] = []
        while (timer := current.subtasks[0].backend.event_timers.pop_due(100)) is not None:
            fired.append(timer[2])
        assert fired == windows
        assert {type(window) for window in fired} == {TimeWindow}


@pytest.mark.parametrize("committed", [False, True])
def test_values_added_to_each_key_are_added_one_by_one(new_backend: NewBackend, committed: bool) -> None:
    one_by_one, together = Operator(new_backend), Operator(new_backend)
    window = TimeWindow(0, 10)
    for operator in (one_by_one, together):
        operator.at("a", window).fill(100)
        if committed:
            operator.commit()
    keys, values = ["a", "b", "a", "b", "c"], [1, 2, 3, 4, 5]
    states = together.at("a", window)
    for state in (states.list, states.reducing, states.aggregating):
        assert state.add_each(keys, iter(values)) == (["a", "b", "c"] if committed else ["b", "c"])
    for key, value in zip(keys, values, strict=True):
        single = one_by_one.at(key, window)
        for state in (single.list, single.reducing, single.aggregating):
            state.add(value)
    for key in "abc":
        assert together.at(key, window).seen() == one_by_one.at(key, window).seen()
