"""The order in which results of async calls leave, whatever order the answers come in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.runtime.operators.async_results import Call, OrderedResults, Results, UnorderedResults

#: None is a mark, a number begins so many calls.
Input = list[int | None]


def play(results: Results, inputs: Input, data: st.DataObject) -> tuple[list[Any], list[Any], list[Any]]:
    """Begin calls and answer them at random; what came in, the order of the answers, and what left."""
    came: list[Any] = []
    answered: list[Any] = []
    left: list[Any] = []
    pending: list[Call] = []

    def leave() -> None:
        for ready in results.take():
            if isinstance(ready, list):
                assert ready, "an empty batch left"
                left.extend(call.value for call in ready)
            else:
                ready()

    def answer_some(least: int) -> None:
        for _ in range(data.draw(st.integers(least, len(pending)))):
            call = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
            call.results = [call.value]
            results.completed(call)
            answered.append(call.value)
        leave()

    for number, step in enumerate(inputs):
        if step is None:
            mark = f"mark {number}"
            came.append(mark)
            results.add_mark(lambda mark=mark: left.append(mark))  # type: ignore[misc]
            leave()
        else:
            calls = [Call((number, index), None) for index in range(step)]
            came += [call.value for call in calls]
            pending += calls
            results.add(calls)
        answer_some(0)
    answer_some(len(pending))
    return came, answered, left


def segments(sequence: list[Any]) -> list[list[Any]]:
    """The values between the marks."""
    found: list[list[Any]] = [[]]
    for item in sequence:
        if isinstance(item, str):
            found.append([])
        else:
            found[-1].append(item)
    return found


steps = st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=12)


@given(steps, st.data())
def test_ordered_results_leave_as_their_calls_came(inputs: Input, data: st.DataObject) -> None:
    came, _, left = play(OrderedResults(), inputs, data)
    assert left == came


@given(steps, st.data())
def test_unordered_results_leave_as_they_were_answered_within_their_marks(inputs: Input, data: st.DataObject) -> None:
    came, answered, left = play(UnorderedResults(), inputs, data)
    marks = [item for item in came if isinstance(item, str)]
    assert [item for item in left if isinstance(item, str)] == marks
    expected = [[value for value in answered if value in segment] for segment in segments(came)]
    assert segments(left) == expected


@pytest.mark.parametrize("results", [OrderedResults(), UnorderedResults()], ids=["ordered", "unordered"])
def test_what_has_left_is_forgotten(results: Results) -> None:
    call = Call("a", 1)
    results.add([call])
    assert list(results.take()) == []
    call.results = []
    results.completed(call)
    assert list(results.take()) == [[call]]
    assert list(results.take()) == []
