"""Key groups: every group belongs to exactly one subtask, at every parallelism."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import ConfigurationError, InvalidKeyError
from tidemill.state.keys.key_groups import (
    GroupCache,
    KeyGroup,
    KeyGroupRange,
    Subtask,
    TargetCache,
    check_parallelism,
    key_group_of,
    subtask_for_group,
)

parallelisms = st.integers(1, 32768).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, m)))


def test_the_range_of_a_subtask_is_the_exact_inverse() -> None:
    for most in range(1, 70):
        for parallelism in range(1, most + 1):
            owners = [subtask_for_group(KeyGroup(group), most, parallelism) for group in range(most)]
            ranges = [KeyGroupRange.for_subtask(most, parallelism, Subtask(subtask)) for subtask in range(parallelism)]
            assert [subtask for subtask, groups in enumerate(ranges) for _ in groups] == owners
            assert [group for groups in ranges for group in groups] == list(range(most))


@settings(deadline=None)
@given(parallelisms, st.data())
def test_also_for_large_ones(sizes: tuple[int, int], data: st.DataObject) -> None:
    most, parallelism = sizes
    subtask = data.draw(st.integers(0, parallelism - 1))
    groups = KeyGroupRange.for_subtask(most, parallelism, Subtask(subtask))
    assert len(groups) >= 1
    for group in (groups.first, groups.last):
        assert subtask_for_group(group, most, parallelism) == subtask
    if subtask:
        assert subtask_for_group(KeyGroup(groups.first - 1), most, parallelism) == subtask - 1


def test_flinks_example() -> None:
    assert [KeyGroupRange.for_subtask(128, 3, Subtask(i)) for i in range(3)] == [
        KeyGroupRange(KeyGroup(0), KeyGroup(42)),
        KeyGroupRange(KeyGroup(43), KeyGroup(85)),
        KeyGroupRange(KeyGroup(86), KeyGroup(127)),
    ]


def test_ranges() -> None:
    groups = KeyGroupRange(KeyGroup(3), KeyGroup(5))
    assert list(groups) == [3, 4, 5]
    assert 3 in groups
    assert 6 not in groups
    assert "3" not in groups
    assert groups.intersection(KeyGroupRange(KeyGroup(5), KeyGroup(9))) == KeyGroupRange(KeyGroup(5), KeyGroup(5))
    assert (
        groups.intersection(KeyGroupRange(KeyGroup(7), KeyGroup(9)))
        == KeyGroupRange.empty()
        == KeyGroupRange(KeyGroup(9), KeyGroup(1))
    )
    assert not list(KeyGroupRange.empty())
    assert len(KeyGroupRange.empty()) == 0
    with pytest.raises(ConfigurationError, match=r"-1\.\.4"):
        KeyGroupRange(KeyGroup(-1), KeyGroup(4))
    with pytest.raises(ConfigurationError, match="no subtask 3 at parallelism 3"):
        KeyGroupRange.for_subtask(128, 3, Subtask(3))


@pytest.mark.parametrize(("most", "parallelism"), [(128, 129), (128, 0), (0, 0), (32769, 1), (-1, -1)])
def test_impossible_parallelisms_are_named(most: int, parallelism: int) -> None:
    with pytest.raises(ConfigurationError, match=f"parallelism {parallelism} and max parallelism {most} "):
        check_parallelism(most, parallelism)
    check_parallelism(32768, 32768)


def test_the_caches_say_what_the_functions_say() -> None:
    keys: list[Any] = [1, "a", ("x", 2.5), None, b"z", 1.0, True] * 3
    groups = GroupCache(128)
    assert groups.groups(keys) == [key_group_of(key, 128) for key in keys]
    assert len(groups) == 5  # 1, 1.0 and True are one key
    targets = TargetCache(128, 7)
    assert targets.targets(keys) == [subtask_for_group(key_group_of(key, 128), 128, 7) for key in keys]
    assert list(map(targets.__getitem__, keys)) == targets.targets(keys)


def test_a_full_cache_empties_itself() -> None:
    cache = GroupCache(16, limit=10)
    assert cache.groups(list(range(35))) == [key_group_of(key, 16) for key in range(35)]
    assert len(cache) == 5


def test_a_cache_forgets_keys_that_are_long_gone() -> None:
    cache = GroupCache(16)
    cache.groups(list(range(20_000)))
    cache.trim(used=5000)
    assert len(cache) == 20_000
    cache.trim(used=4999)
    assert len(cache) == 0
    cache.groups(list(range(16_000)))
    cache.trim(used=0)
    assert len(cache) == 16_000, "a few are worth keeping in any case"


def test_nan_keys_do_not_fill_the_cache() -> None:
    cache = GroupCache(16)
    assert len(set(cache.groups([float("nan") for _ in range(5)]))) == 1
    assert not cache


def test_unhashable_keys_are_invalid_keys() -> None:
    class Odd:
        def __hash__(self) -> int:
            raise TypeError("never")

    for of_each in (GroupCache(16).groups, TargetCache(16, 2).targets):
        batches: list[list[Any]] = [["a", [1]], ["a", ("b", {})], [1, Odd()]]
        for keys in batches:
            with pytest.raises(InvalidKeyError, match="cannot be"):
                of_each(keys)


def test_a_cache_is_shipped_empty() -> None:
    cache = TargetCache(128, 7, 99)
    cache.targets([1, 2])
    copy = pickle.loads(pickle.dumps(cache))
    assert type(copy) is TargetCache
    assert not copy
    assert copy.targets([1, 2]) == cache.targets([1, 2])
