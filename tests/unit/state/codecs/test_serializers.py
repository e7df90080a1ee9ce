"""Type snapshots: what is stored of a state's types, and what a program that declares others may do with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field, make_dataclass
from enum import Enum
from typing import Any

import pytest

from tests.unit.state import golden
from tests.unit.state.backends import commit, make_backend, restore
from tests.unit.state.golden import TYPED, Access, Color, Pair, Place
from tidemill.common import Row, Types
from tidemill.common.typeinfo import DataclassTypeInfo, EnumTypeInfo, NamedTupleTypeInfo, TypeInformation
from tidemill.common.types import RowKind
from tidemill.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import SerializationError, StateError
from tidemill.state.codecs.serializers import Convert, Incompatible, Same, compatibility, parse_type_snapshot, type_text
from tidemill.state.files.state_file import decode_sections, encode_sections
from tidemill.state.keyed.kinds import shape_of
from tidemill.state.merging import merge_sections

T = Types


def decide(stored: TypeInformation, declared: TypeInformation, *, is_key: bool = False) -> Any:
    """As a restore does: on what JSON keeps of the types."""
    return compatibility(
        json.loads(json.dumps(stored.describe())), json.loads(json.dumps(declared.describe())), is_key=is_key
    )


ALL_TYPES: list[TypeInformation] = [
    *dict.fromkeys(type_info for type_info, _ in TYPED.values()),
    T.PICKLED_BYTE_ARRAY(),
    T.OPTIONAL(T.LONG()),
]


@pytest.mark.parametrize("type_info", ALL_TYPES, ids=repr)
def test_every_type_is_the_same_as_itself_and_can_be_shown(type_info: TypeInformation) -> None:
    assert decide(type_info, type_info) == Same()
    assert decide(type_info, type_info, is_key=True) == Same()
    text = type_text(json.loads(json.dumps(type_info.describe())))
    assert text
    if not isinstance(type_info, (DataclassTypeInfo, NamedTupleTypeInfo, EnumTypeInfo)):
        assert text == repr(type_info)


def test_no_type_becomes_another_one_but_by_a_rule() -> None:
    allowed = {
        (stored, declared)
        for stored in ALL_TYPES
        for declared in ALL_TYPES
        if stored != declared and isinstance(decide(stored, declared), Convert)
    }
    pickled = T.PICKLED_BYTE_ARRAY()
    free = {(a, b) for a, b in allowed if pickled in (a, b)}
    assert len(free) == 2 * (len(ALL_TYPES) - 1)
    integers = [T.BYTE(), T.SHORT(), T.INT(), T.LONG(), T.BIG_INT()]
    wider = {(a, b) for i, a in enumerate(integers) for b in integers[i + 1 :]}
    to_float = {(a, b) for a in integers[:3] for b in (T.FLOAT(), T.DOUBLE())}
    others = {(T.FLOAT(), T.DOUBLE()), (T.CHAR(), T.STRING())}
    optional = {(a, T.OPTIONAL(T.LONG())) for a in integers[:4]} | {(T.OPTIONAL(T.LONG()), T.BIG_INT())}
    assert allowed - free == wider | to_float | others | optional


CHANGES: list[tuple[TypeInformation, TypeInformation, Any, Any]] = [
    (T.INT(), T.DOUBLE(), 3, 3.0),
    (T.LIST(T.INT()), T.LIST(T.DOUBLE()), [1, 2], [1.0, 2.0]),
    (T.OBJECT_ARRAY(T.INT()), T.OBJECT_ARRAY(T.DOUBLE()), [1, None], [1.0, None]),
    (T.MAP(T.STRING(), T.INT()), T.MAP(T.STRING(), T.FLOAT()), {"a": 1, "b": None}, {"a": 1.0, "b": None}),
    (T.TUPLE([T.INT(), T.CHAR()]), T.TUPLE([T.DOUBLE(), T.STRING()]), (1, "x"), (1.0, "x")),
    (T.ROW([T.INT()]), T.ROW([T.DOUBLE()]), Row(1), Row(1.0)),
    (
        T.ROW_NAMED(["a", "b"], [T.INT(), T.LONG()]),
        T.ROW_NAMED(["c", "b", "a"], [T.STRING(), T.LONG(), T.DOUBLE()]),
        Row(a=1, b=2),
        Row(c=None, b=2, a=1.0),
    ),
    (T.ROW_NAMED(["a", "b"], [T.INT(), T.LONG()]), T.ROW_NAMED(["b"], [T.LONG()]), Row(a=1, b=2), Row(b=2)),
    (T.OPTIONAL(T.INT()), T.OPTIONAL(T.DOUBLE()), 1, 1.0),
    (T.INT(), T.OPTIONAL(T.DOUBLE()), 1, 1.0),
]


@pytest.mark.parametrize(("stored", "declared", "value", "wanted"), CHANGES)
def test_values_are_converted(stored: TypeInformation, declared: TypeInformation, value: Any, wanted: Any) -> None:
    change = decide(stored, declared)
    assert isinstance(change, Convert)
    assert change.apply is not None
    made = change.apply(value)
    assert made == wanted
    assert repr(made) == repr(wanted)
    declared.validate(made)


def test_a_row_keeps_its_kind() -> None:
    change = decide(T.ROW_NAMED(["a"], [T.INT()]), T.ROW_NAMED(["a", "b"], [T.INT(), T.INT()]))
    row = Row.of_kind(RowKind.DELETE, a=1)
    assert change.apply(row).get_row_kind() is RowKind.DELETE


def with_fields(*fields: Any) -> TypeInformation:
    return T.DATACLASS(make_dataclass("Evolving", fields, namespace={"__module__": __name__}))


def test_a_dataclass_may_gain_fields_with_defaults_and_lose_fields() -> None:
    old = with_fields(("a", int), ("b", str))
    assert decide(old, with_fields(("a", int))) == Convert()
    assert decide(old, with_fields(("a", int), ("b", str), ("c", int, 5))) == Convert()
    assert decide(old, with_fields(("a", int), ("b", str), ("c", list[int], field(default_factory=list)))) == Convert()
    assert decide(old, with_fields(("b", str), ("a", int))) == Convert()
    assert decide(old, with_fields(("a", int), ("b", str), ("c", int))) == Incompatible(
        f"{__name__}:Evolving has a new field 'c', which needs a default"
    )
    assert decide(old, with_fields(("a", str), ("b", str))) == Incompatible("a: Long cannot become String")


def test_a_field_that_may_have_been_renamed_is_refused() -> None:
    """Its values would silently be None, or the default."""
    reason = (
        "the stored fields 'b' no longer exist, while 'c' are new. The values of renamed fields would be lost: keep "
        "the old fields beside the new ones"
    )
    old, new = T.ROW_NAMED(["a", "b"], [T.INT(), T.STRING()]), T.ROW_NAMED(["a", "c"], [T.INT(), T.STRING()])
    both = T.ROW_NAMED(["a", "b", "c"], [T.INT(), T.STRING(), T.STRING()])
    assert decide(old, new) == Incompatible(reason)
    assert decide(T.LIST(old), T.LIST(new)) == Incompatible(f"element: {reason}")
    assert not isinstance(decide(old, both), Incompatible)
    assert not isinstance(decide(both, new), Incompatible)
    assert decide(with_fields(("a", int), ("b", str)), with_fields(("a", int), ("c", str, ""))) == Incompatible(reason)


def test_a_key_may_be_widened_but_not_change_its_fields() -> None:
    old, new = with_fields(("a", int)), with_fields(("a", int), ("b", int, 0))
    assert isinstance(decide(old, new, is_key=True), Incompatible)
    assert isinstance(decide(new, old, is_key=True), Incompatible)
    assert isinstance(decide(T.MAP(old, T.LONG()), T.MAP(new, T.LONG())), Incompatible)
    rows = T.ROW_NAMED(["a"], [T.INT()]), T.ROW_NAMED(["a", "b"], [T.INT(), T.INT()])
    assert isinstance(decide(*rows, is_key=True), Incompatible)
    assert isinstance(decide(new, with_fields(("b", int, 0), ("a", int, 0)), is_key=True), Incompatible)
    assert decide(T.TUPLE([T.INT()]), T.TUPLE([T.LONG()]), is_key=True) == Convert()


def test_an_enum_may_gain_members() -> None:
    stages: list[Any] = [Enum("Stage", names, module=__name__) for names in ("A B", "A B C")]
    few, many = map(T.ENUM, stages)
    assert decide(few, many) == Convert()
    assert decide(many, few) == Incompatible(f"{__name__}:Stage no longer has the member 'C'")


def test_another_class_is_another_type() -> None:
    assert decide(T.ENUM(Color), T.ENUM(Access)) == Incompatible(
        f"{golden.__name__}:Color cannot become {golden.__name__}:Access"
    )
    assert isinstance(decide(T.DATACLASS(Place), with_fields(("city", str))), Incompatible)


@pytest.mark.parametrize("snapshot", [{"v": 2}, {}, [], "x"])
def test_a_snapshot_of_another_version_is_refused(snapshot: Any) -> None:
    with pytest.raises(SerializationError, match="types of a stored state are of version"):
        parse_type_snapshot(snapshot)


# --- through a backend, as a restarted program does

Register = Callable[[Any, Any], Any]


def value_of(backend: Any, type_info: Any) -> Any:
    return backend.value_state(ValueStateDescriptor("s", type_info))


def restarted(stored: Any, value: Any, declared: Any) -> Any:
    """A value stored by a program that declares one type, read by one that declares another."""
    before = make_backend()
    state = value_of(before, stored)
    before.context.key = "k"
    state.update(value)
    file = commit(before)
    assert file is not None
    after = restore(make_backend(), [file])
    state = value_of(after, declared)
    after.context.key = "k"
    return state.value()


def test_the_snapshot_is_in_every_section() -> None:
    backend = make_backend(key_type=T.STRING())
    backend.context.key = "k"
    backend.map_state(MapStateDescriptor("m", T.STRING(), T.LIST(T.LONG()))).put("x", [1])
    backend.list_state(ListStateDescriptor("l", T.DATACLASS(Place))).add(Place("here"))
    backend.reducing_state(ReducingStateDescriptor("r", max)).add(1)
    backend.event_timers.register(5, "k")
    file = commit(backend)
    assert file is not None
    types = {section.state: section.schema["types"] for section in decode_sections(file, "file")}
    text = {"kind": "basic", "name": "STRING"}
    number = {"kind": "basic", "name": "LONG"}
    assert types == {
        "m": {"v": 1, "kind": "map", "key": text, "user_key": text, "value": {"kind": "list", "element": number}},
        "l": {
            "v": 1,
            "kind": "list",
            "key": text,
            "value": {
                "kind": "dataclass",
                "class": f"{golden.__name__}:Place",
                "fields": {"city": text, "floor": number},
                "defaults": ["floor"],
            },
        },
        "r": {"v": 1, "kind": "reducing", "key": text, "value": {"kind": "pickled"}},
        "__timers_event": {"v": 1, "kind": "timer", "key": text, "value": number},
    }


@pytest.mark.parametrize(("stored", "declared", "value", "wanted"), CHANGES)
def test_a_restarted_program_finds_converted_values(
    stored: TypeInformation, declared: TypeInformation, value: Any, wanted: Any
) -> None:
    assert repr(restarted(stored, value, declared)) == repr(wanted)


def test_a_type_that_does_not_fit_is_refused_before_a_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_backend()
    before.context.key = "k"
    value_of(before, T.LONG()).update(1)
    file = commit(before)
    assert file is not None
    after = restore(make_backend(), [file])
    monkeypatch.setattr("tidemill.state.keyed.backend.read_rows", lambda *_: pytest.fail("a value was read"))
    with pytest.raises(StateError) as caught:
        value_of(after, T.STRING())
    assert str(caught.value) == (
        "operator 'op': state 's' is stored with values of another type than the program declares, and they cannot be "
        "converted: Long cannot become String\n"
        "    stored:   Long\n"
        "    declared: String\n"
        "Declare the stored type again, register a migration with migrate_from() of its descriptor, or give the state "
        "another name to start it empty"
    )


def test_keys_and_map_keys_are_checked_too() -> None:
    before = make_backend(key_type=T.LONG())
    before.context.key = 1
    before.map_state(MapStateDescriptor("m", T.LONG(), T.LONG())).put(1, 1)
    file = commit(before)
    assert file is not None
    with pytest.raises(StateError, match="stored with keys of another type"):
        restore(make_backend(key_type=T.STRING()), [file]).map_state(MapStateDescriptor("m", T.LONG(), T.LONG()))
    with pytest.raises(StateError, match="stored with map keys of another type"):
        restore(make_backend(key_type=T.LONG()), [file]).map_state(MapStateDescriptor("m", T.INT(), T.LONG()))


def test_a_type_declared_later_is_checked_against_the_values() -> None:
    assert restarted(None, 5, T.LONG()) == 5
    assert restarted(T.LONG(), 5, None) == 5
    with pytest.raises(StateError, match=r"state 's' contains a value that is not of .*expected Long, got str"):
        restarted(None, "five", T.LONG())


def test_list_elements_are_converted() -> None:
    before = make_backend()
    before.context.key = "k"
    before.list_state(ListStateDescriptor("s", T.INT())).add_all([1, 2])
    file = commit(before)
    assert file is not None
    after = restore(make_backend(), [file])
    state = after.list_state(ListStateDescriptor("s", T.DOUBLE()))
    after.context.key = "k"
    assert repr(list(state.get())) == "[1.0, 2.0]"


def test_a_merge_over_a_change_of_type_brings_all_values_to_the_newer_one() -> None:
    """Without the program: old rows become rows of the new type, so that one section has one type."""
    old, new = T.ROW_NAMED(["a"], [T.INT()]), T.ROW_NAMED(["a", "b"], [T.DOUBLE(), T.STRING()])
    files: list[bytes] = []
    for type_info, key, row in ((old, "k1", Row(a=1)), (new, "k2", Row(a=2.5, b="x"))):
        backend = restore(make_backend(), files)
        state = value_of(backend, type_info)
        backend.begin_epoch()
        backend.context.key = key
        state.update(row)
        file = commit(backend)
        assert file is not None
        files.append(file)
    sections = [section for file in files for section in decode_sections(file, "file")]
    (merged,) = merge_sections(sections, {"op": 16}, keep_deletes=False)
    assert merged.schema["types"]["value"] == new.describe()
    again = restore(make_backend(), [encode_sections([merged])[0]])
    state = value_of(again, new)
    found = {}
    for key in ("k1", "k2"):
        again.context.key = key
        found[key] = state.value()
    assert repr(found) == repr({"k1": Row(a=1.0, b=None), "k2": Row(a=2.5, b="x")})


# --- what typed values cost

#: Most bytes per value in a file of many, for each sample.
MOST = {
    "string": 15,
    "byte": 9,
    "boolean": 2,
    "short": 9,
    "int": 9,
    "long": 9,
    "float": 9,
    "double": 9,
    "char": 10,
    "big int": 23,
    "big dec": 14,
    "instant": 18,
    "date": 5,
    "time": 9,
    "timestamp": 9,
    "row": 19,
    "named row": 25,  # one that is a deletion
    "tuple": 10,
    "bytes": 11,
    "primitive array": 26,
    "basic array": 28,
    "object array": 27,
    "map": 46,
    "list": 26,
    "optional": 10,
    "dataclass": 22,
    "named tuple": 19,
    "enum": 14,
    "flag": 11,
}
COUNT = 1000


@pytest.mark.parametrize(("name", "most"), MOST.items())
def test_typed_values_are_compact_and_not_pickled(name: str, most: int) -> None:
    type_info, value = TYPED[name]
    type_info.validate(value)
    backend = make_backend(key_type=T.LONG())
    state = value_of(backend, type_info)
    for key in range(COUNT):
        backend.context.key = key
        state.update(value)
    file = commit(backend)
    assert file is not None
    assert b"\x80\x05\x95" not in file  # how a pickle of protocol 5 begins
    (section,) = decode_sections(file, "file")
    column = section.table.column("value")
    assert column.nbytes <= most * COUNT
    again = restore(make_backend(key_type=T.LONG()), [file])
    state = value_of(again, type_info)
    for key in range(0, COUNT, 100):
        again.context.key = key
        assert state.value() == value
        assert type(state.value()) is type(value)
    (merged,) = merge_sections([section, section], {"op": 16}, keep_deletes=False)
    assert b"\x80\x05\x95" not in encode_sections([merged])[0]
    assert merged.schema == section.schema


def test_every_type_of_the_catalogue_has_a_sample() -> None:
    missing = {type(t) for t in ALL_TYPES} - {type(t) for t, _ in map(TYPED.__getitem__, MOST)}
    assert {cls.__name__ for cls in missing} == {"PickledBytesTypeInfo", "OptionalTypeInfo"}  # which is in a tuple


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (T.LONG(), 2**63),
        (T.LONG(), "1"),
        (T.DOUBLE(), "1"),
        (T.STRING(), b"x"),
        (T.BOOLEAN(), 256),
        (T.SQL_DATE(), "2026-01-01"),
        (T.TUPLE([T.LONG()]), (1, 2)),
        (T.LIST(T.LONG()), [1, "2"]),
        (T.MAP(T.STRING(), T.LONG()), {"a": "b"}),
        (T.DATACLASS(Place), Pair("a")),
        (T.ENUM(Color), Access.READ),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_an_error(type_info: TypeInformation, value: Any) -> None:
    backend = make_backend()
    backend.context.key = "k"
    value_of(backend, type_info).update(value)
    with pytest.raises(SerializationError, match=r"state 's' of operator 'op' cannot be stored: column 'value': "):
        backend.export_delta()


def test_a_shape_without_declared_types_checks_nothing() -> None:
    shape = shape_of(ValueStateDescriptor("s", T.LONG()), None)
    assert shape.schema["types"]["value"] == {"kind": "basic", "name": "LONG"}
    assert "key" not in shape.schema["types"]
