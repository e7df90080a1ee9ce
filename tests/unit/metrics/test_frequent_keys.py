"""The most frequent keys of any stream, in a table of bounded size."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.metrics.frequent_keys import KEPT, MOST, FrequentKeys


def keys_of(stream: list[int], weight: float = 1) -> FrequentKeys:
    keys = FrequentKeys()
    for key in stream:
        keys.add(key, weight)
    return keys


def zipf(length: int, seed: int, keys: int = 5_000) -> list[int]:
    dice = random.Random(seed)
    return dice.choices(range(keys), [1 / rank for rank in range(1, keys + 1)], k=length)


@given(st.lists(st.integers(0, 20)))
def test_few_keys_are_counted_exactly(stream: list[int]) -> None:
    counts = Counter(stream)
    assert dict(keys_of(stream).top(100)) == {key: count for key, count in counts.items() if count > 1}


@pytest.mark.parametrize("seed", range(5))
def test_of_many_keys_the_frequent_ones_are_found_and_never_overstated(seed: int) -> None:
    stream = zipf(40_000, seed)
    counts: Counter[Hashable] = Counter(stream)
    keys = keys_of(stream)
    told = dict(keys.top(MOST))
    assert len(keys) <= MOST
    assert keys.total == keys.times == len(stream)
    for key, count in counts.items():
        if count > len(stream) / (MOST - KEPT):
            assert told[key] >= count - len(stream) / (MOST - KEPT)
    assert all(told[key] <= counts[key] for key in told)
    assert [key for key, _ in keys.top(3)] == [key for key, _ in counts.most_common(3)]


def test_a_key_that_becomes_hot_late_is_found_soon() -> None:
    keys = keys_of(zipf(50_000, 1))
    dice = random.Random(2)
    for key in zipf(20_000, 3):
        keys.add("late" if dice.random() < 0.2 else key, 1)
    weights = dict(keys.top(5))
    assert 3_500 < weights["late"] < 4_500


def test_in_a_stream_without_hot_keys_none_is_made_up() -> None:
    assert keys_of(list(range(100_000)), weight=7).top(10) == []


def test_what_is_halved_counts_half() -> None:
    keys = keys_of([1] * 80 + [2] * 20)
    keys.halve(2)
    assert keys.top(2) == [(1, 20), (2, 5)]
    assert (keys.total, keys.times) == (25, 25)
    keys.add(3, 15)
    keys.add(3, 15)
    assert keys.top(1) == [(3, 30)]
    keys.halve(10**6)
    assert keys.top(3) == []
