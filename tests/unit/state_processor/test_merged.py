"""The last word on every entry, whatever the history: equal to what a restore loads."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.keyed_state import States
from tests.thorough import examples
from tests.unit.state.backends import MAX_PARALLELISM, commit, make_backend, restore
from tidemill.common import Types
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.errors import SerializationError
from tidemill.state.codecs.plain_values import as_plain
from tidemill.state.files.state_file import Section, decode_sections
from tidemill.state.merging import merge_sections
from tidemill.state_processor.merged import StateSchema, merged_entries, merged_table


class Color(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Place:
    city: str
    color: Color = Color.RED


KEYS = st.sampled_from([1, True, 2.5, "a", b"a", None, (1, "x"), Pair(1, "x"), Place("p"), Color.RED, float("nan")])
NAMESPACES = st.sampled_from([None, None, (0, 5), "w"])
VALUES = st.sampled_from([0, 1.5, "text", [1, 2], {"k": Place("q")}, Pair(3, "y"), None, dt.date(2026, 1, 1)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), KEYS, NAMESPACES, VALUES),
        st.tuples(st.just("add"), KEYS, NAMESPACES, VALUES),
        st.tuples(st.just("put"), KEYS, NAMESPACES, st.tuples(KEYS, VALUES)),
        st.tuples(st.just("remove"), KEYS, NAMESPACES, KEYS),
        st.tuples(st.just("clear"), KEYS, NAMESPACES, st.none()),
        st.tuples(st.just("commit"), st.none(), st.none(), st.none()),
    ),
    max_size=40,
)


def carry_out(states: States, step: tuple[str, Any, Any, Any]) -> None:
    action, key, namespace, argument = step
    states.at(key, namespace)
    if action == "update":
        states.value.update(argument)
    elif action == "add" and argument is not None:
        states.list.add(argument)
    elif action == "put":
        states.map.put(*argument)
    elif action == "remove":
        states.map.remove(argument)
    elif action == "clear":
        for state in states.all():
            state.clear()


def sections_of(files: list[bytes], state: str) -> list[Section]:
    return [section for file in files for section in decode_sections(file, "file") if section.state == state]


def schema_of(sections: list[Section]) -> StateSchema:
    return StateSchema.of("state", [(section.kind, section.schema, section.table.schema) for section in sections])


def read_back(sections: list[Section]) -> list[tuple[Any, ...]]:
    schema = schema_of(sections)
    entries = list(merged_entries(sections, schema.kind, allow_pickle=True))
    table = merged_table(sections, schema, allow_pickle=False)
    assert table.num_rows == len(entries)
    table.validate(full=True)
    return [(entry.key, entry.namespace, entry.map_key, entry.value) for entry in entries]


def restored(files: list[bytes], state: str) -> list[tuple[Any, ...]]:
    """What a backend that loads the files exports as a whole."""
    backend = States(restore(make_backend(), files)).backend
    whole = [section for section in backend.export_all() if section.state == state]
    return read_back(whole) if whole else []


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(STEPS)
def test_any_history_reads_as_it_restores(steps: list[tuple[str, Any, Any, Any]]) -> None:
    states = States(make_backend())
    files: list[bytes] = []
    for step in [*steps, ("commit", None, None, None)]:
        if step[0] != "commit":
            carry_out(states, step)
        elif (file := commit(states.backend)) is not None:
            files.append(file)
    for name in ("value", "list", "map"):
        sections = sections_of(files, name)
        if sections:
            found = read_back(sections)
            assert sorted(map(repr, found)) == sorted(map(repr, restored(files, name)))
            merged = merge_sections(sections, {"op": MAX_PARALLELISM}, keep_deletes=False)
            assert sorted(map(repr, found)) == sorted(map(repr, read_back(merged) if merged else []))


def stored(descriptor: Any, values: list[Any], key_type: Any = None, file_per_value: bool = False) -> list[Section]:
    backend = make_backend(key_type=key_type)
    state = backend.value_state(descriptor)
    files = []
    for number, value in enumerate(values):
        backend.context.key = f"k{number}"
        state.update(value)
        if file_per_value:
            files.append(commit(backend))
    files.append(commit(backend))
    return sections_of([file for file in files if file is not None], descriptor.name)


def column(values: list[Any], type_info: Any = None, *, file_per_value: bool = False) -> pa.ChunkedArray:
    sections = stored(ValueStateDescriptor("v", type_info), values, file_per_value=file_per_value)
    return merged_table(sections, schema_of(sections), allow_pickle=False).sort_by("key").column("value")


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        ([1, 2], pa.int64(), [1, 2]),
        ([1, 2.5], pa.string(), ["1", "2.5"]),
        ([2**80, 1], pa.string(), [str(2**80), "1"]),
        (["a", "b"], pa.large_string(), ["a", "b"]),
        (["a", "\udc80"], pa.large_string(), ["a", "\\udc80"]),
        (["a", 1], pa.string(), ['"a"', "1"]),
        ([b"\xff", b""], pa.large_binary(), [b"\xff", b""]),
        ([[1], ["a"]], pa.large_list(pa.string()), [["1"], ['"a"']]),
        ([[1], []], pa.large_list(pa.int64()), [[1], []]),
        ([(1, "a"), (2, "b")], pa.struct([("f0", pa.int64()), ("f1", pa.large_string())]), None),
        ([{"a": 1}, {}], pa.map_(pa.large_string(), pa.int64()), [[("a", 1)], []]),
        ([{None: 1}, {2: None}], None, [[{"key": None, "value": 1}], [{"key": 2, "value": None}]]),
        ([Place("x"), Place("y")], pa.struct([("city", pa.large_string()), ("color", pa.large_string())]), None),
        ([Color.RED, Color.RED], pa.large_string(), ["RED", "RED"]),
        ([{1, 2}, b"x"], pa.string(), ["[1, 2]", '{"$bytes": "eA=="}']),
        ([float("nan"), "x"], pa.string(), ['"nan"', '"x"']),
    ],
)
@pytest.mark.parametrize("file_per_value", [False, True])
def test_values_of_undeclared_types(values: list[Any], kind: Any, shown: Any, file_per_value: bool) -> None:
    array = column(values, file_per_value=file_per_value)
    if kind is not None:
        assert array.type == kind
    if shown is not None:
        assert array.to_pylist() == shown


def test_a_class_that_got_a_field_has_all_fields() -> None:
    sections = stored(ValueStateDescriptor("v"), [(1,), (1, "a")], file_per_value=True)
    table = merged_table(sections, schema_of(sections), allow_pickle=False)
    assert sorted(table.column("value").to_pylist(), key=repr) == [{"f0": 1, "f1": "a"}, {"f0": 1, "f1": None}]


def test_integers_become_floats_where_the_declared_type_did() -> None:
    old = stored(ValueStateDescriptor("v", Types.INT()), [1])
    new = stored(ValueStateDescriptor("v", Types.DOUBLE()), [2.5])
    table = merged_table([*new, *old], schema_of([*old, *new]), allow_pickle=False)
    assert table.column("value").type == pa.float64()


def test_lists_are_put_together_in_order() -> None:
    backend = make_backend()
    state = backend.list_state(ListStateDescriptor("l", Types.LIST(Types.LONG())))
    files = []
    for key, items in [("a", [[1], []]), ("b", [[9]]), ("a", [[2, 3]]), ("b", None), ("b", [[7]]), ("a", [[4]])]:
        backend.context.key = key
        state.clear() if items is None else state.add_all(items)
        files.append(commit(backend))
    sections = sections_of([file for file in files if file is not None], "l")
    table = merged_table(sections, schema_of(sections), allow_pickle=False)
    assert dict(zip(*table.to_pydict().values(), strict=True)) == {"a": [[1], [], [2, 3], [4]], "b": [[7]]}


def test_one_key_only() -> None:
    states = States(make_backend())
    stored_keys: list[Any] = [Place("x"), Pair(1, "y"), Color.RED, (1, Place("z"))]
    for key in stored_keys:
        states.at(key).map.put(key, "found")
        states.at(key, "w").map.put(key, "in a namespace")
    file = commit(states.backend)
    assert file is not None
    keys: list[Any] = [Place("x"), Pair(1, "y"), (1, "y"), Color.RED, (1, Place("z"))]
    for key in keys:
        for namespace, value in ((None, "found"), ("w", "in a namespace")):
            wanted = (as_plain(key), namespace)
            (entry,) = merged_entries(sections_of([file], "map"), "map", allow_pickle=False, key=wanted)
            assert entry.value == value


def test_columns_that_do_not_match_their_description_are_an_error() -> None:
    (section,) = stored(ValueStateDescriptor("v", Types.LONG()), [1])
    for description in (b'{"v":1,"codec":"later"}', b'{"v":1,"codec":"list","element":{"codec":"int64"}}', b"no json"):
        at = section.table.schema.get_field_index("value")
        field = section.table.schema.field(at).with_metadata({b"tidemill.codec": description})
        forged = Section("op", "v", "value", {}, section.table.cast(section.table.schema.set(at, field)))
        with pytest.raises(SerializationError):
            merged_table([forged], schema_of([forged]), allow_pickle=False)


def test_a_map_that_was_only_cleared_has_no_rows() -> None:
    backend = make_backend()
    state = backend.map_state(MapStateDescriptor("m"))
    backend.context.key = "a"
    state.clear()
    file = commit(backend)
    if file is not None:
        sections = sections_of([file], "m")
        assert merged_table(sections, schema_of(sections), allow_pickle=False).num_rows == 0
