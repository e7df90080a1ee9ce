"""What is stored under a time to live, and what becomes of it when a program turns it on, off, or changes it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.state.backends import make_backend, restore
from tests.unit.state.ttl_states import HELD, KINDS, NOTHING, TTL, Expiring, config, sections_of
from tidemill.common.typeinfo import Types
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidemill.errors import SerializationError
from tidemill.state.codecs.column_codecs import codec_for, decode_column, encode_column
from tidemill.state.codecs.ttl import Stamped, StampedTypeInfo, TtlCodec
from tidemill.state.files.state_file import Section, encode_sections
from tidemill.state.files.ttl_declared import stored_ttl

LONGER = config(10 * TTL).build()


def written(ttl: StateTtlConfig | None, now: int = 0) -> list[bytes]:
    states = Expiring(ttl, now=now).write_all()
    states.commit()
    return states.files


# --- the form it is stored in


def test_a_column_is_a_struct_that_any_reader_understands() -> None:
    values = [Stamped("a", 5), None, Stamped(None, 6)]
    field, array = encode_column("value", TtlCodec(codec_for(Types.STRING())), values)
    assert str(field.type) == "struct<value: large_string, last_access: int64 not null>"
    assert json.loads(field.metadata[b"tidemill.codec"])["codec"] == "ttl"
    assert array.to_pylist() == [{"value": "a", "last_access": 5}, None, {"value": None, "last_access": 6}]
    assert decode_column(field, array) == values
    assert decode_column(field, array.slice(1)) == values[1:]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.LONG(), 7),
        (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), ("a", 1.5)),
        (Types.LIST(Types.LONG()), [1, 2]),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
        (Types.PICKLED_BYTE_ARRAY(), {"any": [object, 1]}),
        (Types.PICKLED_BYTE_ARRAY(), 5),
    ],
)
def test_values_of_any_type_come_back_with_their_times(declared: Any, value: Any) -> None:
    field, array = encode_column("value", codec_for(StampedTypeInfo(declared)), [Stamped(value, 3), None])
    batch = pa.record_batch([array], schema=pa.schema([field]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    table = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert decode_column(table.schema.field(0), table.column(0)) == [Stamped(value, 3), None]


def test_a_value_without_a_time_is_refused() -> None:
    with pytest.raises(SerializationError, match="a value with the time of its last access"):
        encode_column("value", TtlCodec(codec_for(None)), [Stamped(1, 1), 2])


def test_a_section_has_its_time_to_live_and_its_plain_types() -> None:
    ttl = config().cleanup_full_snapshot().update_ttl_on_read_and_write().build()
    for section in sections_of(written(ttl, now=42)):
        assert section.schema["ttl"] == {
            "v": 1,
            "ttl": TTL,
            "update": "OnReadAndWrite",
            "time": "ProcessingTime",
            "since": 42,
            "declared": 42,
            "in_merges": True,
        }
        assert section.schema["types"]["value"] == {"kind": "pickled"}
        assert section.schema["types"]["kind"] == section.state
    assert all("ttl" not in section.schema for section in sections_of(written(None)))


def test_a_later_version_of_it_is_refused() -> None:
    with pytest.raises(SerializationError, match="version 2"):
        stored_ttl({"ttl": {"v": 2}})


@pytest.mark.parametrize("kind", KINDS)
def test_times_survive_a_restore(kind: str) -> None:
    files = written(config().build(), now=50)
    assert Expiring(config().build(), files, now=50 + TTL - 1).read(kind) == HELD[kind]
    assert Expiring(config().build(), files, now=50 + TTL).read(kind) == NOTHING[kind]


# --- on, off, changed


@pytest.mark.parametrize("kind", KINDS)
def test_turned_on_entries_live_from_the_restore_on(kind: str) -> None:
    files = written(None)
    states = Expiring(config().build(), files, now=5000)
    assert states.read(kind) == HELD[kind]
    assert states.commit() is not None  # with the times, so that a later start does not begin to count again
    assert states.at(5000 + TTL - 1).read(kind) == HELD[kind]
    assert states.at(5000 + TTL).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_it_was_turned_on_is_stored_though_nothing_is_written(kind: str) -> None:
    states = Expiring(config().build(), written(None), now=5000)
    states.commit()
    again = Expiring(config().build(), states.files, now=5000 + TTL - 1)
    again.commit()
    assert Expiring(config().build(), again.files, now=5000 + TTL).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_once_set_the_time_it_was_turned_on_does_not_move(kind: str) -> None:
    states = Expiring(config().build(), written(None), now=5000)
    states.key("other").write_all()
    states.commit()
    again = Expiring(config().build(), states.files, now=5000 + TTL - 1)
    assert again.read(kind) == HELD[kind]
    assert again.at(5000 + TTL).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_turned_off_entries_are_plain_and_live_for_ever(kind: str) -> None:
    files = written(config().build())
    states = Expiring(None, files, now=10**9)
    assert states.read(kind) == HELD[kind]
    states.write(kind, 2)
    states.commit()
    expected = {"value": 2, "list": [1, 2], "map": {"k": 2}, "reducing": 3, "aggregating": (1, 2)}[kind]
    assert states.read(kind) == expected
    assert Expiring(None, states.files).read(kind) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_off_and_on_again(kind: str) -> None:
    states = Expiring(None, written(config().build()), now=500)
    states.write(kind, 2)
    states.commit()
    on = Expiring(config().build(), states.files, now=900)
    seen = on.read(kind)
    expected = {"value": 2, "list": [1, 2], "map": {"k": 2}, "reducing": 3, "aggregating": (1, 2)}[kind]
    assert seen == expected
    assert on.at(900 + TTL).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("between", [None, config().use_event_time().build()], ids=["off", "event time"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_touched_meanwhile_counts_from_the_restart_on(kind: str, between: StateTtlConfig | None) -> None:
    """The times from before were written last, and must not count again."""
    meanwhile = Expiring(between, written(config().build()), now=500)
    meanwhile.commit()
    on = Expiring(config().build(), meanwhile.files, now=900)
    assert on.read(kind) == HELD[kind]
    assert on.at(900 + TTL).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_times_older_than_an_entry_without_one_do_not_count(kind: str) -> None:
    """As where a large state is turned on again before all of it was written without times."""
    before = Expiring(config().build())
    before.write_all().key("other").write_all()
    before.commit()
    between = Expiring(None)
    between.write_all()
    between.commit()
    on = Expiring(config().build(), before.files + between.files, now=900)
    assert on.key("other").read(kind) == HELD[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_time_to_live_holds_for_what_is_stored(kind: str) -> None:
    files = written(config().build())
    assert Expiring(LONGER, files, now=10 * TTL - 1).read(kind) == HELD[kind]
    assert Expiring(LONGER, files, now=10 * TTL).read(kind) == NOTHING[kind]
    assert Expiring(config(5).build(), files, now=5).read(kind) == NOTHING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_times_by_another_clock_count_from_the_restore_on(kind: str) -> None:
    files = written(config().build(), now=10**12)
    by_event_time = config().use_event_time().build()
    states = Expiring(by_event_time, files, now=10**12, watermark=700)
    assert states.read(kind) == HELD[kind]
    states.clock.current_watermark = 700 + TTL - 1
    assert states.read(kind) == HELD[kind]
    states.clock.current_watermark = 700 + TTL
    assert states.read(kind) == NOTHING[kind]


def test_without_a_watermark_yet_they_count_from_the_first_one_on() -> None:
    states = Expiring(config().use_event_time().build(), written(None))
    states.clock.current_watermark = 10**9
    assert states.seen() == HELD
    states.clock.current_watermark = 10**9 + TTL
    assert states.seen() == NOTHING


def test_entries_can_be_loaded_after_the_state_is_registered() -> None:
    files = written(config().build()) + written(None, now=1)
    states = Expiring(config().build(), now=20)
    restore(states.backend, files)
    states.backend.begin_epoch()
    assert states.at(20 + TTL - 1).value.value() == 1
    assert states.at(20 + TTL).value.value() is None


def test_deletes_of_plain_entries_stay_deletes() -> None:
    states = Expiring(None).write_all()
    states.map.put("b", None)
    states.commit()
    states.value.clear()
    states.list.clear()
    states.map.remove("k")
    states.commit()
    on = Expiring(config().build(), states.files)
    assert (on.value.value(), list(on.list), dict(on.map.items())) == (None, [], {"b": None})
    assert on.map.contains("b")


def test_a_changed_type_and_a_time_to_live_go_together() -> None:
    def backend_with(files: list[bytes], value: Any, element: Any, user: Any) -> Any:
        backend = restore(make_backend(), files)
        made: list[Any] = [
            ValueStateDescriptor("v", value),
            ListStateDescriptor("l", element),
            MapStateDescriptor("m", Types.STRING(), user),
        ]
        for descriptor in made:
            descriptor.enable_time_to_live(config().build())
        states = backend.value_state(made[0]), backend.list_state(made[1]), backend.map_state(made[2])
        backend.begin_epoch()
        backend.context.key = "k"
        return backend, states

    first, (value, items, entries) = backend_with([], Types.INT(), Types.INT(), Types.FLOAT())
    value.update(3)
    items.add(4)
    entries.put("a", 1.5)
    file = encode_sections(first.export_delta())[0]
    second, (value, items, entries) = backend_with([file], Types.DOUBLE(), Types.LONG(), Types.DOUBLE())
    assert (value.value(), list(items), entries.get("a")) == (3.0, [4], 1.5)
    assert isinstance(value.value(), float)
    second.time.processing_time = TTL
    assert value.value() is None


def test_a_state_keeps_its_times_when_it_moves_between_subtasks() -> None:
    states = Expiring(config().build())
    for number in range(40):
        states.at(number).key(number).value.update(number)
    states.commit()
    found = {}
    for subtask in range(3):
        backend = restore(make_backend(3, subtask), states.files)
        backend.time.processing_time = 20 + TTL
        descriptor = ValueStateDescriptor("value")
        descriptor.enable_time_to_live(config().build())
        state = backend.value_state(descriptor)
        for key in list(backend.keys("value")):
            backend.context.key = key
            found[key] = state.value()
    assert {key for key, value in found.items() if value is not None} == set(range(21, 40))
    assert len(found) == 40


def test_sections_are_plain_data() -> None:
    section = sections_of(written(config().build()))[0]
    assert isinstance(section, Section)
    assert json.loads(json.dumps(section.schema)) == section.schema
