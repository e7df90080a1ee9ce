"""Bugs of a state backend, put in on purpose: the contract suite must find each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.contract import keyed_state
from tidemill.state.files.rows import CLEAR, DELETE
from tidemill.state.files.state_file import Section
from tidemill.state.keyed.collection_states import KeyedListState, KeyedMapState
from tidemill.state.keyed.hashmap import HashMapBackend
from tidemill.state.keyed.single_states import KeyedValueState
from tidemill.state.keyed.tables import DELETED, ListTable, MapTable, Table, ValueTable
from tidemill.state.keyed.timers import TimerQueue
from tidemill.state.merging import merge_sections
from tidemill.state.rocksdb import RocksDBBackend, list_table, map_table, value_table
from tidemill.state.rocksdb.cache import ValueCache
from tidemill.state.rocksdb.store import Store

Patch = pytest.MonkeyPatch
Bug = Callable[[Patch], None]


def _change_deltas(patch: Patch, change: Callable[[Section], Section | None]) -> None:
    export_delta = HashMapBackend.export_delta

    def changed(self: HashMapBackend) -> list[Section]:
        sections = map(change, export_delta(self))
        return [section for section in sections if section is not None and section.table.num_rows]

    patch.setattr(HashMapBackend, "export_delta", changed)


def _change_what_is_loaded(patch: Patch, change: Callable[[Section], Section | None]) -> None:
    load = HashMapBackend.load

    def changed(self: HashMapBackend, section: Section) -> None:
        found = change(section)
        if found is not None:
            load(self, found)

    patch.setattr(HashMapBackend, "load", changed)


def _with(section: Section, table: Any) -> Section:
    return Section(section.operator, section.state, section.kind, section.schema, table)


def _without(kind: str, op: int) -> Callable[[Section], Section]:
    def change(section: Section) -> Section:
        if section.kind != kind:
            return section
        return _with(section, section.table.filter(pc.not_equal(section.table.column("op"), op)))

    return change


# --- deltas


def forget_cleared_values_in_deltas(patch: Patch) -> None:
    _change_deltas(patch, _without("value", DELETE))


def forget_cleared_lists_in_deltas(patch: Patch) -> None:
    _change_deltas(patch, _without("list", DELETE))


def forget_removed_map_entries_in_deltas(patch: Patch) -> None:
    _change_deltas(patch, _without("map", DELETE))


def forget_cleared_maps_in_deltas(patch: Patch) -> None:
    _change_deltas(patch, _without("map", CLEAR))


def forget_timers_in_deltas(patch: Patch) -> None:
    _change_deltas(patch, lambda section: None if section.kind == "timer" else section)


def forget_fired_timers_in_deltas(patch: Patch) -> None:
    _change_deltas(patch, _without("timer", DELETE))


def write_whole_lists_when_they_grow(patch: Patch) -> None:
    patch.setattr(KeyedListState, "add", lambda self, value: self.update([*self.get(), value]))


def write_whole_maps_when_an_entry_changes(patch: Patch) -> None:
    def put(self: KeyedMapState, key: Any, value: Any) -> None:
        self.put_all({**dict(self.items()), key: value})

    patch.setattr(KeyedMapState, "put", put)


def write_what_was_only_read(patch: Patch) -> None:
    value = KeyedValueState.value

    def read(self: KeyedValueState) -> Any:
        found = value(self)
        if found is not None:
            self.update(found)
        return found

    patch.setattr(KeyedValueState, "value", read)


# --- fold and discard


def forget_to_fold(patch: Patch) -> None:
    patch.setattr(HashMapBackend, "fold", lambda self, version=None: self.discard())


def fold_lists_twice(patch: Patch) -> None:
    fold = ListTable._fold

    def twice(self: ListTable, layer: Any) -> None:
        fold(self, layer)
        fold(self, layer)

    patch.setattr(ListTable, "_fold", twice)


def forget_deletes_in_folds(patch: Patch) -> None:
    def fold(self: ValueTable, layer: Any) -> None:
        layer.base.update((key, value) for key, value in layer.overlay.items() if value is not DELETED)

    patch.setattr(ValueTable, "_fold", fold)


def keep_emptied_maps(patch: Patch) -> None:
    fold = MapTable._fold

    def keep(self: MapTable, layer: Any) -> None:
        keys = list(layer.overlay)
        fold(self, layer)
        for key in keys:
            layer.base.setdefault(key, {})

    patch.setattr(MapTable, "_fold", keep)


def keep_what_a_failed_attempt_wrote(patch: Patch) -> None:
    patch.setattr(HashMapBackend, "discard", lambda self: None)


def keep_timers_that_a_failed_attempt_fired(patch: Patch) -> None:
    patch.setattr(TimerQueue, "discard", lambda self: self._changes.clear())


def hand_out_the_committed_objects(patch: Patch) -> None:
    patch.setattr(Table, "detached", staticmethod(lambda value: value))


# --- restore


def load_without_namespaces(patch: Patch) -> None:
    def change(section: Section) -> Section:
        table = section.table
        return _with(section, table.drop_columns(["namespace"]) if "namespace" in table.column_names else table)

    _change_what_is_loaded(patch, change)


def load_no_timers(patch: Patch) -> None:
    _change_what_is_loaded(patch, lambda section: None if section.kind == "timer" else section)


def load_appends_as_whole_lists(patch: Patch) -> None:
    replay = ListTable.replay

    def replayed(self: ListTable, rows: Any) -> None:
        rows.ops = []
        replay(self, rows)

    patch.setattr(ListTable, "replay", replayed)


def export_all_without_namespaces(patch: Patch) -> None:
    export_all = HashMapBackend.export_all

    def plain(self: HashMapBackend) -> list[Section]:
        return [section for section in export_all(self) if "namespace" not in section.table.column_names]

    patch.setattr(HashMapBackend, "export_all", plain)


def drop_tombstones_while_older_files_remain(patch: Patch) -> None:
    def merge(sections: Iterable[Section], max_parallelism: Any, keep_deletes: bool) -> list[Section]:
        return merge_sections(sections, max_parallelism, keep_deletes=False)

    patch.setattr(keyed_state, "merge_sections", merge)


def merge_the_newest_first(patch: Patch) -> None:
    def merge(sections: Iterable[Section], max_parallelism: Any, keep_deletes: bool) -> list[Section]:
        return merge_sections(list(sections)[::-1], max_parallelism, keep_deletes)

    patch.setattr(keyed_state, "merge_sections", merge)


# --- reading


def list_keys_of_all_namespaces(patch: Patch) -> None:
    keys = HashMapBackend.keys

    def all_keys(self: HashMapBackend, state: str, namespace: Any = None) -> Any:
        found = [key for name in self._tables[state].namespaces() for key in keys(self, state, name)]
        return iter(dict.fromkeys(found))

    patch.setattr(HashMapBackend, "keys", all_keys)


def list_keys_that_are_cleared(patch: Patch) -> None:
    patch.setattr(ListTable, "_present", lambda self, layer, key, change: True)


def fire_timers_in_the_order_of_registration(patch: Patch) -> None:
    def push(self: TimerQueue, timer: Any) -> None:
        self._counter += 1
        self._heap.append((timer[0], 0, 0, 0, self._counter, timer[1], timer[2]))
        self._heap.sort()

    patch.setattr(TimerQueue, "_push", push)


def merge_namespaces_and_keep_the_sources(patch: Patch) -> None:
    def merge(self: KeyedListState, target: Any, sources: Iterable[Any]) -> None:
        moved: list[Any] = []
        for source in sources:
            self.set_current_namespace(source)
            moved.extend(self.get())
        self.set_current_namespace(target)
        self.add_all(moved)

    patch.setattr(KeyedListState, "merge_namespaces", merge)


# --- local stores


def answer_from_a_stale_cache(patch: Patch) -> None:
    patch.setattr(ValueCache, "update", lambda self, *changed: None)


def keep_the_rows_of_what_is_cleared(patch: Patch) -> None:
    for module in (list_table, map_table):
        patch.setattr(module, "end_of", lambda prefix: prefix + b"\0")


def write_pieces_of_a_list_over_each_other(patch: Patch) -> None:
    patch.setattr(Store, "sequence", property(lambda self: 0, lambda self, value: None), raising=False)


def fold_what_was_not_committed_into_the_store(patch: Patch) -> None:
    patch.setattr(RocksDBBackend, "discard", RocksDBBackend.fold)


def forget_the_original_of_a_key(patch: Patch) -> None:
    for module in (list_table, map_table, value_table):
        patch.setattr(module, "remember_original", lambda data, *keys: data)


BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        forget_cleared_values_in_deltas,
        forget_cleared_lists_in_deltas,
        forget_removed_map_entries_in_deltas,
        forget_cleared_maps_in_deltas,
        forget_timers_in_deltas,
        forget_fired_timers_in_deltas,
        write_whole_lists_when_they_grow,
        write_whole_maps_when_an_entry_changes,
        write_what_was_only_read,
        forget_to_fold,
        fold_lists_twice,
        forget_deletes_in_folds,
        keep_emptied_maps,
        keep_what_a_failed_attempt_wrote,
        keep_timers_that_a_failed_attempt_fired,
        hand_out_the_committed_objects,
        load_without_namespaces,
        load_no_timers,
        load_appends_as_whole_lists,
        export_all_without_namespaces,
        drop_tombstones_while_older_files_remain,
        merge_the_newest_first,
        list_keys_of_all_namespaces,
        list_keys_that_are_cleared,
        fire_timers_in_the_order_of_registration,
        merge_namespaces_and_keep_the_sources,
    )
}

ROCKSDB_BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        answer_from_a_stale_cache,
        keep_the_rows_of_what_is_cleared,
        write_pieces_of_a_list_over_each_other,
        fold_what_was_not_committed_into_the_store,
        forget_the_original_of_a_key,
    )
}
