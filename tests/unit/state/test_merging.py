"""Merging runs: loading the merged sections must be the same as loading all of them, at any cut."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.keyed_state import States
from tests.thorough import examples
from tests.unit.state.backends import MAX_PARALLELISM, commit, make_backend, restore
from tidemill.common.typeinfo import Types
from tidemill.state.codecs.column_codecs import codec_for
from tidemill.state.files.rows import DELETE, PUT, Rows
from tidemill.state.files.sections import StateShape, read_rows, write_rows
from tidemill.state.files.state_file import Section, decode_sections, encode_sections
from tidemill.state.keyed.tables import ValueTable
from tidemill.state.keys.key_groups import GroupCache
from tidemill.state.merging import merge_columns, merge_sections

LIMITS = {"op": MAX_PARALLELISM, "other": MAX_PARALLELISM}


def sections_of(files: list[bytes]) -> list[Section]:
    return [section for file in files for section in decode_sections(file, "file")]


def merged(files: list[bytes], *, keep_deletes: bool) -> list[bytes]:
    found = merge_sections(sections_of(files), LIMITS, keep_deletes)
    return [encode_sections(found)[0]] if found else []


KEYS = ["a", "b", None, ("t", 1)]
NAMES = [None, "w"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("value"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 4)),
        st.tuples(st.just("list"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 4)),
        st.tuples(st.just("relist"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 2)),
        st.tuples(st.just("map"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 4)),
        st.tuples(st.just("unmap"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 4)),
        st.tuples(st.just("clear"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 4)),
        st.tuples(st.just("timer"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 4)),
        st.tuples(st.just("untimer"), st.sampled_from(KEYS), st.sampled_from(NAMES), st.integers(0, 4)),
        st.just(("commit",)),
    ),
    max_size=40,
)


def play(states: States, what: str, key: Any, name: Any, number: int) -> None:
    states.at(key, name)
    if what == "value":
        states.value.update([number])
        states.reducing.add(number)
    elif what == "list":
        states.list.add(number)
        states.aggregating.add(number)
    elif what == "relist":
        states.list.update(range(number))
    elif what == "map":
        states.map.put(number, str(number))
    elif what == "unmap":
        states.map.remove(number)
    elif what == "clear":
        states.all()[number].clear()
    elif what == "timer":
        states.backend.event_timers.register(number, key, name)
        states.backend.processing_timers.register(number, key, name)
    else:
        states.backend.event_timers.delete(number, key, name)


def everything(states: States) -> Any:
    cells = {(key, name): states.at(key, name).seen() for key in KEYS for name in NAMES}
    timers = (list(states.backend.event_timers.pending()), list(states.backend.processing_timers.pending()))
    return cells, timers, [(k, list(cell["map"])) for k, cell in cells.items()]


@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_merged_runs_load_as_all_of_them(steps: list[tuple[Any, ...]], random: Any) -> None:
    states = States(make_backend())
    files: list[bytes] = []
    for what, *rest in [*steps, ("commit",)]:
        if what == "commit":
            file = commit(states.backend)
            files += [file] if file is not None else []
        else:
            play(states, what, *rest)
    expected = everything(states)
    cut, end = sorted((random.randint(0, len(files)), random.randint(0, len(files))))
    runs = [
        files,
        merged(files, keep_deletes=False),
        merged(files, keep_deletes=True),
        [*files[:cut], *merged(files[cut:end], keep_deletes=True), *files[end:]],
        [*merged(files[:cut], keep_deletes=False), *files[cut:]],
        merged([*files[:cut], *merged(files[cut:end], keep_deletes=True), *files[end:]], keep_deletes=False),
    ]
    for run in runs:
        assert everything(States(restore(make_backend(), run))) == expected


def test_a_merge_is_cut_by_key_group_as_its_parts_are() -> None:
    states = States(make_backend())
    files = []
    for number in range(3):
        for key in range(20):
            states.at(key).value.update(number)
        file = commit(states.backend)
        assert file is not None
        files.append(file)
    whole = merged(files, keep_deletes=False)
    for subtask in range(3):
        backend = restore(make_backend(3, subtask), whole)
        part = States(backend)
        assert set(part.backend.keys("value")) == {key for key in range(20) if backend.group_of(key) in backend.groups}


def test_what_is_deleted_leaves_no_section() -> None:
    states = States(make_backend())
    states.at("a").value.update(1)
    first = commit(states.backend)
    states.value.clear()
    second = commit(states.backend)
    assert first is not None
    assert second is not None
    assert merged([first, second], keep_deletes=False) == []
    assert merged([second], keep_deletes=True) != []


def test_operators_are_kept_apart() -> None:
    files = []
    for operator in ("op", "other"):
        states = States(make_backend(operator=operator))
        states.at("a").value.update(operator)
        file = commit(states.backend)
        assert file is not None
        files.append(file)
    found = merge_sections(sections_of(files), LIMITS, keep_deletes=False)
    assert [(section.operator, section.state) for section in found] == [("op", "value"), ("other", "value")]


def test_the_same_runs_give_the_same_bytes() -> None:
    states = States(make_backend())
    states.at("a").value.update({"x": [1, 2]})
    states.map.put("k", 1)
    file = commit(states.backend)
    assert file is not None
    assert merged([file, file], keep_deletes=False) == merged([file, file], keep_deletes=False)


def test_a_map_entry_that_was_deleted_and_put_again_comes_last_after_a_merge_too() -> None:
    states = States(make_backend())
    files = []
    for steps in ([("map", 1), ("map", 2), ("map", 3)], [("unmap", 1)], [("map", 4), ("map", 1)], [("unmap", 2)]):
        for what, number in steps:
            play(states, what, "a", None, number)
        files.append(commit(states.backend) or b"")
    expected = list(states.at("a", None).map)
    assert expected == [3, 4, 1]
    for runs in (
        merged(files, keep_deletes=False),
        [files[0], *merged(files[1:], keep_deletes=True)],
        [files[0], *merged([*merged(files[1:3], keep_deletes=True), files[3]], keep_deletes=True)],
    ):
        assert list(States(restore(make_backend(), runs)).at("a", None).map) == expected


def value_section(rows: list[tuple[int, int | None]]) -> Section:
    """A section of one value state: (key, value), None deletes."""
    changes = dict(rows)
    exported = Rows(
        keys=list(changes),
        ops=[DELETE if value is None else PUT for value in changes.values()],
        values=list(changes.values()),
    )
    shape = StateShape("value", codec_for(Types.LONG()), codec_for(Types.LONG()))
    return write_rows("op", "n", shape, exported, GroupCache(MAX_PARALLELISM), "op")


CHANGES = st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(0, 3)), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=6), st.booleans())
def test_merging_columns_is_merging_objects(runs: list[list[tuple[int, int | None]]], keep_deletes: bool) -> None:
    parts = [value_section(rows) for rows in runs]
    columns = merge_columns(parts, keep_deletes)
    assert columns is not None
    table = ValueTable()
    for part in parts:
        table.replay(read_rows(part))
    if keep_deletes:
        expected = table.export_delta() or Rows()
    else:
        table.fold()
        expected = table.export_all() or Rows()
    found = read_rows(Section("op", "n", "value", {}, columns)) if columns.num_rows else Rows()
    assert found.keys == expected.keys
    assert found.values == expected.values
    assert (found.ops or [PUT] * len(found.keys)) == (expected.ops or [PUT] * len(expected.keys))


def test_what_arrow_cannot_group_is_merged_as_objects() -> None:
    shape = StateShape("value", codec_for(None), codec_for(Types.LONG()))
    groups = GroupCache(MAX_PARALLELISM)
    floats = write_rows("op", "n", shape, Rows(keys=[1.5, float("nan")], values=[1, 2]), groups, "op")
    texts = write_rows("op", "n", shape, Rows(keys=["a", "b"], values=[1, 2]), groups, "op")
    named = write_rows("op", "n", shape, Rows(keys=["a"], namespaces=["w"], values=[1]), groups, "op")
    assert merge_columns([floats], keep_deletes=False) is None
    assert merge_columns([texts, floats], keep_deletes=False) is None
    assert merge_columns([texts, named], keep_deletes=False) is None
    assert merge_columns([texts, texts], keep_deletes=False) is not None
