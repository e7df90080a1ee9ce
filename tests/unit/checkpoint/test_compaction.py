"""Compaction planning: few runs, few rewrites, never out of order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.checkpoint.compaction import SMALLEST_TIER, apply_compaction, plan_compaction, tier
from tidemill.checkpoint.model import Epoch, RunRef, Slot
from tidemill.errors import CheckpointError


def history_of(seed: int, epochs: int, least: int, spread: int) -> list[int]:
    """Sizes of epochs, from 2**least to 2**(least + spread) bytes. (Lists drawn by hypothesis itself are short.)"""
    random = Random(seed)
    return [random.randrange(1 << least + random.randint(0, spread)) for _ in range(epochs)]


histories = st.builds(history_of, st.integers(0), st.integers(1, 300), st.integers(0, 20), st.integers(0, 20))


def run(epoch: int, size: int) -> RunRef:
    return RunRef(Epoch(epoch), slot=Slot(epoch), bytes=size)


def snapshot(merged: list[RunRef], size: int) -> RunRef:
    return RunRef(merged[-1].through, snapshot=f"s{merged[0].through}-{merged[-1].through}", bytes=size)


def settle(runs: tuple[RunRef, ...], fan_in: int, shrink: float = 1.0) -> tuple[tuple[RunRef, ...], int]:
    """Compact until nothing is left to do; also the bytes written."""
    written = 0
    while merged := plan_compaction(runs, fan_in):
        size = int(sum(part.bytes for part in merged) * shrink)
        runs = apply_compaction(runs, merged, snapshot(merged, size))
        written += size
    return runs, written


def test_tiers() -> None:
    assert [tier(size) for size in (0, SMALLEST_TIER, SMALLEST_TIER + 1, 8 * SMALLEST_TIER, 8 * SMALLEST_TIER + 1)] == [
        0, 0, 1, 1, 2,
    ]  # fmt: skip


def test_nothing_to_do() -> None:
    assert plan_compaction([]) is None
    assert plan_compaction([run(n, 100) for n in range(7)]) is None
    with pytest.raises(CheckpointError, match="at least 2 runs"):
        plan_compaction([], fan_in=1)


def test_the_newest_full_tier_is_merged() -> None:
    old = [run(n, 10 * SMALLEST_TIER) for n in range(8)]
    new = [run(8 + n, 10) for n in range(9)]
    assert plan_compaction(old + new) == new
    assert plan_compaction(old + new[:7]) == old
    assert plan_compaction(old[:7] + new[:7]) is None


def test_small_runs_before_a_large_one_count_with_it() -> None:
    """Otherwise a load that alternates between small and large epochs would never be compacted."""
    mixed = [run(n, 10 * SMALLEST_TIER if n % 2 else 10) for n in range(8)]
    assert plan_compaction(mixed) == mixed


def test_equally_large_epochs_are_rewritten_once_per_tier() -> None:
    runs: tuple[RunRef, ...] = ()
    written, epochs, size = 0, 4096, 40_000
    for epoch in range(epochs):
        runs, more = settle((*runs, run(epoch, size)), 8)
        written += more
    assert len(runs) <= 7 * 5
    assert written <= 5 * epochs * size  # log8(4096) = 4 tiers, and one for the border of the first


def test_overwritten_state_does_not_pile_up() -> None:
    """Every epoch rewrites the same 1 MB: eight runs of 1 MB merge into one of 1 MB."""
    runs: tuple[RunRef, ...] = ()
    for epoch in range(500):
        runs = (*runs, run(epoch, 1 << 20))
        while merged := plan_compaction(runs):
            runs = apply_compaction(runs, merged, snapshot(merged, 1 << 20))
        assert len(runs) <= 8


@given(histories, st.integers(2, 9))
def test_runs_stay_few_and_in_order(history: list[int], fan_in: int) -> None:
    runs: tuple[RunRef, ...] = ()
    for epoch, size in enumerate(history):
        runs = (*runs, run(epoch, size))
        before = plan_compaction(runs, fan_in)
        assert before == plan_compaction(list(runs), fan_in)
        runs, _ = settle(runs, fan_in)
        assert len(runs) <= (fan_in - 1) * (1 + max(tier(part.bytes, fan_in) for part in runs))
        assert [part.through for part in runs] == sorted({part.through for part in runs})
        assert runs[-1].through == epoch
        assert sum(part.bytes for part in runs) == sum(history[: epoch + 1])


@given(histories, st.integers(2, 8))
def test_a_byte_is_not_rewritten_often(history: list[int], fan_in: int) -> None:
    runs: tuple[RunRef, ...] = ()
    written = 0
    for epoch, size in enumerate(history):
        runs, more = settle((*runs, run(epoch, size)), fan_in)
        written += more
    tiers = 1 + tier(sum(history), fan_in)
    # A run may be rewritten within tier 0 until it outgrows it: at most 64 KiB, once in fan_in - 1 epochs.
    assert written <= fan_in * tiers * sum(history) + len(history) // (fan_in - 1) * SMALLEST_TIER


@given(histories, histories)
def test_epochs_added_while_a_compaction_ran_stay(history: list[int], later: list[int]) -> None:
    runs = tuple(run(epoch, size) for epoch, size in enumerate(history))
    merged = plan_compaction(runs, 4) or list(runs)
    result = snapshot(merged, 1)
    grown = (*runs, *(run(len(runs) + n, size) for n, size in enumerate(later)))
    after = apply_compaction(grown, merged, result)
    begin = grown.index(merged[0])
    assert after == (*grown[:begin], result, *grown[begin + len(merged) :])


def test_a_result_that_no_longer_fits_is_refused() -> None:
    runs = [run(n, 1) for n in range(4)]
    result = snapshot(runs[1:3], 2)
    assert apply_compaction(runs, runs[1:3], result) == (runs[0], result, runs[3])
    for merged in ([runs[0], runs[2]], [run(8, 1), run(2, 1)]):
        with pytest.raises(CheckpointError, match="no longer part of the state"):
            apply_compaction(runs, merged, snapshot(merged, 2))
    for merged, wrong in (([], result), (runs[:2], result), (runs[1:3], run(2, 1))):
        with pytest.raises(CheckpointError, match="must be a snapshot through the last epoch"):
            apply_compaction(runs, merged, wrong)
