"""Expired entries that nobody reads: removed a few at a time, with bounded work, and gone from files too."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.unit.state.ttl_states import KINDS, NOTHING, TTL, Expiring, config, merged, sections_of
from tidemill.common.time import Time
from tidemill.datastream.state import StateTtlConfig
from tidemill.state.codecs.ttl import Stamped
from tidemill.state.files.ttl_merge import CommittedTimes

MANY = 1000


def filled(ttl: StateTtlConfig, keys: int = MANY, per_epoch: int | None = None) -> Expiring:
    """Committed entries of many keys, all written at time 0."""
    states = Expiring(ttl, per_epoch=per_epoch)
    for key in range(keys):
        states.key(key).write_all()
    states.commit()
    return states


def looked_at(states: Expiring, name: str = "value") -> list[Any]:
    """Records, from now on, what is looked at of a state."""
    seen: list[Any] = []
    scan = states.backend.scan

    def watched(state: str) -> Any:
        for entry in scan(state):
            if state == name:
                seen.append(entry[1])
            yield entry

    states.backend.scan = watched  # type: ignore[method-assign]
    return seen


def test_without_cleanup_entries_stay_until_they_are_read() -> None:
    states = filled(config().build())
    states.at(TTL).commit()
    assert states.in_memory() == dict.fromkeys(KINDS, MANY)


@pytest.mark.parametrize("kind", KINDS)
def test_accesses_clean_up_the_whole_state_little_by_little(kind: str) -> None:
    states = filled(config().cleanup_incrementally(10, False).build())
    states.at(TTL)
    left = []
    for _ in range(4):
        for _ in range(MANY // 40):  # a quarter of the entries
            states.key("one").write(kind)
        states.commit()
        left.append(states.in_memory().get(kind))
    assert left[0] is not None
    assert MANY * 0.6 < left[0] < MANY * 0.9
    assert left == sorted(left, key=lambda n: -(n or 0))
    for _ in range(20):  # the walk owes some entries still
        states.key("one").write(kind)
    states.commit()
    assert states.in_memory()[kind] == 1
    others = set(KINDS) - {kind}
    assert all(states.in_memory()[other] == MANY for other in others)  # only the state that is accessed


def test_no_access_checks_more_entries_than_it_may() -> None:
    states = filled(config().cleanup_incrementally(3, False).build())
    states.at(TTL)
    seen = looked_at(states)
    counts = []
    for _ in range(50):
        states.value.value()
        counts.append(len(seen))
    assert counts[-1] <= 150
    assert all(after - before <= 64 + 3 for before, after in pairwise(counts))


def test_reading_one_key_does_not_disturb_the_current_key_and_namespace() -> None:
    states = filled(config().cleanup_incrementally(500, False).build())
    states.at(TTL).key("mine", "window").write_all()
    states.list.add(2)
    assert states.backend.context.key == "mine"
    assert states.seen()["list"] == [1, 2]
    states.commit()
    assert states.key("mine", "window").seen()["list"] == [1, 2]
    assert states.key("mine").seen() == NOTHING


def test_entries_of_all_namespaces_are_found() -> None:
    states = Expiring(config().cleanup_incrementally(100, False).build())
    for window in range(50):
        states.key("a", window).write_all()
    states.commit()
    states.at(TTL).key("b")
    for _ in range(3):
        states.seen()
        states.commit()
        states.key("b")
    assert states.in_memory() == {}


def test_a_large_map_is_cleaned_entry_by_entry() -> None:
    states = Expiring(config().cleanup_incrementally(64, False).build())
    states.map.put_all(dict.fromkeys(range(MANY), 1))
    states.commit()
    states.at(TTL)
    states.key("other").map.get("x")
    states.commit()
    left = len(states.backend._tables["map"].layer(None).base["key"])
    assert MANY - 200 < left < MANY


def test_expired_elements_are_cut_from_lists() -> None:
    states = Expiring(config().cleanup_incrementally(100, False).build())
    states.list.add("old")
    states.commit()
    states.at(60).list.add("new")
    states.commit()
    states.at(TTL).key("other").list.add("x")
    states.commit()
    assert [item.value for item in states.backend._tables["list"].layer(None).base["key"]] == ["new"]


def test_records_can_drive_the_cleanup() -> None:
    for every_record, left in ((False, MANY), (True, 0)):
        states = filled(config().cleanup_incrementally(10, every_record).build())
        states.at(TTL)
        for number in range(110):  # keys are set, states are not used
            states.backend.context.key = number
        states.commit()
        assert states.in_memory().get("value", 0) == left


def test_each_epoch_checks_some_entries_by_default() -> None:
    states = filled(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build(), keys=2500)
    states.at(TTL)
    left = []
    for _ in range(4):
        states.commit()
        left.append(states.in_memory().get("value", 0))
    states.commit()
    assert left == [2500, 1500, 500, 0]
    assert states.in_memory() == {}


def test_a_walk_that_has_come_round_rests_until_something_can_expire() -> None:
    states = filled(config().cleanup_in_rocksdb_compact_filter(1).build(), keys=10)
    states.at(40).key("young").write_all()
    seen = looked_at(states)
    for now in (40, 50, TTL - 1):
        states.at(now).commit()
    assert seen == []  # the first walk found nothing at time 0: nothing can have expired
    states.at(TTL).commit()
    assert len(seen) == 11
    for now in (TTL, 120, 40 + TTL - 1):
        states.at(now).commit()
    assert len(seen) == 11
    states.at(40 + TTL).commit()
    assert len(seen) == 12
    states.commit()
    assert states.in_memory() == {}


def test_an_entry_is_looked_at_a_few_times_in_its_life_however_often_the_state_is_accessed() -> None:
    states = Expiring(config().cleanup_incrementally(100, False).build())
    seen = looked_at(states)
    for now in range(5 * TTL):
        states.at(now).key(now).value.update(now)
        states.value.value()
        states.commit()
        assert states.in_memory()["value"] <= TTL * 1.5
    assert len(seen) < 5 * TTL * 6


def test_what_is_written_during_a_walk_is_found_by_the_next() -> None:
    states = filled(config().cleanup_in_rocksdb_compact_filter(1).build(), keys=10, per_epoch=4)
    for step in range(40):
        states.at(step * 10).key(f"new {step}").value.update(1)
        states.commit()
    states.at(10_000)
    for _ in range(40):
        states.commit()
    assert "value" not in states.in_memory()


def test_an_entry_that_was_renewed_in_this_epoch_stays() -> None:
    states = filled(config().cleanup_incrementally(7, False).build(), keys=5)
    states.at(TTL).key(3).value.update("renewed")
    for _ in range(20):  # the walk gets there only now
        states.value.value()
    states.commit()
    assert states.in_memory()["value"] == 1
    assert states.key(3).value.value() == "renewed"


def test_an_epoch_that_does_not_count_removes_nothing() -> None:
    states = filled(config().cleanup_incrementally(MANY, False).build())
    states.at(TTL).value.value()
    states.backend.discard()
    states.commit()
    assert states.in_memory()["value"] == MANY


def test_a_restore_leaves_out_what_has_expired_and_says_so_in_the_files() -> None:
    ttl = config().cleanup_full_snapshot().build()
    states = filled(ttl, keys=50)
    states.at(60).key("young").write_all()
    states.commit()
    restored = Expiring(ttl, states.files, now=TTL)
    assert restored.commit() is not None
    assert restored.in_memory() == dict.fromkeys(KINDS, 1)
    # A later program without a time to live finds no trace of the others.
    plain = Expiring(None, restored.files)
    assert plain.in_memory() == dict.fromkeys(KINDS, 1)
    assert plain.key("young").seen()["value"] == 1


def test_without_it_a_restore_brings_everything_back() -> None:
    states = filled(config().build(), keys=50)
    restored = Expiring(config().build(), states.files, now=TTL)
    assert restored.commit() is None
    assert restored.in_memory() == dict.fromkeys(KINDS, 50)


def test_ever_new_keys_leave_nothing_in_memory_and_in_files() -> None:
    ttl = StateTtlConfig.new_builder(Time.milliseconds(TTL)).build()
    states = Expiring(ttl, now=1)
    sizes = []
    for epoch in range(60):
        states.at(1 + epoch * 20)
        for key in range(20):
            states.key((epoch, key)).write_all()
        states.commit()
        sizes.append(sum(states.in_memory().values()))
    assert max(sizes) < 20 * len(KINDS) * 14  # about what lives: 100 ms of 20 keys per 20 ms, and what a walk is behind
    states.at(10**6)
    for _ in range(5):
        states.commit()
    assert states.in_memory() == {}
    assert states.backend.entries() == 0
    files = merged(states.files, None)
    assert files == []  # tombstones took all of it away, without a clock


def test_a_merge_takes_away_what_no_cleanup_has_found() -> None:
    ttl = config().cleanup_in_rocksdb_compact_filter(1).build()
    states = Expiring(ttl, now=1).write_all()
    states.commit()
    times = CommittedTimes(clock=1 + TTL, started=0)
    assert merged(states.files, times) == []
    assert states.in_memory() == dict.fromkeys(KINDS, 1)
    assert states.at(1 + TTL).seen() == NOTHING  # the difference is not visible


def test_stamped_values_are_distinguished_by_their_time() -> None:
    assert Stamped(1, 2) == Stamped(1, 2) != Stamped(1, 3)
    assert repr(Stamped("a", 2)) == "Stamped('a', 2)"
    assert sections_of([]) == []
