"""Errors of user code: their traceback first, then where it happened; and their way to the driver."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.common.calls import call_each
from tidemill.errors import FailureSite, StateError, TidemillError, UserCodeError
from tidemill.runtime.batch.failures import Failure, failure_of, user_error, user_traceback
from tidemill.runtime.driver.coordinator import raise_failure
from tidemill.runtime.exchange.routes import key_extractor
from tidemill.state.keys.key_groups import Subtask


def caught_from(call: Any) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def divide(number: int) -> float:
    return 1 / number


def test_the_users_traceback_comes_first_without_our_frames() -> None:
    error = caught_from(lambda: key_extractor("op", divide)([0]))
    message = str(error)
    assert message.startswith("Traceback (most recent call last):\n")
    assert "in divide" in message
    assert "routes.py" not in message
    assert message.index("ZeroDivisionError") < message.index("raised in the key selector before op")


def test_an_object_that_cannot_be_called_has_no_frames_of_ours() -> None:
    error = caught_from(lambda: key_extractor("op", 7)([0]))
    assert "calls.py" not in str(error)
    assert "TypeError" in str(error)


def test_details_are_named_and_kept_short() -> None:
    error = user_error("map of op", caught_from(lambda: divide(0)), record="x" * 1000, key=("k", 1), line="job.py:7")
    assert type(error) is UserCodeError
    message = str(error)
    assert "raised in map of op, defined at job.py:7, while processing record 'xxx" in message
    assert message.endswith("…, key ('k', 1)")
    assert len(message) < 1200


def test_none_is_a_record_too() -> None:
    assert "record None, key None" in str(user_error("op", ValueError("x"), record=None, key=None))
    assert "while processing" not in str(user_error("op", ValueError("x")))


def test_an_error_of_ours_keeps_its_class() -> None:
    assert type(user_error("op", StateError("no key"))) is StateError


def test_a_broken_repr_does_not_hide_the_error() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "<Broken whose repr raised RuntimeError>" in str(user_error("op", ValueError("real"), record=Broken()))


def test_the_cause_is_shown() -> None:
    def fail() -> None:
        try:
            divide(0)
        except ZeroDivisionError as error:
            raise LookupError("outer") from error

    text = user_traceback(caught_from(fail))
    assert text.index("ZeroDivisionError") < text.index("direct cause") < text.index("LookupError: outer")


def test_a_failure_becomes_its_error_again() -> None:
    failure = failure_of(StateError("broken"), "uid", Subtask(3))
    assert failure == Failure(
        "StateError", "broken", "uid", Subtask(3), site=FailureSite(uid="uid", subtask=3, exception="StateError")
    )
    error = failure.to_error()
    assert type(error) is StateError
    assert str(error) == "broken"
    assert type(Failure("Unknown", "x", "uid", Subtask(0)).to_error()) is TidemillError


def test_the_first_real_failure_is_raised() -> None:
    consequence = Failure("TidemillError", "did not finish", "a", Subtask(0), primary=False)
    real = [Failure("UserCodeError", f"real {n}", "b", Subtask(n)) for n in (1, 0)]
    with pytest.raises(UserCodeError, match="real 0"):
        raise_failure([consequence, *real])
    with pytest.raises(TidemillError, match="did not finish"):
        raise_failure([consequence])
    raise_failure([])


def test_a_function_written_in_c_has_no_frames_of_the_engine() -> None:
    def failed(error: BaseException, position: int) -> BaseException:
        return user_error("operator 'parse'", error, record="x", advice="Do this")

    with pytest.raises(UserCodeError) as caught:
        call_each(int, ["x"], failed)
    assert str(caught.value) == (
        "ValueError: invalid literal for int() with base 10: 'x'\n\n"
        "raised in operator 'parse', while processing record 'x'. Do this"
    )
