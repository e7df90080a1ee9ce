"""Waiting ends with the answer, or in a failure that tells what was waited for."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.waiting import eventually


def test_the_first_true_answer_is_returned() -> None:
    answers = iter([[], None, [3], [4]])
    assert eventually(lambda: next(answers)) == [3]


def test_it_is_asked_once_more_when_the_time_is_over() -> None:
    """A machine that stood still in between does not fail the test."""
    answers = iter([False, True])

    def slow() -> bool:
        time.sleep(0.02)
        return next(answers)

    assert eventually(slow, seconds=0.01)


def test_a_failure_tells_what_was_waited_for_and_what_was_seen() -> None:
    lines = ["one"]
    with pytest.raises(AssertionError, match=r"^waited 0\.01 s in vain for a second line; seen: \['one'\]$"):
        eventually(lambda: len(lines) > 1, seconds=0.01, what="a second line", shown=lambda: lines)


def test_without_words_a_failure_quotes_the_question() -> None:
    lines = ["one"]
    with pytest.raises(AssertionError, match=r"in vain for .*lambda: len\(lines\) > 1"):
        eventually(lambda: len(lines) > 1, seconds=0.01)
    with pytest.raises(AssertionError, match=r"in vain for functools\.partial\(.*'two'\)"):
        eventually(partial(lines.__contains__, "two"), seconds=0.01)


def test_what_the_question_raises_comes_through() -> None:
    def ended() -> bool:
        raise RuntimeError("it has ended")

    with pytest.raises(RuntimeError, match="it has ended"):
        eventually(ended)
