from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.common.calls import (
    NO_RECORD,
    call_each,
    is_interrupt,
    note_record,
    noted_record,
    was_raised,
    with_each,
)


class AtPositionError(Exception):
    pass


def failed(error: BaseException, position: int) -> AtPositionError:
    return AtPositionError(type(error).__name__, position)


def ends_at_two(value: int, *more: Any) -> int:
    if value == 2:
        next(iter(()))
    return value


def caught(act: Any) -> BaseException:
    try:
        act()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_what_a_function_raises_has_a_position() -> None:
    with pytest.raises(AtPositionError) as error:
        call_each(ends_at_two, [0, 1, 2, 3], failed)
    assert error.value.args == ("StopIteration", 2)
    assert isinstance(error.value.__cause__, StopIteration)
    with pytest.raises(AtPositionError) as error:
        call_each(ends_at_two, [0, 1, 2, 3], failed, [7, 7, 7, 7])
    assert error.value.args == ("StopIteration", 2)


def test_values_beside_are_as_many() -> None:
    assert call_each(lambda a, b: a + b, [1, 2], failed, iter([10, 20])) == [11, 22]
    with pytest.raises(AtPositionError, match="ValueError"):
        call_each(lambda a, b: a + b, [1, 2], failed, [10])


def test_a_short_result_of_map_is_noticed() -> None:
    assert with_each(ends_at_two, [0, 1]) == [0, 1]
    with pytest.raises(StopIteration):
        with_each(ends_at_two, [0, 1, 2, 3])


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_distinguished_from_a_raise_statement() -> None:
    by_signal = caught(lambda: signal.raise_signal(signal.SIGINT))
    assert is_interrupt(by_signal)
    assert not is_interrupt(caught(interrupt))
    assert not is_interrupt(ValueError())

    cleaned = []

    def cleaning_up() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            cleaned.append(True)
            raise

    assert is_interrupt(caught(cleaning_up))
    with pytest.raises(KeyboardInterrupt):
        call_each(lambda value: signal.raise_signal(signal.SIGINT), [1], failed)


def test_an_interrupt_stays_one_where_the_handler_of_the_signal_raises_it() -> None:
    def handler(number: int, frame: object) -> None:  # as PySpark's
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        assert is_interrupt(caught(lambda: signal.raise_signal(signal.SIGINT)))
        assert not is_interrupt(caught(interrupt))
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_end_of_a_generator_was_not_raised() -> None:
    seen: list[BaseException] = []

    def numbers() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit as error:
            seen.append(error)
            raise

    running = numbers()
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert not was_raised(seen[0])
    assert not was_raised(GeneratorExit())


def test_an_exception_remembers_its_record() -> None:
    error = ValueError()
    assert noted_record(error) is NO_RECORD
    values = ["a", "b", "c"]
    remaining = iter(values)
    next(remaining)
    next(remaining)
    note_record(error, values, remaining)
    assert noted_record(error) == "b"
