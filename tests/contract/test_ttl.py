"""Time to live is the same over every backend."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.keyed_state import Backends, to_file
from tests.thorough import examples
from tests.unit.state.keyed.test_ttl_model import CLEANUPS, STEPS, check_against_model
from tests.unit.state.ttl_states import HELD, KINDS, NOTHING, TTL, Expiring, config
from tidemill.common.typeinfo import Types
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidemill.state.keyed.backend import StateVersion


@settings(
    max_examples=examples(20),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, cleanup=st.sampled_from(CLEANUPS), on_read=st.booleans())
def test_an_expired_entry_looks_like_none(
    new_backend: Backends, steps: Any, cleanup: StateTtlConfig.Builder, on_read: bool
) -> None:
    check_against_model(steps, cleanup, on_read, new_backend)
    new_backend.close()


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_lives_up_to_the_last_millisecond(new_backend: Backends, kind: str) -> None:
    states = Expiring(config().build(), now=1000, new_backend=new_backend)
    states.write(kind)
    states.commit()
    assert states.at(1000 + TTL - 1).read(kind) == HELD[kind]
    assert states.at(1000 + TTL).read(kind) == NOTHING[kind]
    states.commit()
    assert states.backend.entries() == 0


def test_a_walk_continues_over_epochs_until_all_is_clean(new_backend: Backends) -> None:
    ttl = config().cleanup_in_rocksdb_compact_filter(1).build()
    states = Expiring(ttl, new_backend=new_backend, per_epoch=300)
    for key in range(1000):
        states.key(key, key % 2 or None).write_all()
    states.commit()
    states.at(60).key("young").write_all()
    states.commit()
    states.at(TTL)
    for _ in range(6):
        states.commit()
    assert states.in_memory() == dict.fromkeys(KINDS, 1)
    assert states.key("young").seen() == HELD


def test_turned_on_off_and_changed(new_backend: Backends) -> None:
    plain = Expiring(None, new_backend=new_backend).write_all()
    plain.commit()
    on = Expiring(config().build(), plain.files, now=500, new_backend=new_backend)
    assert on.at(500 + TTL - 1).seen() == HELD
    on.key("new").write_all()
    on.commit()
    longer = Expiring(config(10 * TTL).build(), on.files, now=500 + TTL, new_backend=new_backend)
    assert longer.seen() == HELD
    off = Expiring(None, on.files, now=10**9, new_backend=new_backend)
    assert off.seen() == HELD
    assert off.key("new").seen() == HELD


def test_entries_without_a_time_count_from_the_same_time_on_a_worker_that_comes_back(new_backend: Backends) -> None:
    ttl = config().set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime).build()
    states = Expiring(ttl, new_backend=lambda: new_backend(job_id="here")).write_all()  # before the first watermark
    states.commit()
    states.clock.current_watermark = 1000
    states.key("other").write_all()
    states.files.append(to_file(states.backend.export_delta()))
    states.backend.fold(StateVersion("lineage", 2, 2))
    states.backend.close(forget=False)

    def back(watermark: int) -> Expiring:
        found = new_backend(job_id="here")
        files = [] if found.version() is not None else states.files
        return Expiring(ttl, files, watermark=watermark, new_backend=lambda: found)

    again = back(1000 + TTL - 1)
    assert again.key("key").seen() == HELD
    again.clock.current_watermark = 1000 + TTL
    assert again.key("key").seen() == NOTHING


def test_typed_values_keep_their_types(new_backend: Backends) -> None:
    backend = new_backend(key_type=Types.STRING())
    value = ValueStateDescriptor("value", Types.TUPLE([Types.LONG(), Types.STRING()]))
    elements = ListStateDescriptor("list", Types.DOUBLE())
    entries = MapStateDescriptor("map", Types.STRING(), Types.LIST(Types.LONG()))
    for descriptor in (value, elements, entries):
        descriptor.enable_time_to_live(config().build())
    one, several, named = backend.value_state(value), backend.list_state(elements), backend.map_state(entries)
    backend.begin_epoch()
    backend.context.key = "k"
    one.update((1, "a"))
    several.add_all([1.5, 2.5])
    named.put("x", [1, 2])
    for _ in range(2):
        backend.export_delta()
        backend.fold()
        backend.begin_epoch()
        assert (one.value(), list(several.get()), dict(named.items())) == ((1, "a"), [1.5, 2.5], {"x": [1, 2]})
        named.get("x").append(3)  # a copy
    backend.time.processing_time = TTL
    assert (one.value(), list(several.get()), dict(named.items())) == (None, [], {})
