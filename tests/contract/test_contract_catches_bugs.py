"""Test the tests: each bug that is put into a backend is found by the machine, and by an example that shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.contract import test_keyed_state_epochs as epochs
from tests.contract import test_keyed_state_kinds as kinds
from tests.contract import test_keyed_state_timers as timers
from tests.contract.keyed_state import Backends, Operator
from tests.contract.keyed_state_bugs import BUGS, ROCKSDB_BUGS
from tests.contract.keyed_state_machine import SETTINGS, run
from tests.thorough import THOROUGH

#: Seeds to try first, so that the search is short; others find the bug too.
LIKELY = {
    "forget_cleared_values_in_deltas": 8,
    "forget_removed_map_entries_in_deltas": 14,
    "forget_cleared_maps_in_deltas": 21,
    "forget_timers_in_deltas": 7,
    "keep_emptied_maps": 1,
    "drop_tombstones_while_older_files_remain": 9,
    "fire_timers_in_the_order_of_registration": 2,
    "merge_namespaces_and_keep_the_sources": 3,
    "write_pieces_of_a_list_over_each_other": 8,
    "forget_the_original_of_a_key": 1,
}
#: Enough seeds for every bug.
ENOUGH = 6
FIRST_FAILURE = settings(SETTINGS, phases=[Phase.generate], report_multiple_bugs=False)


def seeds(bug: str) -> list[int]:
    """The seeds to look for a bug with, one after the other."""
    return [LIKELY.get(bug, 0), *range(ENOUGH)]


def stay() -> None:
    """For tests that look at the same within an epoch and after it."""


#: For each bug, a test that must fail, with the arguments of its parameters.
EXAMPLES: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "forget_cleared_values_in_deltas": (epochs.test_cleared_keys_leave_nothing, {"name": None}),
    "forget_cleared_lists_in_deltas": (epochs.test_cleared_keys_leave_nothing, {"name": None}),
    "forget_removed_map_entries_in_deltas": (epochs.test_a_restore_from_all_deltas_is_exact, {}),
    "forget_cleared_maps_in_deltas": (epochs.test_touching_one_entry_of_a_large_map_writes_only_it, {}),
    "forget_timers_in_deltas": (timers.test_the_delta_is_what_is_new_and_what_is_gone, {}),
    "forget_fired_timers_in_deltas": (timers.test_fired_timers_are_gone_for_good, {"domain": "event_timers"}),
    "write_whole_lists_when_they_grow": (epochs.test_appending_to_a_long_list_writes_only_what_is_appended, {}),
    "write_whole_maps_when_an_entry_changes": (epochs.test_touching_one_entry_of_a_large_map_writes_only_it, {}),
    "write_what_was_only_read": (epochs.test_an_epoch_that_only_reads_writes_nothing, {}),
    "forget_to_fold": (epochs.test_a_fold_counts_once, {}),
    "fold_lists_twice": (epochs.test_a_fold_counts_once, {}),
    "forget_deletes_in_folds": (epochs.test_cleared_keys_leave_nothing, {"name": None}),
    "keep_emptied_maps": (epochs.test_cleared_keys_leave_nothing, {"name": None}),
    "keep_what_a_failed_attempt_wrote": (epochs.test_the_attempt_after_a_failed_one_counts_alone, {}),
    "keep_timers_that_a_failed_attempt_fired": (
        timers.test_a_failed_attempt_gives_its_timers_back,
        {"domain": "event_timers"},
    ),
    "hand_out_the_committed_objects": (kinds.test_changing_what_was_read_changes_nothing_that_is_committed, {}),
    "load_without_namespaces": (epochs.test_a_restore_from_all_deltas_is_exact, {}),
    "load_no_timers": (timers.test_timers_go_with_their_keys, {"path": [1, 3, 2]}),
    "load_appends_as_whole_lists": (epochs.test_a_restore_from_all_deltas_is_exact, {}),
    "export_all_without_namespaces": (epochs.test_a_restore_from_the_whole_state_is_exact, {}),
    "drop_tombstones_while_older_files_remain": (
        epochs.test_a_restore_from_a_snapshot_and_later_deltas_is_exact,
        {"cut": 1},
    ),
    "merge_the_newest_first": (epochs.test_a_restore_from_a_snapshot_and_later_deltas_is_exact, {"cut": 3}),
    "list_keys_of_all_namespaces": (kinds.test_namespaces_do_not_see_each_other, {"settle": stay}),
    "list_keys_that_are_cleared": (kinds.test_an_empty_list_is_no_list, {"settle": stay}),
    "fire_timers_in_the_order_of_registration": (
        timers.test_timers_of_one_time_fire_in_an_order_that_is_the_same_everywhere,
        {"domain": "event_timers"},
    ),
    "merge_namespaces_and_keep_the_sources": (kinds.test_namespaces_are_merged_into_one, {"settle": stay}),
}


#: What the machine is made to find: examples notice every bug in any case.
SOUGHT = [*BUGS] if THOROUGH else [*BUGS][::2]


@pytest.mark.parametrize("bug", SOUGHT)
def test_the_machine_finds(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises(AssertionError):
        run("any types", ["hashmap"], FIRST_FAILURE, seeds(bug))


@pytest.mark.parametrize("bug", ROCKSDB_BUGS)
def test_the_machine_finds_in_a_local_store(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ROCKSDB_BUGS[bug](monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run("any types", ["rocksdb-small-cache"], FIRST_FAILURE, seeds(bug))


@pytest.mark.parametrize("bug", BUGS)
def test_an_example_notices_the_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example, arguments = EXAMPLES[bug]
    wanted = example.__code__.co_varnames[: example.__code__.co_argcount]
    with Backends("hashmap") as new_backend:

        def try_it() -> None:
            given = {"new_backend": new_backend, "operator": Operator(new_backend), **arguments}
            example(**{name: given[name] for name in wanted})

        try_it()  # passes on a backend without the bug
        BUGS[bug](monkeypatch)
        with pytest.raises((AssertionError, ValueError)):
            try_it()
