"""States with a time to live: what is seen of an entry, and when it is not seen any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.state.backends import make_backend
from tests.unit.state.ttl_states import HELD, KINDS, NOTHING, TTL, Expiring, config
from tidemill.common.time import Duration, Time
from tidemill.common.typeinfo import Types
from tidemill.datastream.state import StateTtlConfig, ValueStateDescriptor
from tidemill.state.files.ttl_declared import MAX_TIME, MIN_TIME
from tidemill.state.keyed.hashmap import HashMapBackend


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_lives_up_to_the_last_millisecond(kind: str) -> None:
    states = Expiring(config().build(), now=1000)
    states.write(kind)
    assert states.read(kind) == HELD[kind]
    states.commit()
    assert states.at(1000 + TTL - 1).read(kind) == HELD[kind]
    assert states.at(1000 + TTL).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_entry_that_is_read_is_removed(kind: str) -> None:
    states = Expiring(config().build())
    states.write(kind)
    states.commit()
    assert states.in_memory() == {kind: 1}
    states.at(TTL).read(kind)
    assert states.commit() is not None  # a delete, so that files shrink too
    assert states.in_memory() == {}
    assert Expiring(config().build(), states.files, now=0).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_returned_expired_is_returned_once(kind: str) -> None:
    states = Expiring(config().return_expired_if_not_cleaned_up().build())
    states.write(kind)
    states.commit()
    assert states.at(TTL + 50).read(kind) == HELD[kind]
    assert states.read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_writing_renews(kind: str) -> None:
    states = Expiring(config().build())
    states.write(kind)
    states.commit()
    states.at(60)
    states.write(kind, 2)
    states.commit()
    seen = states.at(60 + TTL - 1).read(kind)
    # A list's elements have each their own time; everything else has one.
    assert seen == {"value": 2, "list": [2], "map": {"k": 2}, "reducing": 3, "aggregating": (1, 2)}[kind]
    assert states.at(60 + TTL).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("renews", [False, True])
def test_reading_renews_only_if_it_shall(kind: str, renews: bool) -> None:
    builder = config()
    states = Expiring((builder.update_ttl_on_read_and_write() if renews else builder).build())
    states.write(kind)
    states.commit()
    assert states.at(60).read(kind) == HELD[kind]
    assert (states.commit() is not None) == renews  # the renewed time is part of the state
    assert states.at(TTL).read(kind) == (HELD[kind] if renews else NOTHING[kind])


def test_reading_again_in_the_same_millisecond_writes_nothing() -> None:
    states = Expiring(config().update_ttl_on_read_and_write().build())
    states.write_all()
    states.commit()
    assert states.seen() == HELD
    assert states.commit() is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_disabled_time_to_live_is_none(kind: str) -> None:
    states = Expiring(config(1).set_update_type(StateTtlConfig.UpdateType.Disabled).build())
    states.write(kind)
    states.commit()
    assert states.at(10**15).read(kind) == HELD[kind]
    assert type(getattr(states, kind)).__name__.startswith("Keyed")


def test_each_entry_of_a_map_has_its_own_life() -> None:
    states = Expiring(config().build())
    states.map.put("old", 1)
    states.map.put("kept", 1)
    states.commit()
    states.at(50)
    states.map.put_all({"kept": 2, "new": 3})
    states.commit()
    states.at(TTL)
    assert dict(states.map.items()) == {"kept": 2, "new": 3}
    assert not states.map.contains("old")
    assert states.map.get("old") is None
    assert list(states.map.keys()) == list(states.map) == ["kept", "new"]
    assert list(states.map.values()) == [2, 3]
    states.at(50 + TTL)
    assert states.map.is_empty()
    assert list(states.map.items()) == []
    states.commit()
    assert states.in_memory() == {}


def test_a_map_entry_can_hold_none_and_be_removed() -> None:
    states = Expiring(config().build())
    states.map.put("a", None)
    states.map.put("b", 2)
    states.commit()
    assert states.map.contains("a")
    assert states.map.get("a") is None
    states.map.remove("a")
    states.map.remove("never there")
    states.commit()
    assert dict(states.map.items()) == {"b": 2}
    restored = Expiring(config().build(), states.files)
    assert dict(restored.map.items()) == {"b": 2}


def test_each_element_of_a_list_has_its_own_life() -> None:
    states = Expiring(config().build())
    states.list.add("a")
    states.commit()
    states.at(50)
    states.list.add_all(["b", "c"])
    states.commit()
    states.at(TTL)
    assert list(states.list) == ["b", "c"]
    assert states.commit() is None  # the list is not rewritten for being read
    states.list.update(["d"])
    assert list(states.at(TTL + TTL - 1).list.get()) == ["d"]
    assert list(states.at(TTL + TTL).list.get()) == []


def test_reading_a_list_renews_what_is_alive_and_drops_the_rest() -> None:
    states = Expiring(config().update_ttl_on_read_and_write().build())
    states.list.add("a")
    states.commit()
    states.at(50)
    states.list.add("b")
    states.commit()
    states.at(120)
    assert list(states.list) == ["b"]
    states.commit()
    assert list(states.at(219).list) == ["b"]


def test_none_is_no_element_of_a_list() -> None:
    states = Expiring(config().build())
    with pytest.raises(ValueError, match="None cannot be an element"):
        states.list.add(None)
    with pytest.raises(ValueError, match="None cannot be an element"):
        states.list.update([1, None])


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_adding_none_clears(kind: str) -> None:
    states = Expiring(config().build())
    states.write(kind)
    states.commit()
    getattr(states, kind).add(None)
    assert states.read(kind) is None


def test_an_expired_value_gives_the_default_and_none_clears() -> None:
    descriptor: Any = ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY(), default_value=[0])
    descriptor.enable_time_to_live(config().build())
    backend = make_backend()
    state = backend.value_state(descriptor)
    backend.context.key = "a"
    assert state.value() == [0]
    state.value().append(1)
    assert state.value() == [0]  # the default is nobody's to change
    state.update([5])
    assert state.value() == [5]
    backend.time.processing_time = TTL
    assert state.value() == [0]
    state.update([6])
    state.update(None)
    assert state.value() == [0]


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_an_expired_accumulator_is_no_part_of_a_new_one(kind: str) -> None:
    never = Expiring(config().build())
    never.write(kind, 10)
    never.commit()
    never.at(TTL).write(kind, 2)
    assert never.read(kind) in (2, (2,))
    may = Expiring(config().return_expired_if_not_cleaned_up().build())
    may.write(kind, 10)
    may.commit()
    may.at(TTL).write(kind, 2)
    assert may.read(kind) in (12, (10, 2))


def test_merged_namespaces_keep_the_newest_time() -> None:
    states = Expiring(config().build())
    for at, namespace in ((0, "w0"), (50, "w1"), (70, "w2")):
        states.at(at).key("key", namespace).write_all(at)
    states.commit()
    states.at(110)  # what w0 holds has expired
    for kind in ("list", "reducing", "aggregating"):
        getattr(states, kind).merge_namespaces("w2", ["w0", "w1"])
    seen = {kind: states.read(kind) for kind in ("list", "reducing", "aggregating")}
    assert seen["reducing"] == 120
    assert sorted(seen["aggregating"]) == [50, 70]
    assert sorted(seen["list"]) == [50, 70]
    states.commit()
    states.at(70 + TTL - 1)
    states.key("key", "w2")
    assert (states.reducing.get(), sorted(states.list.get())) == (120, [70])
    states.key("key", "w0")
    assert states.reducing.get() is None


def test_a_value_that_was_read_can_be_changed_without_changing_the_state() -> None:
    states = Expiring(config().build())
    states.value.update({"a": 1})
    states.map.put("k", [1])
    states.list.add([1])
    states.commit()
    states.value.value()["b"] = 2
    states.map.get("k").append(2)
    next(iter(states.list)).append(2)
    assert states.commit() is None
    assert (states.value.value(), states.map.get("k"), list(states.list)) == ({"a": 1}, [1], [[1]])


def test_a_clear_removes_all() -> None:
    states = Expiring(config().build()).write_all()
    states.commit()
    for kind in KINDS:
        getattr(states, kind).clear()
    states.commit()
    assert states.seen() == NOTHING
    assert states.in_memory() == {}


def test_a_very_long_life_does_not_end() -> None:
    states = Expiring(config(MAX_TIME).build(), now=MAX_TIME - 10).write_all()
    states.commit()
    assert states.at(MAX_TIME).seen() == HELD


def test_a_time_to_live_of_zero_is_refused() -> None:
    for length in (Time.milliseconds(0), Duration.of_nanos(999_999), Time.seconds(-1)):
        with pytest.raises(ValueError, match="at least one millisecond"):
            StateTtlConfig.new_builder(length).build()


# --- event time


def by_watermark(now: int = 0, watermark: int = MIN_TIME) -> Expiring:
    return Expiring(config().use_event_time().build(), now=now, watermark=watermark)


@pytest.mark.parametrize("kind", KINDS)
def test_by_event_time_an_entry_lives_until_the_watermark_ends_it(kind: str) -> None:
    states = by_watermark(now=10**15)
    states.clock.record_timestamp = 1000
    states.write(kind)
    states.commit()
    states.clock.record_timestamp = None
    assert states.read(kind) == HELD[kind]  # there is no watermark yet
    states.clock.current_watermark = 1000 + TTL - 1
    assert states.read(kind) == HELD[kind]
    states.clock.current_watermark = 1000 + TTL
    assert states.read(kind) == NOTHING[kind]


def test_what_a_late_record_writes_lives_as_long_as_any() -> None:
    states = by_watermark(watermark=5000)
    states.clock.record_timestamp = 10
    states.value.update(1)
    states.clock.current_watermark = 5000 + TTL - 1
    assert states.value.value() == 1
    states.clock.current_watermark += 1
    assert states.value.value() is None


def test_what_is_written_before_any_time_is_known_lives_from_the_first_watermark_on() -> None:
    states = by_watermark()
    states.value.update(1)
    states.commit()
    states.clock.current_watermark = 7000
    assert states.value.value() == 1
    states.clock.current_watermark = 7000 + TTL - 1
    assert states.value.value() == 1
    states.clock.current_watermark = 7000 + TTL
    assert states.value.value() is None


def test_a_read_by_an_older_record_does_not_shorten_a_life() -> None:
    states = Expiring(config().use_event_time().update_ttl_on_read_and_write().build())
    states.clock.record_timestamp = 500
    states.value.update(1)
    states.clock.record_timestamp = 100
    assert states.value.value() == 1
    states.clock.record_timestamp = None
    states.clock.current_watermark = 500 + TTL - 1
    assert states.value.value() == 1


def test_the_end_of_all_input_is_no_time() -> None:
    states = by_watermark(watermark=1000)
    states.value.update(1)
    states.clock.current_watermark = MAX_TIME
    assert states.value.value() == 1  # a timer that fires at the end still finds it
    states.map.put("k", 1)
    assert states.map.get("k") == 1


def test_nothing_was_ever_older_than_the_beginning_of_time() -> None:
    states = by_watermark()
    states.value.update(1)
    states.clock.current_watermark = MIN_TIME + 1
    assert states.value.value() == 1


def test_states_without_a_time_to_live_are_the_plain_ones() -> None:
    backend = make_backend()
    assert isinstance(backend, HashMapBackend)
    assert type(backend.value_state(ValueStateDescriptor("v"))).__name__ == "KeyedValueState"
    assert not backend.event_time_ttl
