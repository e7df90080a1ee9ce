"""Timers are state: one per (time, key, namespace), fired in the order of their times, restored with their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.keyed_state import NewBackend, Operator, merged, rows_of
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.keys.stable_hash import stable_hash

WINDOW, LATER = (0, 10), (10, 20)
Timer = tuple[int, Any, Any]


@pytest.fixture
def operator(new_backend: NewBackend) -> Operator:
    return Operator(new_backend)


@pytest.fixture(params=["event_timers", "processing_timers"])
def domain(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["in the epoch", "committed", "restored"])
def settle(
    request: pytest.FixtureRequest, operator: Operator, new_backend: NewBackend
) -> Callable[[Operator], Operator]:
    """Called between setting timers and firing them: the same must happen within an epoch, after it, and elsewhere."""

    def stay(current: Operator) -> Operator:
        return current

    def commit(current: Operator) -> Operator:
        current.commit()
        return current

    def restore(current: Operator) -> Operator:
        current.commit()
        return Operator(new_backend, files=current.files)

    return {"in the epoch": stay, "committed": commit, "restored": restore}[request.param]


def queue_of(operator: Operator, domain: str) -> Any:
    return getattr(operator.subtasks[0].backend, domain)


def fired(queue: Any, until: int) -> list[Timer]:
    timers = []
    while (timer := queue.pop_due(until)) is not None:
        timers.append(timer)
    return timers


def test_timers_fire_in_the_order_of_their_times(
    operator: Operator, domain: str, settle: Callable[[Operator], Operator]
) -> None:
    for time in (30, 10, -5, 20, 2**40, 0):
        queue_of(operator, domain).register(time, "a")
    queue = queue_of(settle(operator), domain)
    assert queue.peek() == -5
    assert [time for time, _, _ in fired(queue, 20)] == [-5, 0, 10, 20]
    assert queue.pop_due(29) is None
    assert queue.peek() == 30
    assert len(queue) == 2
    assert fired(queue, 2**62) == [(30, "a", None), (2**40, "a", None)]
    assert queue.peek() is None
    assert len(queue) == 0


def test_the_two_time_domains_are_apart(operator: Operator, settle: Callable[[Operator], Operator]) -> None:
    backend = operator.subtasks[0].backend
    backend.event_timers.register(1, "a")
    backend.processing_timers.register(2, "b")
    backend = settle(operator).subtasks[0].backend
    assert list(backend.event_timers.pending()) == [(1, "a", None)]
    assert list(backend.processing_timers.pending()) == [(2, "b", None)]


def test_a_timer_registered_twice_fires_once(
    operator: Operator, domain: str, settle: Callable[[Operator], Operator]
) -> None:
    queue_of(operator, domain).register(5, "a")
    queue_of(operator, domain).register(5, "a")
    operator = settle(operator)
    queue = queue_of(operator, domain)
    queue.register(5, "a")
    assert len(queue) == 1
    assert fired(queue, 10) == [(5, "a", None)]
    queue.register(5, "a")
    queue = queue_of(settle(operator), domain)
    assert fired(queue, 10) == [(5, "a", None)]


def test_keys_and_namespaces_have_timers_of_their_own(
    operator: Operator, domain: str, settle: Callable[[Operator], Operator]
) -> None:
    for key in ("a", "b"):
        for name in (None, WINDOW, LATER):
            queue_of(operator, domain).register(5, key, name)
    queue = queue_of(settle(operator), domain)
    assert (5, "a", WINDOW) in queue
    queue.delete(5, "a", WINDOW)
    assert (5, "a", WINDOW) not in queue
    assert len(queue) == 5
    assert {timer[1:] for timer in fired(queue, 5)} == {
        ("a", None),
        ("a", LATER),
        ("b", None),
        ("b", WINDOW),
        ("b", LATER),
    }


def test_a_deleted_timer_does_not_fire(operator: Operator, domain: str, settle: Callable[[Operator], Operator]) -> None:
    for time in (1, 2, 3):
        queue_of(operator, domain).register(time, "a")
    operator = settle(operator)
    queue_of(operator, domain).delete(2, "a")
    queue_of(operator, domain).delete(2, "a")
    queue_of(operator, domain).delete(1, "never set")
    operator = settle(operator)
    assert list(queue_of(operator, domain).pending()) == [(1, "a", None), (3, "a", None)]
    queue_of(operator, domain).delete(1, "a")
    assert queue_of(operator, domain).peek() == 3
    assert fired(queue_of(operator, domain), 9) == [(3, "a", None)]


def test_a_timer_that_is_deleted_and_set_again_fires_once(
    operator: Operator, domain: str, settle: Callable[[Operator], Operator]
) -> None:
    queue_of(operator, domain).register(1, "a")
    for _ in range(3):
        operator = settle(operator)
        queue_of(operator, domain).delete(1, "a")
        queue_of(operator, domain).register(1, "a")
    operator = settle(operator)
    assert fired(queue_of(operator, domain), 1) == [(1, "a", None)]
    assert len(queue_of(operator, domain)) == 0


def test_timers_of_one_time_fire_in_an_order_that_is_the_same_everywhere(new_backend: NewBackend, domain: str) -> None:
    keys: list[Any] = ["a", "b", ("c", 1), None, 1.5, b"x", 7]
    names: list[Any] = [LATER, None, WINDOW]
    expected = sorted(
        ((5, key, name) for key in keys for name in names),
        key=lambda timer: (stable_hash(timer[1]), timer[2] is not None, timer[2] or ()),
    )
    for ordered in (keys, keys[::-1]):
        operator = Operator(new_backend)
        for key in ordered:
            for name in names:
                queue_of(operator, domain).register(5, key, name)
        assert list(queue_of(operator, domain).pending()) == expected
        operator.commit()
        again = Operator(new_backend, files=merged(operator.files, keep_deletes=False))
        assert list(queue_of(again, domain).pending()) == expected
        assert fired(queue_of(again, domain), 5) == expected
        assert fired(queue_of(operator, domain), 5) == expected


def test_timers_set_while_others_fire_take_their_turn(operator: Operator, domain: str) -> None:
    queue = queue_of(operator, domain)
    queue.register(1, "a")
    queue.register(9, "a")
    operator.commit()
    order = []
    while (timer := queue.pop_due(9)) is not None:
        order.append(timer[0])
        if timer[0] < 5:
            queue.register(timer[0] + 2, "a")
    assert order == [1, 3, 5, 9]


# --- epochs


def test_the_delta_is_what_is_new_and_what_is_gone(operator: Operator) -> None:
    queue = operator.subtasks[0].backend.event_timers
    for time in range(100):
        queue.register(time, "a")
    assert rows_of(operator.commit()[0]) == {"__timers_event": 100}
    assert operator.commit() == [[]]
    queue.register(200, "a")
    queue.delete(7, "a")
    queue.register(300, "a")  # set and gone in one epoch: never there
    queue.delete(300, "a")
    queue.delete(8, "a")  # gone and back
    queue.register(8, "a")
    assert queue.pop_due(1) == (0, "a", None)
    assert rows_of(operator.commit()[0]) == {"__timers_event": 3}


def test_a_failed_attempt_gives_its_timers_back(operator: Operator, domain: str) -> None:
    queue = queue_of(operator, domain)
    for time in (1, 2, 3):
        queue.register(time, "a")
    operator.commit()
    for _ in range(2):
        assert fired(queue_of(operator, domain), 1) == [(1, "a", None)]
        queue_of(operator, domain).delete(2, "a")
        queue_of(operator, domain).register(4, "b")
        queue_of(operator, domain).delete(3, "a")
        queue_of(operator, domain).register(3, "a")
        operator.abort()
        queue = queue_of(operator, domain)
        assert list(queue.pending()) == [(1, "a", None), (2, "a", None), (3, "a", None)]
        assert queue.peek() == 1
        assert len(queue) == 3
    assert operator.commit() == [[]]
    assert [time for time, _, _ in fired(queue, 9)] == [1, 2, 3]


def test_fired_timers_are_gone_for_good(operator: Operator, new_backend: NewBackend, domain: str) -> None:
    for time in range(10):
        queue_of(operator, domain).register(time, "a")
    operator.commit()
    fired(queue_of(operator, domain), 6)
    operator.commit()
    for files in (operator.files, merged(operator.files, keep_deletes=False), operator.exported()):
        queue = queue_of(Operator(new_backend, files=files), domain)
        assert [time for time, _, _ in queue.pending()] == [7, 8, 9]


@pytest.mark.parametrize("path", [[1, 3, 2], [16, 1, 5]], ids=str)
def test_timers_go_with_their_keys(new_backend: NewBackend, path: list[int]) -> None:
    operator = Operator(new_backend, path[0])
    for key in range(100):
        operator.owner(key).backend.event_timers.register(key % 7, key)
        operator.owner(key).backend.processing_timers.register(key % 5, key, WINDOW)
    operator.commit()
    expected = {(key % 7, key, None) for key in range(100)}
    for parallelism in path[1:]:
        operator = Operator(new_backend, parallelism, operator.files)
        timers = []
        for states in operator.subtasks:
            pending = list(states.backend.event_timers.pending())
            assert all(states.backend.group_of(key) in states.backend.groups for _, key, _ in pending)
            timers += pending
        assert len(timers) == len(expected)
        assert set(timers) == expected
        gone = {timer for states in operator.subtasks for timer in fired(states.backend.event_timers, 1)}
        assert gone == {timer for timer in expected if timer[0] <= 1}
        operator.commit()
        expected -= gone
    assert sum(len(states.backend.processing_timers) for states in operator.subtasks) == 100


def test_many_timers_of_one_time(operator: Operator, new_backend: NewBackend, domain: str) -> None:
    queue = queue_of(operator, domain)
    for key in range(10_000):
        queue.register(5, key)
    operator.commit()
    queue = queue_of(Operator(new_backend, files=operator.files), domain)
    keys = [key for _, key, _ in fired(queue, 5)]
    assert keys == sorted(range(10_000), key=stable_hash)


def test_timers_count_as_entries(new_backend: NewBackend) -> None:
    backend: KeyedStateBackend = new_backend()
    backend.event_timers.register(1, "a")
    backend.processing_timers.register(1, "a")
    backend.fold()
    assert backend.entries() == 2
