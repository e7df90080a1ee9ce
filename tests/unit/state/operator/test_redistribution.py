"""Who gets which operator state after a change of parallelism: nothing lost, nothing doubled, evenly dealt."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidemill.state.keys.key_groups import Subtask, subtasks_of
from tidemill.state.operator.redistribution import copied_from, dealt, given_up, union

PARALLELISM = st.integers(1, 9)


@st.composite
def stored_lists(draw: st.DrawFn) -> tuple[dict[Subtask, list[str]], int]:
    """Lists of some of so many subtasks; every element says where it comes from."""
    before = draw(PARALLELISM)
    lengths = draw(st.dictionaries(st.integers(0, before - 1), st.integers(1, 12)))
    return {Subtask(subtask): [f"{subtask}/{n}" for n in range(length)] for subtask, length in lengths.items()}, before


@given(stored_lists(), PARALLELISM)
def test_every_element_goes_to_one_subtask(given_lists: tuple[dict[Subtask, list[str]], int], after: int) -> None:
    stored, before = given_lists
    parts = dealt(stored, before, after)
    assert len(parts) == after
    everything = [element for part in parts for element in part]
    assert Counter(everything) == Counter(union(stored))
    assert everything == union(stored)  # and in the order they had


@given(stored_lists(), PARALLELISM)
def test_another_parallelism_deals_evenly(given_lists: tuple[dict[Subtask, list[str]], int], after: int) -> None:
    stored, before = given_lists
    if before != after:
        lengths = [len(part) for part in dealt(stored, before, after)]
        assert max(lengths) - min(lengths) <= 1
        assert lengths == sorted(lengths, reverse=True)


@given(stored_lists())
def test_the_same_parallelism_gives_everybody_his_own(given_lists: tuple[dict[Subtask, list[str]], int]) -> None:
    stored, before = given_lists
    assert dealt(stored, before, before) == [stored.get(subtask, []) for subtask in subtasks_of(before)]


@given(PARALLELISM, PARALLELISM)
def test_broadcast_state_is_ones_own_or_a_former_subtasks(before: int, after: int) -> None:
    sources = [copied_from(Subtask(subtask), before) for subtask in range(after)]
    assert sources[:before] == list(range(min(before, after)))
    assert all(0 <= source < before for source in sources)
    # New subtasks read from the former ones in turn, so that none is read by many more than the others.
    counts = Counter(sources)
    assert max(counts.values()) - min(counts.values()) <= 1


@given(st.sets(st.integers(0, 20).map(Subtask)), PARALLELISM)
def test_each_subtask_that_is_gone_is_cleaned_up_after_by_one(stored: set[Subtask], after: int) -> None:
    cleaned = [former for subtask in range(after) for former in given_up(stored, Subtask(subtask), after)]
    assert sorted(cleaned) == sorted(former for former in stored if former >= after)
