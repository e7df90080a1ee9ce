"""What merges of state files drop: only what no program and no worker can see any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.state.ttl_states import HELD, KINDS, NOTHING, TTL, Expiring, config, merged, sections_of
from tidemill.datastream.state import StateTtlConfig
from tidemill.state.codecs.ttl import Stamped
from tidemill.state.files.rows import APPEND, DELETE, PUT
from tidemill.state.files.sections import read_rows
from tidemill.state.files.ttl_declared import MAX_TIME, MIN_TIME
from tidemill.state.files.ttl_merge import CommittedTimes

DROPPING = config().cleanup_in_rocksdb_compact_filter(1).build()


def at(clock: int, started: int = -1, **watermarks: int) -> CommittedTimes:
    return CommittedTimes(clock, started, watermarks)


def rows_of(files: list[bytes], state: str) -> list[tuple[Any, int, Any]]:
    """(key or map key, op, value) of one state, by name."""
    found = []
    for section in sections_of(files):
        if section.state == state:
            rows = read_rows(section)
            ops = rows.ops or [PUT] * len(rows.keys)
            names = rows.user_keys if section.kind == "map" else rows.keys
            found += list(zip(names, ops, rows.values, strict=True))
    return sorted(found, key=lambda row: str(row[0]))


def two_runs(ttl: StateTtlConfig | None = DROPPING) -> Expiring:
    """Keys ``old`` and ``both`` written at 0, ``both`` and ``new`` written at 60."""
    states = Expiring(ttl)
    for now, keys in ((0, ("old", "both")), (60, ("both", "new"))):
        for key in keys:
            states.at(now).key(key).write_all()
        states.commit()
    return states


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_merge_leaves_out_what_has_expired(kind: str) -> None:
    states = two_runs()
    for now, left in ((TTL - 1, {"old", "both", "new"}), (TTL, {"both", "new"}), (60 + TTL, set())):
        files = merged(states.files, at(now))
        restored = Expiring(config().build(), files, now=now)
        assert restored.in_memory().get(kind, 0) == len(left)
        direct = Expiring(config().build(), states.files, now=now)
        for key in ("old", "both", "new"):
            assert restored.key(key).read(kind) == direct.key(key).read(kind)


def test_an_element_is_left_out_of_its_list() -> None:
    files = merged(two_runs().files, at(TTL))
    assert rows_of(files, "list") == [("both", PUT, [Stamped(1, 60)]), ("new", PUT, [Stamped(1, 60)])]


@pytest.mark.parametrize("kind", ["value", "map", "reducing", "aggregating"])
def test_above_older_runs_a_dropped_entry_leaves_a_delete(kind: str) -> None:
    states = Expiring(DROPPING)
    states.write(kind)
    below = states.commit()
    states.at(10).write(kind, 2)
    states.commit()
    states.at(20).write(kind, 3)
    states.commit()
    assert below is not None
    files = merged(states.files[1:], at(20 + TTL), keep_deletes=True)
    assert [(op, value) for _, op, value in rows_of(files, kind)] == [(DELETE, None)]
    # Were it not there, the entry below would be back for a program with a longer time to live.
    assert Expiring(config(10**6).build(), [below, *files]).read(kind) == NOTHING[kind]
    assert merged([below, *files], None) == []


def test_above_older_runs_lists_lose_elements_but_nothing_below_them() -> None:
    states = Expiring(DROPPING)
    states.key("appended").list.add("a")
    states.key("replaced").list.add("a")
    states.commit()
    states.at(10)
    states.key("appended").list.add("b")
    states.key("replaced").list.update(["b"])
    states.commit()
    states.at(50)
    states.key("appended").list.add("c")
    states.commit()
    files = merged(states.files[1:], at(10 + TTL), keep_deletes=True)
    assert rows_of(files, "list") == [("appended", APPEND, [Stamped("c", 50)]), ("replaced", DELETE, [])]
    files = merged(states.files[1:], at(50 + TTL), keep_deletes=True)
    assert rows_of(files, "list") == [("replaced", DELETE, [])]
    longer = Expiring(config(10**6).build(), [states.files[0], *files])
    assert (list(longer.key("appended").list), list(longer.key("replaced").list)) == (["a"], [])


def test_plain_columns_and_rows_are_dropped_alike() -> None:
    """Text keys are merged as columns, others as Python objects: the same must be left."""
    for keys in (["a", "b", "c"], [("a", 1), ("b", 2), ("c", 3)]):
        states = Expiring(DROPPING)
        for now, key in enumerate(keys):
            states.at(now * 10).key(key).value.update(key)
            states.commit()
        states.key(keys[1]).value.clear()
        states.commit()
        for keep_deletes in (False, True):
            files = merged(states.files, at(TTL), keep_deletes=keep_deletes)
            gone = [(key, DELETE, None) for key in keys[:2]] if keep_deletes else []
            assert rows_of(files, "value") == [*gone, (keys[2], PUT, Stamped(keys[2], 20))]


def test_only_the_running_program_says_what_expires() -> None:
    states = two_runs()  # declared at 60, by a program that may have been replaced since
    assert merged(states.files, at(10**6, started=60)) == merged(states.files, None)
    longer = config(10**7).cleanup_full_snapshot().build()
    again = Expiring(longer, states.files, now=61)
    again.key("another").write_all()
    again.commit()
    files = merged(again.files, at(10**6, started=60))  # the newest section tells
    assert Expiring(longer, files).in_memory() == dict.fromkeys(KINDS, 4)


def test_a_merge_drops_nothing_if_no_cleanup_in_the_background_is_wanted() -> None:
    states = two_runs(config().build())
    assert merged(states.files, at(10**6)) == merged(states.files, None)


def test_a_merge_drops_nothing_of_a_state_that_is_plain_again() -> None:
    states = Expiring(None, two_runs().files, now=70)
    states.key("another").write_all()
    states.commit()
    files = merged(states.files, at(10**6))
    assert Expiring(None, files).in_memory() == dict.fromkeys(KINDS, 4)
    assert all("ttl" not in section.schema for section in sections_of(files))
    assert Expiring(None, files).key("both").seen()["list"] == [1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_entries_from_before_it_was_turned_on_count_from_then(kind: str) -> None:
    plain = two_runs(None)
    states = Expiring(DROPPING, plain.files, now=500)
    states.key("another").write_all()
    states.commit()
    for now, left in ((500 + TTL - 1, 4), (500 + TTL, 0)):
        files = merged(states.files, at(now))
        assert Expiring(config().build(), files, now=now).in_memory().get(kind, 0) == left
    kept = merged(states.files, at(510))
    assert Expiring(DROPPING, kept, now=500 + TTL - 1).key("old").read(kind) == HELD[kind]
    assert Expiring(DROPPING, kept, now=500 + TTL).key("old").read(kind) == NOTHING[kind]


# --- event time


def by_watermark() -> Expiring:
    states = Expiring(config().use_event_time().cleanup_full_snapshot().build(), now=7)
    for timestamp, key in ((1000, "a"), (1050, "b"), (None, "timeless")):
        states.clock.record_timestamp = timestamp
        states.key(key).write_all()
    states.commit()
    return states


@pytest.mark.parametrize("kind", KINDS)
def test_event_time_expires_by_the_committed_watermark(kind: str) -> None:
    states = by_watermark()
    for watermark, left in ((MIN_TIME, 3), (1000 + TTL - 1, 3), (1000 + TTL, 2), (1050 + TTL, 1), (MAX_TIME, 3)):
        files = merged(states.files, at(10**9, op=watermark))
        assert Expiring(None, files).in_memory()[kind] == left
    assert merged(states.files, at(10**9)) == merged(states.files, None)  # no watermark of this operator is known
    assert merged(states.files, at(10**9, other=10**9)) == merged(states.files, None)


def test_what_has_no_time_expires_once_its_start_is_known() -> None:
    states = by_watermark()
    states.clock.current_watermark = 1000
    states.key("c").write_all()
    states.commit()
    times = at(10**9, op=1000 + TTL)
    assert Expiring(None, merged(states.files, times)).in_memory() == dict.fromkeys(KINDS, 1)  # b, which is younger
    assert Expiring(None, merged(states.files, at(10**9, op=1000 + TTL - 1))).in_memory() == dict.fromkeys(KINDS, 4)


def test_a_later_put_with_an_earlier_time_still_hides_the_older_one() -> None:
    states = Expiring(config().use_event_time().cleanup_full_snapshot().build(), now=7)
    for timestamp in (2000, 1000):
        states.clock.record_timestamp = timestamp
        states.value.update(timestamp)
        states.commit()
    upper = merged(states.files[1:], at(10**9, op=1000 + TTL), keep_deletes=True)
    restored = Expiring(config().use_event_time().build(), [states.files[0], *upper], watermark=1000 + TTL)
    assert restored.value.value() is None


def test_times_by_different_clocks_are_not_compared() -> None:
    states = Expiring(DROPPING, now=10**12)
    states.key("by clock").value.update(1)
    states.commit()
    again = Expiring(config().use_event_time().cleanup_full_snapshot().build(), states.files, now=10**12, watermark=500)
    again.clock.record_timestamp = 600
    again.key("by watermark").value.update(2)
    again.commit()
    files = merged(again.files, at(10**12, op=500 + TTL))
    assert rows_of(files, "value") == [("by watermark", PUT, Stamped(2, 600))]
    files = merged(again.files, at(10**12, op=500 + TTL - 1))
    assert rows_of(files, "value")[0] == ("by clock", PUT, Stamped(1, 500))
