"""The cache in front of a store: bounded, and never in the way of the truth."""

from __future__ import annotations

from functools import partial
from operator import eq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.state.rocksdb.cache import Encoded, ValueCache, kept

NOTHING = object()


def look(cache: ValueCache, name: int) -> object:
    found = cache.hot.get(name, NOTHING)
    return cache.find(name, NOTHING) if found is NOTHING else found


@settings(max_examples=examples(200), derandomize=True)
@given(
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from(["put", "update", "read", "put_all", "forget"]), st.integers(0, 9))),
)
def test_what_is_found_is_the_last_word_and_what_is_kept_is_bounded(limit: int, steps: list[tuple[str, int]]) -> None:
    cache, truth = ValueCache(limit), dict.fromkeys(range(10), 0)
    for number, (what, name) in enumerate(steps):
        if what == "update":
            truth[name] = number
            cache.update({name: number})
        elif what == "put":
            cache.put(name, truth[name])
        elif what == "put_all":
            cache.put_all({n: truth[n] for n in range(name)})
        elif what == "forget":
            cache.forget(partial(eq, name))
            assert look(cache, name) is NOTHING
        for n in truth:
            assert cache.hot.get(n, truth[n]) == truth[n]
        assert look(cache, name) in (NOTHING, truth[name])
        assert len(cache) <= limit + 1 + 2 * 10  # twice what was put for right away


def test_what_is_used_stays() -> None:
    cache = ValueCache(10)
    for name in range(100):
        cache.put(name, name)
        look(cache, 0)
    assert look(cache, 0) == 0
    assert look(cache, 50) is NOTHING
    assert len(cache) <= 11


@pytest.mark.parametrize(("value", "as_bytes"), [(1, False), ("a", False), ([1], True), ((1, [2]), True)])
def test_what_could_be_changed_is_kept_as_bytes(value: object, as_bytes: bool) -> None:
    assert isinstance(kept(value, b"data"), Encoded) is as_bytes
