"""Tables: overlay, base, fold, discard, deltas; against a model in plain Python."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.common.types import Row, RowKind
from tidemill.state.codecs.copies import detached
from tidemill.state.files.rows import APPEND, CLEAR, DELETE, PUT, Rows, by_namespace
from tidemill.state.keyed.tables import DELETED, ListChange, ListTable, MapChange, MapTable, Table, ValueTable


def contents(table: Table) -> dict[Any, dict[Any, Any]]:
    """The committed entries by namespace, without empty namespaces."""
    return {name: dict(table.layer(name).base) for name in table.namespaces() if table.layer(name).base}


def test_detached_copies_only_what_can_change() -> None:
    text, pair, numbers = "text", ("a", 1), [1, [2]]
    assert detached(text) is text
    assert detached(pair) is pair
    copied = detached(numbers)
    copied[1].append(3)
    assert numbers == [1, [2]]


@pytest.mark.parametrize("value", [(), ("a", (1, (2.0, None)))])
def test_a_tuple_of_what_cannot_change_is_not_copied(value: tuple[Any, ...]) -> None:
    assert detached(value) is value


@pytest.mark.parametrize(
    "value", [("a", ([1],)), (Row(1),), Row(1, "a"), Row(n=1, inner=Row(2)), Row.of_kind(RowKind.DELETE, [1])]
)
def test_what_can_change_anywhere_inside_is_copied(value: Any) -> None:
    before, copied = repr(value), detached(value)
    assert copied == value
    assert copied is not value
    innermost = copied
    while isinstance(innermost, tuple) or (isinstance(innermost, Row) and not isinstance(innermost[-1], (int, str))):
        innermost = innermost[-1]
    innermost[0] = "changed"
    assert repr(value) == before


def test_values_that_are_never_changed_are_folded_without_copies() -> None:
    table = MapTable()
    table.unshared = True
    change = table.layer(None).overlay["a"] = MapChange(cleared=False)
    value = change.entries["x"] = [1]
    table.fold()
    assert table.layer(None).base["a"]["x"] is value


def test_a_value_table_exports_puts_and_deletes() -> None:
    table = ValueTable()
    table.layer(None).overlay.update(a=1, b=DELETED)
    rows = table.export_delta()
    assert rows == Rows(keys=["a", "b"], namespaces=[None, None], ops=[PUT, DELETE], values=[1, None])


def test_an_untouched_table_has_no_delta() -> None:
    assert ValueTable().export_delta() is None
    assert ValueTable().export_all() is None


def test_fold_moves_changes_into_the_base_and_forgets_reads() -> None:
    table = ValueTable()
    table.load(Rows(keys=["a", "b"], values=[1, [2]]))
    layer = table.layer(None)
    layer.reads["b"] = [2]
    layer.overlay.update(a=DELETED, c=3)
    table.fold()
    assert contents(table) == {None: {"b": [2], "c": 3}}
    assert not table.layer(None).reads
    assert table.export_delta() is None


def test_discard_leaves_nothing() -> None:
    table = ValueTable()
    table.load(Rows(keys=["a"], values=[1]))
    table.layer(None).overlay.update(a=2, b=3)
    table.layer("w").overlay["a"] = 4
    table.layer(None).reads["a"] = 1
    table.discard()
    assert contents(table) == {None: {"a": 1}}
    assert table.export_delta() is None
    assert not table.layer(None).reads


def test_a_namespace_without_entries_is_dropped_by_the_fold() -> None:
    table = ValueTable()
    table.layer("w1").overlay["a"] = 1
    table.fold()
    assert table.namespaces() == ["w1"]
    table.layer("w1").overlay["a"] = DELETED
    table.fold()
    assert table.namespaces() == []


def test_keys_are_those_the_epoch_sees() -> None:
    table = ValueTable()
    table.load(Rows(keys=["a", "b"], values=[1, 2]))
    table.layer(None).overlay.update(a=DELETED, c=3)
    assert sorted(table.keys(None)) == ["b", "c"]
    assert list(table.keys("other")) == []


def test_a_list_exports_an_append_as_an_append() -> None:
    table = ListTable()
    table.load(Rows(keys=["a", "b"], values=[[1], [2]]))
    table.layer(None).overlay.update(
        a=ListChange(False, [3]), b=ListChange(True, []), c=ListChange(True, [4]), d=ListChange(False, [5])
    )
    rows = table.export_delta()
    assert rows is not None
    assert list(zip(rows.keys, rows.ops, rows.values, strict=True)) == [
        ("a", APPEND, [3]),
        ("b", DELETE, []),
        ("c", PUT, [4]),
        ("d", APPEND, [5]),
    ]
    table.fold()
    assert contents(table) == {None: {"a": [1, 3], "c": [4], "d": [5]}}


def test_list_keys_after_changes() -> None:
    table = ListTable()
    table.load(Rows(keys=["a", "b", "c"], values=[[1], [2], [3]]))
    table.layer(None).overlay.update(a=ListChange(False, []), b=ListChange(True, []), d=ListChange(False, [4]))
    assert sorted(table.keys(None)) == ["a", "c", "d"]


def test_a_map_exports_entry_by_entry() -> None:
    table = MapTable()
    table.load(Rows(keys=["a", "a", "b"], user_keys=[1, 2, 1], values=["x", "y", "z"]))
    change = MapChange(cleared=False)
    change.entries.update({1: DELETED, 3: "w"})
    cleared = MapChange(cleared=True)
    cleared.entries[9] = "new"
    table.layer(None).overlay.update(a=change, b=cleared)
    rows = table.export_delta()
    assert rows is not None
    assert list(zip(rows.keys, rows.ops, rows.user_keys, rows.values, strict=True)) == [
        ("a", DELETE, 1, None),
        ("a", PUT, 3, "w"),
        ("b", CLEAR, None, None),
        ("b", PUT, 9, "new"),
    ]
    table.fold()
    assert contents(table) == {None: {"a": {2: "y", 3: "w"}, "b": {9: "new"}}}


def test_a_map_key_goes_with_its_last_entry() -> None:
    table = MapTable()
    table.load(Rows(keys=["a"], user_keys=[1], values=["x"]))
    change = MapChange(cleared=False)
    change.entries[1] = DELETED
    table.layer(None).overlay["a"] = change
    assert list(table.keys(None)) == []
    table.fold()
    assert contents(table) == {}


def test_rows_are_split_by_namespace_in_order() -> None:
    rows = Rows(keys=["a", "b", "c"], namespaces=["w", None, "w"], ops=[], values=[1, 2, 3])
    parts = dict(by_namespace(rows))
    assert parts["w"].keys == ["a", "c"]
    assert parts["w"].values == [1, 3]
    assert parts[None].keys == ["b"]


# --- against a model: namespace -> key -> value, with commits, discards, restores and exports at random points

NAMES = st.sampled_from([None, "w1", "w2"])
KEYS = st.sampled_from(["a", "b", "c"])
USER_KEYS = st.sampled_from(["x", "y", None, 1])
VALUES = st.one_of(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=2))

VALUE_STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, KEYS, VALUES),
    st.tuples(st.just("clear"), NAMES, KEYS),
    st.sampled_from([("commit",), ("discard",), ("restore",), ("snapshot",)]),
)
LIST_STEPS = st.one_of(
    st.tuples(st.just("append"), NAMES, KEYS, VALUES),
    st.tuples(st.just("replace"), NAMES, KEYS, st.lists(VALUES, max_size=2)),
    st.sampled_from([("commit",), ("discard",), ("restore",), ("snapshot",)]),
)
MAP_STEPS = st.one_of(
    st.tuples(st.just("entry"), NAMES, KEYS, USER_KEYS, VALUES),
    st.tuples(st.just("remove"), NAMES, KEYS, USER_KEYS),
    st.tuples(st.just("clear-map"), NAMES, KEYS),
    st.sampled_from([("commit",), ("discard",), ("restore",), ("snapshot",)]),
)
Model = dict[Any, dict[Any, Any]]


class Replay:
    """Runs steps against a table and the model side by side; committed deltas are kept to restore from."""

    def __init__(self, kind: type[Table]) -> None:
        self.kind = kind
        self.table = kind()
        self.committed: Model = {}
        self.model: Model = {}
        self.deltas: list[Rows] = []

    def step(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0].replace("-", "_"))(*step[1:])

    def commit(self) -> None:
        delta = self.table.export_delta()
        if delta is not None:
            self.deltas.append(copy.deepcopy(delta))
        self.table.fold()
        self.committed = copy.deepcopy(self.model)
        self.check_committed()

    def discard(self) -> None:
        self.table.discard()
        self.model = copy.deepcopy(self.committed)
        self.check_committed()

    def restore(self) -> None:
        self.table = self.kind()
        for delta in self.deltas:
            self.table.load(copy.deepcopy(delta))
        self.model = copy.deepcopy(self.committed)
        self.check_committed()

    def snapshot(self) -> None:
        self.commit()
        everything = self.table.export_all()
        self.deltas = [] if everything is None else [copy.deepcopy(everything)]
        self.restore()

    def check_committed(self) -> None:
        expected = {
            name: {key: value for key, value in entries.items() if value not in ([], {}) or self.kind is ValueTable}
            for name, entries in self.committed.items()
        }
        assert contents(self.table) == {name: entries for name, entries in expected.items() if entries}
        assert self.table.entries() == sum(map(len, expected.values()))
        assert self.table.export_delta() is None

    # the changes, as states make them
    def put(self, name: Any, key: Any, value: Any) -> None:
        self.table.layer(name).overlay[key] = value
        self.model.setdefault(name, {})[key] = value

    def clear(self, name: Any, key: Any) -> None:
        layer = self.table.layer(name)
        if key in layer.base:
            layer.overlay[key] = DELETED
        else:
            layer.overlay.pop(key, None)
        self.model.setdefault(name, {}).pop(key, None)

    def append(self, name: Any, key: Any, value: Any) -> None:
        overlay = self.table.layer(name).overlay
        if key in overlay:
            overlay[key].items.append(value)
        else:
            overlay[key] = ListChange(False, [value])
        self.model.setdefault(name, {}).setdefault(key, []).append(value)

    def replace(self, name: Any, key: Any, values: list[Any]) -> None:
        self.table.layer(name).overlay[key] = ListChange(True, list(values))
        self.model.setdefault(name, {})[key] = list(values)

    def entry(self, name: Any, key: Any, user_key: Any, value: Any) -> None:
        self._change(name, key).entries[user_key] = value
        self.model.setdefault(name, {}).setdefault(key, {})[user_key] = value

    def remove(self, name: Any, key: Any, user_key: Any) -> None:
        self._change(name, key).entries[user_key] = DELETED
        self.model.setdefault(name, {}).get(key, {}).pop(user_key, None)

    def clear_map(self, name: Any, key: Any) -> None:
        self.table.layer(name).overlay[key] = MapChange(cleared=True)
        self.model.setdefault(name, {}).pop(key, None)

    def _change(self, name: Any, key: Any) -> MapChange:
        found: MapChange = self.table.layer(name).overlay.setdefault(key, MapChange(cleared=False))
        return found


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(VALUE_STEPS, max_size=30))
def test_value_table_is_its_model(steps: list[tuple[Any, ...]]) -> None:
    run(ValueTable, steps)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(LIST_STEPS, max_size=30))
def test_list_table_is_its_model(steps: list[tuple[Any, ...]]) -> None:
    run(ListTable, steps)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(MAP_STEPS, max_size=30))
def test_map_table_is_its_model(steps: list[tuple[Any, ...]]) -> None:
    run(MapTable, steps)


def run(kind: type[Table], steps: list[tuple[Any, ...]]) -> None:
    replay = Replay(kind)
    for step in steps:
        replay.step(step)
    replay.commit()


@pytest.mark.parametrize("kind", [ValueTable, ListTable, MapTable])
def test_a_fold_of_nothing_changes_nothing(kind: type[Table]) -> None:
    table = kind()
    table.layer(None)
    table.fold()
    assert contents(table) == {}
