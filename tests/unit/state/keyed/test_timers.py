"""Timer queues: one per (time, key, namespace), in order of time, with the way back and the way to files."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.state.files.rows import DELETE, PUT, Rows
from tidemill.state.keyed.timers import Timer, TimerQueue


def drain(queue: TimerQueue, until: int) -> list[Timer]:
    fired = []
    while (timer := queue.pop_due(until)) is not None:
        fired.append(timer)
    return fired


def test_timers_fire_in_order_of_time_once_each() -> None:
    queue = TimerQueue()
    for time in (30, 10, 20, 10):
        queue.register(time, "a")
    assert len(queue) == 3
    assert queue.peek() == 10
    assert [time for time, _, _ in drain(queue, 20)] == [10, 20]
    assert queue.peek() == 30
    assert queue.pop_due(29) is None


def test_a_deleted_timer_does_not_fire() -> None:
    queue = TimerQueue()
    queue.register(1, "a")
    queue.register(2, "a")
    queue.delete(1, "a")
    queue.delete(5, "a")
    assert drain(queue, 10) == [(2, "a", None)]


def test_a_timer_set_again_after_deletion_fires_once() -> None:
    queue = TimerQueue()
    queue.register(1, "a")
    queue.delete(1, "a")
    queue.register(1, "a")
    assert list(queue.pending()) == [(1, "a", None)]
    assert drain(queue, 1) == [(1, "a", None)]
    queue.register(1, "a")
    assert drain(queue, 1) == [(1, "a", None)]


def test_keys_and_namespaces_have_their_own_timers() -> None:
    queue = TimerQueue()
    queue.register(1, "a")
    queue.register(1, "b")
    queue.register(1, "a", (0, 10))
    assert len(queue) == 3
    assert (1, "a", (0, 10)) in queue
    queue.delete(1, "a", (0, 10))
    assert sorted(key for _, key, _ in drain(queue, 1)) == ["a", "b"]


def test_order_of_equal_times_does_not_depend_on_the_order_of_registration() -> None:
    keys: list[Any] = ["a", "b", ("c", 1), None, 1.5, b"x"]
    one, two = TimerQueue(), TimerQueue()
    for key in keys:
        one.register(7, key)
    for key in reversed(keys):
        two.register(7, key)
    assert drain(one, 7) == drain(two, 7)


def test_the_delta_is_what_is_new_and_what_is_gone() -> None:
    queue = TimerQueue()
    queue.load(Rows(keys=["a", "b"], values=[1, 2]))
    queue.register(3, "c")
    queue.register(4, "d")
    queue.delete(4, "d")
    queue.delete(1, "a")
    queue.register(1, "a")
    assert queue.pop_due(2) == (1, "a", None)
    rows = queue.export_delta()
    assert rows is not None
    assert sorted(zip(rows.values, rows.keys, rows.ops, strict=True)) == [(1, "a", DELETE), (3, "c", PUT)]
    queue.fold()
    assert queue.export_delta() is None


def test_discard_goes_back_to_the_committed_timers() -> None:
    queue = TimerQueue()
    queue.load(Rows(keys=["a", "b"], values=[1, 2]))
    queue.pop_due(1)
    queue.delete(2, "b")
    queue.register(3, "c")
    queue.discard()
    assert list(queue.pending()) == [(1, "a", None), (2, "b", None)]
    assert queue.export_delta() is None


def test_merged_rows_have_the_last_word_on_each_timer() -> None:
    one = Rows(keys=["a", "b"], ops=[PUT, PUT], values=[1, 2])
    two = Rows(keys=["a", "c"], ops=[DELETE, DELETE], values=[1, 3])
    kept = TimerQueue.merged([one, two], keep_deletes=True)
    assert kept is not None
    assert sorted(zip(kept.values, kept.keys, kept.ops, strict=True)) == [
        (1, "a", DELETE),
        (2, "b", PUT),
        (3, "c", DELETE),
    ]
    plain = TimerQueue.merged([one, two], keep_deletes=False)
    assert plain is not None
    assert (plain.keys, plain.values) == (["b"], [2])
    assert TimerQueue.merged([two], keep_deletes=False) is None


TIMES = st.integers(0, 6)
KEYS = st.sampled_from(["a", "b", 1])
NAMES = st.sampled_from([None, (0, 5)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("register"), TIMES, KEYS, NAMES),
        st.tuples(st.just("delete"), TIMES, KEYS, NAMES),
        st.tuples(st.just("fire"), TIMES),
        st.sampled_from([("commit",), ("discard",), ("restore",), ("merge",)]),
    ),
    max_size=40,
)


def test_timers_that_are_deleted_leave_nothing_behind() -> None:
    queue = TimerQueue()
    for key in range(1000):
        queue.register(10**15 + key % 7, key)
        queue.delete(10**15 + key % 7, key)
        queue.register(10**15 + key % 7, key)
        if key >= 10:
            queue.delete(10**15 + (key - 10) % 7, key - 10)
        queue.fold()
        assert len(queue._heap) <= 2 * len(queue) + 64
    assert sorted(queue.pending()) == sorted((10**15 + key % 7, key, None) for key in range(990, 1000))


@settings(max_examples=examples(100), deadline=None)
@given(STEPS)
def test_a_queue_is_a_sorted_set(steps: list[tuple[Any, ...]]) -> None:
    queue = TimerQueue()
    live: set[Timer] = set()
    committed: set[Timer] = set()
    deltas: list[Rows] = []
    for name, *rest in steps:
        if name == "register":
            queue.register(*rest)
            live.add(tuple(rest))
        elif name == "delete":
            queue.delete(*rest)
            live.discard(tuple(rest))
        elif name == "fire":
            fired = drain(queue, rest[0])
            assert [timer[0] for timer in fired] == sorted(timer[0] for timer in fired)
            assert set(fired) == {timer for timer in live if timer[0] <= rest[0]}
            live -= set(fired)
        elif name == "discard":
            queue.discard()
            live = set(committed)
        else:
            if name == "commit" or name == "merge":
                delta = queue.export_delta()
                if delta is not None:
                    deltas.append(copy.deepcopy(delta))
                queue.fold()
                committed = set(live)
            if name == "merge":
                merged = TimerQueue.merged(deltas, keep_deletes=False)
                deltas = [] if merged is None else [merged]
            if name in ("restore", "merge"):
                queue = TimerQueue()
                for delta in deltas:
                    queue.load(delta)
                live = set(committed)
        assert set(queue.pending()) == live
        assert len(queue) == len(live)
        assert queue.peek() == min((timer[0] for timer in live), default=None)
