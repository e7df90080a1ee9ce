"""Waiting ends with the answer, or in a failure that reports what was waited for."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from tests import waiting
from tests.waiting import eventually


def test_the_first_true_answer_is_returned() -> None:
    answers = iter([[], None, [3], [4]])
    assert eventually(lambda: next(answers)) == [3]


def test_it_is_polled_once_more_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was paused in between does not fail the test."""
    answers = iter([False, True])
    now = 0.0

    def slow() -> bool:
        nonlocal now
        now += 100
        return next(answers)

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now, sleep=lambda seconds: None))
    assert eventually(slow, seconds=60)


def test_a_failure_reports_what_was_waited_for_and_what_was_seen() -> None:
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
