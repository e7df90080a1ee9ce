"""Distributions and histograms: exact where they must be, near enough where they are estimates."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.metrics.summary import BOUNDS, COARSE_BOUNDS, Summary

amounts = st.floats(0.01, 1e6)


def summary_of(values: list[float], *, spread: bool = True) -> Summary:
    seen = Summary(spread=spread)
    for value in values:
        seen.update(value)
    return seen


def test_the_bounds_rise_and_hold_those_that_are_shown() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert set(BOUNDS) >= COARSE_BOUNDS


@given(st.lists(amounts, min_size=1))
def test_count_sum_and_extremes_are_exact(values: list[float]) -> None:
    seen = summary_of(values).value()
    assert (seen.count, seen.min, seen.max) == (len(values), min(values), max(values))
    assert seen.sum == pytest.approx(math.fsum(values))
    assert seen.mean == pytest.approx(statistics.fmean(values))


@given(st.lists(amounts, min_size=1), st.floats(0.0, 1.0))
def test_a_quantile_is_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    true = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    assert summary_of(values).value().quantile(share) == pytest.approx(true, rel=0.27)


@given(st.lists(st.lists(amounts), max_size=5))
def test_parts_make_the_same_whole(parts: list[list[float]]) -> None:
    whole = summary_of([value for part in parts for value in part]).value()
    merged = Summary(spread=True)
    for part in parts:
        merged.add(summary_of(part).packed())
    assert merged.value().buckets == whole.buckets
    assert merged.value().count == whole.count


@pytest.mark.parametrize("value", [0.0, -5.0, 1e-9, 1e12, math.inf])
def test_values_beyond_the_bounds_are_counted(value: float) -> None:
    seen = summary_of([value]).value()
    assert seen.count == 1
    assert seen.buckets[-1] == (math.inf, 1)


def test_a_distribution_knows_no_quantiles() -> None:
    seen = summary_of([1.0, 2.0], spread=False).value()
    assert seen.buckets == ()
    assert math.isnan(seen.quantile(0.5))


def test_nothing_seen_is_zero() -> None:
    assert Summary(spread=True).value().mean == 0
