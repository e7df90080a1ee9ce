"""Operator state of subtasks: what a delta holds, what a restore gives back, at any parallelism."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.common import Types
from tidemill.common.time import Time
from tidemill.datastream import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidemill.errors import SerializationError, StateError, StateMigrationError
from tidemill.state.files.rows import APPEND, CLEAR, DELETE, PUT
from tidemill.state.files.sections import read_rows
from tidemill.state.files.state_file import Section, decode_sections, encode_sections
from tidemill.state.keys.key_groups import Subtask, subtasks_of
from tidemill.state.merging import merge_sections
from tidemill.state.operator.operator_state import ONLY_GROUP, OperatorStateBackend
from tidemill.state.operator.redistribution import dealt

BUFFER = ListStateDescriptor("buffer", Types.LONG())
OBJECTS = ListStateDescriptor("objects")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
ANY_RULES = MapStateDescriptor("rules")


MEASURED = ListStateDescriptor("measured", Types.DOUBLE())
PAIRS = ListStateDescriptor("pairs", Types.TUPLE([Types.DOUBLE()]))
LIMITS = MapStateDescriptor("limits", Types.DOUBLE(), Types.DOUBLE())
COUNTS = ListStateDescriptor("counts", Types.TUPLE([Types.LONG()]))
COUNTS_OF = MapStateDescriptor("counts of", Types.STRING(), Types.TUPLE([Types.LONG()]))
RATES = MapStateDescriptor("rates", Types.TUPLE([Types.LONG()]), Types.TUPLE([Types.DOUBLE()]))


class Operator:
    """All subtasks of an operator and what they have committed, restored and merged as the engine does it."""

    def __init__(self, parallelism: int) -> None:
        self.files: list[bytes] = []
        self.subtasks: list[OperatorStateBackend] = []
        self.start(parallelism)

    def start(self, parallelism: int) -> None:
        """(Re)start at a parallelism, from what is committed."""
        self.subtasks = []
        for subtask in range(parallelism):
            backend = OperatorStateBackend("op", f"operator 'op' ({subtask})", Subtask(subtask), parallelism)
            for file in self.files:
                for section in decode_sections(file, "file", {"op"}, ONLY_GROUP, ONLY_GROUP):
                    backend.load(section)
            self.subtasks.append(backend)

    def commit(self) -> list[Section]:
        """End an epoch."""
        sections = [section for backend in self.subtasks for section in backend.export_delta()]
        if sections:
            self.files.append(encode_sections(sections)[0])
        for backend in self.subtasks:
            backend.fold()
            backend.begin_epoch()
        return sections

    def merge(self, first: int = 0) -> None:
        """Merge runs from some number on into one, as a background snapshot does."""
        sections = [section for file in self.files[first:] for section in decode_sections(file, "file")]
        # The limit is that of keys: operator state stays in its group whatever it is.
        merged = merge_sections(sections, {"op": 64}, keep_deletes=first > 0)
        self.files[first:] = [encode_sections(merged)[0]] if merged else []


def delta(sections: list[Section], state: str) -> list[tuple[int, int, Any, Any]]:
    """The rows of a state as (subtask, operation, map key, value)."""
    found = []
    for section in sections:
        if section.state.endswith(state):
            rows = read_rows(section)
            count = len(rows.keys)
            ops, keys = rows.ops or [PUT] * count, rows.user_keys or [None] * count
            found += list(zip(rows.keys, ops, keys, rows.values, strict=True))
    return found


# --- what a delta holds


def test_a_list_that_grew_is_appended_to() -> None:
    op = Operator(1)
    state = op.subtasks[0].get_list_state(BUFFER)
    state.add_all([1, 2])
    assert delta(op.commit(), "buffer") == [(0, PUT, None, [1, 2])]
    state.add(3)
    assert delta(op.commit(), "buffer") == [(0, APPEND, None, [3])]
    state.update([1, 2, 3, 4])  # as a function does that rewrites its list at each barrier
    assert delta(op.commit(), "buffer") == [(0, APPEND, None, [4])]


def test_a_list_that_did_not_change_is_not_written() -> None:
    op = Operator(1)
    state = op.subtasks[0].get_list_state(BUFFER)
    assert [section.state for section in op.commit()] == ["__operator_subtasks"]
    state.update([1, 2])
    op.commit()
    state.clear()
    state.add_all([1, 2])
    assert op.commit() == []


def test_a_list_that_changed_otherwise_is_replaced() -> None:
    op = Operator(1)
    state = op.subtasks[0].get_list_state(BUFFER)
    state.update([1, 2, 3])
    op.commit()
    state.update([1, 5])
    assert delta(op.commit(), "buffer") == [(0, PUT, None, [1, 5])]
    state.clear()
    assert [row[:2] for row in delta(op.commit(), "buffer")] == [(0, DELETE)]
    op.start(1)
    assert list(op.subtasks[0].get_list_state(BUFFER)) == []


@dataclasses.dataclass
class Account:
    name: str
    balance: int


def test_an_element_changed_in_place_is_noticed() -> None:
    op = Operator(1)
    state = op.subtasks[0].get_list_state(OBJECTS)
    account = Account("a", 1)
    state.update([account, ["x"]])
    op.commit()
    assert op.commit() == []
    account.balance = 2
    assert delta(op.commit(), "objects") == [(0, PUT, None, [Account("a", 2), ["x"]])]
    state.add((1, 2))
    assert delta(op.commit(), "objects") == [(0, APPEND, None, [(1, 2)])]


@pytest.mark.parametrize("now", [[True], [1.0], ["1"], [b"1"]])
def test_equal_values_of_other_types_are_changes(now: list[Any]) -> None:
    op = Operator(1)
    state = op.subtasks[0].get_list_state(OBJECTS)
    state.update([1])
    op.commit()
    state.update(now)
    op.commit()
    op.start(1)
    (found,) = op.subtasks[0].get_list_state(OBJECTS)
    assert (type(found), found) == (type(now[0]), now[0])


def test_only_changed_entries_of_broadcast_state_are_written() -> None:
    op = Operator(1)
    state = op.subtasks[0].get_broadcast_state(RULES)
    state.put_all({"a": 1, "b": 2, "c": 3})
    assert len(delta(op.commit(), "rules")) == 3
    state["b"] = 5
    del state["a"]
    assert delta(op.commit(), "rules") == [(0, DELETE, "a", None), (0, PUT, "b", 5)]
    state.remove("nothing")
    assert op.commit() == []
    state.clear()
    state.put("z", 1)
    assert delta(op.commit(), "rules") == [(0, CLEAR, None, None), (0, PUT, "z", 1)]
    op.start(1)
    assert dict(op.subtasks[0].get_broadcast_state(RULES).items()) == {"z": 1}


def test_broadcast_values_go_in_and_come_out_as_copies() -> None:
    op = Operator(1)
    state = op.subtasks[0].get_broadcast_state(ANY_RULES)
    rule = [1]
    state.put("r", rule)
    rule.append(2)
    state.get("r").append(3)
    next(iter(state.values())).append(4)
    assert state.get("r") == [1]
    op.commit()
    state.get("r").append(5)
    assert op.commit() == []


# --- restoring


def test_a_list_is_dealt_out_and_storage_follows() -> None:
    op = Operator(2)
    for subtask, elements in enumerate(([1, 2, 3, 4, 5], [6])):
        op.subtasks[subtask].get_list_state(BUFFER).update(elements)
    op.commit()
    op.start(4)
    parts = [list(backend.get_list_state(BUFFER)) for backend in op.subtasks]
    assert parts == [[1, 2], [3, 4], [5], [6]]
    assert sorted(delta(op.commit(), "buffer")) == [
        (0, PUT, None, [1, 2]),
        (1, PUT, None, [3, 4]),
        (2, PUT, None, [5]),
        (3, PUT, None, [6]),
    ]
    assert op.commit() == []
    op.start(1)
    assert list(op.subtasks[0].get_list_state(BUFFER)) == [1, 2, 3, 4, 5, 6]
    written = delta(op.commit(), "buffer")
    assert [(subtask, op_code) for subtask, op_code, _, _ in written] == [
        (1, DELETE),
        (2, DELETE),
        (3, DELETE),
        (0, APPEND),
    ]
    op.start(2)
    assert [list(backend.get_list_state(BUFFER)) for backend in op.subtasks] == [[1, 2, 3], [4, 5, 6]]


def test_a_union_list_is_read_by_all_and_stored_once() -> None:
    op = Operator(2)
    for subtask, elements in enumerate(([1], [2, 3])):
        op.subtasks[subtask].get_union_list_state(BUFFER).update(elements)
    op.commit()
    for _ in range(3):  # a function that never writes it again does not multiply it
        op.start(2)
        assert [list(backend.get_union_list_state(BUFFER)) for backend in op.subtasks] == [[1, 2, 3], [1, 2, 3]]
        assert op.commit() == []
    op.start(3)
    states = [backend.get_union_list_state(BUFFER) for backend in op.subtasks]
    assert [list(state) for state in states] == [[1, 2, 3]] * 3
    states[1].add(9)
    assert list(states[1]) == [1, 2, 3, 9]
    op.commit()
    op.start(1)
    assert sorted(op.subtasks[0].get_union_list_state(BUFFER)) == [1, 2, 3, 9]


def test_a_union_list_is_what_the_function_makes_of_it() -> None:
    op = Operator(2)
    for subtask, backend in enumerate(op.subtasks):
        backend.get_union_list_state(BUFFER).update([subtask])
    op.commit()
    op.start(2)
    for backend in op.subtasks:
        state = backend.get_union_list_state(BUFFER)
        state.update([sum(state)])
    op.commit()
    op.start(1)
    assert list(op.subtasks[0].get_union_list_state(BUFFER)) == [1, 1]


def test_broadcast_state_is_copied_to_new_subtasks() -> None:
    op = Operator(2)
    for backend in op.subtasks:
        backend.get_broadcast_state(RULES).put_all({"a": 1, "b": 2})
    op.commit()
    op.start(5)
    assert [backend.get_broadcast_state(RULES).content() for backend in op.subtasks] == [{"a": 1, "b": 2}] * 5
    assert {row[0] for row in delta(op.commit(), "rules")} == {2, 3, 4}  # what is there already is not written again
    op.start(1)
    assert op.subtasks[0].get_broadcast_state(RULES).content() == {"a": 1, "b": 2}
    assert {row[:2] for row in delta(op.commit(), "rules")} == {(subtask, CLEAR) for subtask in (1, 2, 3, 4)}
    op.start(1)
    assert op.commit() == []


def test_an_empty_subtask_counts_too() -> None:
    """Two of four subtasks have nothing: a restart at the parallelism of the others must not take it for theirs."""
    op = Operator(4)
    for subtask, backend in enumerate(op.subtasks):
        backend.get_list_state(BUFFER).update([10, 11] if subtask == 0 else [])
    op.commit()
    op.start(2)
    assert [list(backend.get_list_state(BUFFER)) for backend in op.subtasks] == [[10], [11]]
    op.start(4)
    assert [list(backend.get_list_state(BUFFER)) for backend in op.subtasks] == [[10, 11], [], [], []]


def test_state_that_is_not_registered_is_kept_and_redistributed() -> None:
    op = Operator(2)
    for backend in op.subtasks:
        backend.get_list_state(BUFFER).update([1, 2])
        backend.get_broadcast_state(RULES).put("a", 1)
    op.commit()
    op.start(2)
    op.commit()
    op.start(1)
    op.subtasks[0].get_list_state(OBJECTS)
    assert op.subtasks[0].get_registered_state_names() == {"buffer", "objects"}
    assert op.subtasks[0].get_registered_broadcast_state_names() == {"rules"}
    op.commit()
    op.start(4)
    assert [list(backend.get_list_state(BUFFER)) for backend in op.subtasks] == [[1], [2], [1], [2]]
    assert op.subtasks[3].get_broadcast_state(RULES).content() == {"a": 1}


def test_names_of_lists_maps_and_keyed_state_do_not_meet() -> None:
    op = Operator(1)
    op.subtasks[0].get_list_state(ListStateDescriptor("x")).add(1)
    op.subtasks[0].get_broadcast_state(MapStateDescriptor("x")).put(1, 2)
    op.commit()
    op.start(1)
    assert list(op.subtasks[0].get_list_state(ListStateDescriptor("x"))) == [1]
    assert op.subtasks[0].get_broadcast_state(MapStateDescriptor("x")).content() == {1: 2}


def test_raw_state_is_whole_partitions() -> None:
    op = Operator(1)
    assert not op.subtasks[0].has_raw_state()
    op.subtasks[0].raw_state().update([b"one", b"", b"three"])
    op.commit()
    op.start(2)
    assert [list(backend.raw_state()) for backend in op.subtasks] == [[b"one", b""], [b"three"]]


# --- merging


@pytest.mark.parametrize("first", [0, 2])
def test_merged_runs_are_worth_the_same(first: int) -> None:
    op = Operator(3)
    for number in range(5):
        for subtask, backend in enumerate(op.subtasks):
            backend.get_list_state(BUFFER).add(10 * number + subtask)
            rules = backend.get_broadcast_state(RULES)
            rules.put(f"r{number % 3}", number)
            rules.remove(f"r{(number + 1) % 3}")
        op.commit()
    op.start(3)
    before = [(list(b.get_list_state(BUFFER)), list(b.get_broadcast_state(RULES).items())) for b in op.subtasks]
    op.merge(first)
    assert len(op.files) == first + 1
    op.start(3)
    after = [(list(b.get_list_state(BUFFER)), list(b.get_broadcast_state(RULES).items())) for b in op.subtasks]
    assert after == before
    kinds = {section.schema["operator_state"] for file in op.files for section in decode_sections(file, "file")}
    assert kinds == {"split", "broadcast", "layout"}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 99)),
        st.tuples(st.just("update"), st.integers(0, 9), st.lists(st.integers(0, 99), max_size=4)),
        st.tuples(st.just("put"), st.sampled_from("abcd"), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.sampled_from("abcd"), st.none()),
        st.tuples(st.just("clear"), st.none(), st.none()),
        st.tuples(st.just("commit"), st.none(), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
        st.tuples(st.just("rescale"), st.integers(1, 5), st.none()),
        st.tuples(st.just("merge"), st.integers(0, 3), st.none()),
    ),
    max_size=30,
)


class Model:
    """A list per subtask and one dict beside the real operator. What is not committed is gone after a restart."""

    def __init__(self, parallelism: int) -> None:
        self.op = Operator(parallelism)
        self.lists: list[list[int]] = [[] for _ in range(parallelism)]
        self.rules: dict[str, int] = {}
        self.commit(None, None)
        self.rescale(parallelism, None)

    def add(self, subtask: int, value: int) -> None:
        self.buffers[subtask % len(self.lists)].add(value)
        self.lists[subtask % len(self.lists)].append(value)

    def update(self, subtask: int, values: list[int]) -> None:
        self.buffers[subtask % len(self.lists)].update(values)
        self.lists[subtask % len(self.lists)] = list(values)

    def put(self, key: str, value: int) -> None:
        for state in self.maps:
            state.put(key, value)
        self.rules[key] = value

    def remove(self, key: str, _: Any) -> None:
        for state in self.maps:
            state.remove(key)
        self.rules.pop(key, None)

    def clear(self, *_: Any) -> None:
        for state in self.maps:
            state.clear()
        self.rules.clear()

    def commit(self, *_: Any) -> None:
        self.op.commit()
        self.committed = [list(part) for part in self.lists], dict(self.rules)

    def merge(self, first: int, _: Any) -> None:
        if len(self.op.files) > first:
            self.op.merge(first)

    def restart(self, *_: Any) -> None:
        self.rescale(len(self.lists), None)

    def rescale(self, parallelism: int, _: Any) -> None:
        self.op.start(parallelism)
        lists, rules = self.committed
        self.lists, self.rules = (
            dealt(dict(zip(subtasks_of(len(lists)), lists, strict=True)), len(lists), parallelism),
            dict(rules),
        )
        self.buffers = [backend.get_list_state(BUFFER) for backend in self.op.subtasks]
        self.maps = [backend.get_broadcast_state(RULES) for backend in self.op.subtasks]

    def check(self) -> None:
        assert [list(state) for state in self.buffers] == self.lists
        assert [list(state.items()) for state in self.maps] == [list(self.rules.items())] * len(self.lists)


@given(st.integers(1, 4), STEPS)
@settings(max_examples=examples(150), deadline=None)
def test_any_history_is_that_of_plain_lists_and_dicts(parallelism: int, steps: list[tuple[str, Any, Any]]) -> None:
    model = Model(parallelism)
    for what, first, second in steps:
        getattr(model, what)(first, second)
        model.check()


# --- errors


def test_a_state_is_what_it_was_registered_as() -> None:
    backend = Operator(1).subtasks[0]
    backend.get_list_state(BUFFER)
    with pytest.raises(StateError, match=r"'buffer' was registered twice: first as split.*now as union"):
        backend.get_union_list_state(BUFFER)
    with pytest.raises(StateError, match=r"registered twice.*STRING|registered twice.*String"):
        backend.get_list_state(ListStateDescriptor("buffer", Types.STRING()))
    assert backend.get_list_state(BUFFER) is backend.get_list_state(ListStateDescriptor("buffer", Types.LONG()))


def test_a_stored_state_is_what_it_was_stored_as() -> None:
    op = Operator(1)
    op.subtasks[0].get_list_state(BUFFER).add(1)
    op.commit()
    op.start(1)
    with pytest.raises(StateError, match=r"'buffer' is stored as split state, but the program now registers it as un"):
        op.subtasks[0].get_union_list_state(BUFFER)
    op.start(1)
    with pytest.raises(StateError, match=r"state 'buffer' is stored with values of another type"):
        op.subtasks[0].get_list_state(ListStateDescriptor("buffer", Types.STRING()))


def test_descriptors_must_fit() -> None:
    backend = Operator(1).subtasks[0]
    wrong: Any = ValueStateDescriptor("v")
    with pytest.raises(StateError, match="list state is registered with a ListStateDescriptor, not ValueStateDescr"):
        backend.get_list_state(wrong)
    with pytest.raises(StateError, match="broadcast state is registered with a MapStateDescriptor, not ListStateDe"):
        backend.get_broadcast_state(BUFFER)  # type: ignore[arg-type]
    expiring = ListStateDescriptor("e")
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(StateError, match="operator state 'e' cannot have a time to live"):
        backend.get_list_state(expiring)
    with pytest.raises(ValueError, match="None"):
        backend.get_list_state(BUFFER).add(None)
    with pytest.raises(ValueError, match="None"):
        backend.get_list_state(BUFFER).update([1, None])


# --- a program that declares another type, and how to get there


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("kind", ["list", "union", "broadcast"])
def test_migrated_operator_state_is_written_whole_and_the_old_is_never_read_again(kind: str, parallelism: int) -> None:
    def state_of(backend: OperatorStateBackend, type_info: Any, *, migrating: bool = False) -> Any:
        if kind == "broadcast":
            rules = MapStateDescriptor("s", Types.STRING(), type_info)
            return backend.get_broadcast_state(rules.migrate_from(Types.STRING(), int) if migrating else rules)
        items = ListStateDescriptor("s", type_info)
        items = items.migrate_from(Types.STRING(), int) if migrating else items
        return backend.get_union_list_state(items) if kind == "union" else backend.get_list_state(items)

    def seen(type_info: Any) -> list[Any]:
        """All elements; of what each subtask has, once."""
        states = [state_of(backend, type_info) for backend in op.subtasks]
        if kind == "list":
            return sorted(item for state in states for item in state.get())
        return [sorted(state.content().values() if kind == "broadcast" else state.get()) for state in states]

    op = Operator(2)
    for subtask, backend in enumerate(op.subtasks):
        old = state_of(backend, Types.STRING())
        if kind == "broadcast":
            old.put_all({"a": "1", "b": "2"})
        else:
            old.add_all([str(10 * subtask + 1), str(10 * subtask + 2)])
    op.commit()
    op.start(parallelism)
    with pytest.raises(StateMigrationError, match="String cannot become Long"):
        state_of(op.subtasks[0], Types.LONG())
    op.start(parallelism)
    for backend in op.subtasks:
        state_of(backend, Types.LONG(), migrating=True)
    op.commit()
    wanted: Any = {"broadcast": [[1, 2]] * parallelism, "list": [1, 2, 11, 12]}.get(kind)
    for merge in (False, True):
        if merge:
            op.merge()
        op.start(parallelism)
        found = seen(Types.LONG())
        assert found == (wanted or [[1, 2, 11, 12]] * parallelism)
        assert delta(op.commit(), "s") == []


@pytest.mark.parametrize("union", [False, True])
def test_declared_types_are_the_same_in_memory_as_from_storage(union: bool) -> None:
    """Results must not depend on whether the subtask moved to another worker."""

    def found(backend: OperatorStateBackend) -> list[str]:
        lists = backend.get_union_list_state if union else backend.get_list_state
        limits, rates = backend.get_broadcast_state(LIMITS), backend.get_broadcast_state(RATES)
        read = [*lists(MEASURED).get(), *lists(PAIRS).get(), *limits.items(), *rates.items()]
        return list(map(repr, [*read, limits.get(True), rates.get([1]), rates.contains([1])]))

    warm = Operator(1)
    backend = warm.subtasks[0]
    lists = backend.get_union_list_state if union else backend.get_list_state
    lists(MEASURED).add(1)
    lists(MEASURED).add_all([True, 2.5])
    lists(PAIRS).update([[1], (2,)])
    backend.get_broadcast_state(LIMITS).put(1, 5)
    backend.get_broadcast_state(RATES).put([1], [1])
    expected = ["1.0", "1.0", "2.5", "(1.0,)", "(2.0,)", "(1.0, 5.0)", "((1,), (1.0,))", "5.0", "(1.0,)", "True"]
    in_the_epoch = found(backend)
    assert in_the_epoch[:3] == expected[:3]
    assert in_the_epoch[5] == expected[5]
    warm.commit()
    assert found(backend) == expected
    assert warm.commit() == []
    warm.start(1)
    assert found(warm.subtasks[0]) == expected
    backend = warm.subtasks[0]
    backend.get_broadcast_state(RATES).remove([1])
    assert backend.get_broadcast_state(RATES).is_empty()


def test_items_are_converted_as_flink_does() -> None:
    op = Operator(1)
    backend = op.subtasks[0]
    backend.get_list_state(COUNTS).add_all([(1.5,), (2,)])
    backend.get_broadcast_state(COUNTS_OF).put("a", (3.5,))
    op.commit()
    for _ in range(2):
        backend = op.subtasks[0]
        assert repr(list(backend.get_list_state(COUNTS).get())) == "[(1,), (2,)]"
        assert repr(list(backend.get_broadcast_state(COUNTS_OF).items())) == "[('a', (3,))]"
        op.start(1)


def test_strict_types_refuse_other_items() -> None:
    backend = OperatorStateBackend("op", "operator 'op'", Subtask(0), 1, strict_types=True)
    backend.begin_epoch()
    backend.get_list_state(COUNTS).add((1.5,))
    with pytest.raises(SerializationError, match="counts"):
        backend.export_delta()
