"""Hypothesis strategies for tests of stateful functions: all kinds of keys, and all kinds of state values.

They need `hypothesis <https://hypothesis.readthedocs.io>`_, which Tidemill itself does not depend on.

>>> from hypothesis import given, settings
>>> from tidemill.state.keys.key_groups import key_group_of
>>> @settings(max_examples=20, database=None, deadline=None)
... @given(keys())
... def every_key_has_a_group(key):
...     assert 0 <= key_group_of(key, 128) < 128
>>> every_key_has_a_group()
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["keys", "values"]


def keys(*, max_leaves: int = 4) -> st.SearchStrategy[Any]:
    """Generate keys of every supported type: numbers (some equal across types, and NaN), text, bytes, None, dates and
    times, UUIDs, frozen sets of numbers and text, and tuples with up to ``max_leaves`` of all these.

    Equal keys of different types (``1``, ``1.0``, ``True``) and similar keys (``"a"``, ``b"a"``, ``("a",)``) are
    frequent, because such keys are the most likely to be confused.
    """
    numbers = st.one_of(
        st.sampled_from([0, 0.0, -0.0, False, 1, 1.0, True, 2**53, float(2**53), 2**64, -(2**63)]),
        st.integers(),
        st.floats(),
        st.fractions(max_denominator=10**6),
        st.decimals(allow_nan=False, allow_infinity=False, places=3),
    )
    text = st.one_of(st.sampled_from(["", "a", "a\0", "ab", "1"]), st.text(max_size=8))
    atoms = st.one_of(
        numbers,
        text,
        st.none(),
        text.map(lambda value: value.encode("utf-8", "surrogatepass")),
        st.binary(max_size=8),
        st.dates(),
        st.datetimes(),
        st.times(),
        st.timedeltas(),
        st.uuids(),
        st.frozensets(st.integers() | text, max_size=3),
    )
    return st.recursive(atoms, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=max_leaves)


def values(*, max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Generate values for state without a declared type: numbers (except NaN, which is not equal to itself), text,
    bytes, dates, UUIDs, None, and lists, tuples, dicts and sets of them.
    """
    atoms = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.binary(max_size=8),
        st.dates(),
        st.datetimes(),
        st.uuids(),
    )
    names = st.text(max_size=4) | st.integers()

    def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(names, inner, max_size=3),
            st.sets(names, max_size=3),
        )

    return st.recursive(atoms, grown, max_leaves=max_leaves)
