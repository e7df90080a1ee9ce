"""Savepoints that were never taken: made from data, put together from others, with keys removed and values changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemill import state_processor
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.savepoint import open_state
from tidemill.checkpoint.storage.local import LocalStorage
from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import BroadcastProcessFunction, KeyedProcessFunction
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.errors import (
    CheckpointError,
    ConfigurationError,
    GraphError,
    SerializationError,
    StateError,
    UserCodeError,
)
from tidemill.state.keyed.backend import EVENT_TIMERS
from tidemill.state_processor import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    SavepointWriter,
    StateBootstrapFunction,
)

BALANCE = ValueStateDescriptor("balance", Types.LONG())
HISTORY = ListStateDescriptor("history", Types.LONG())
SPENT = MapStateDescriptor("spent", Types.STRING(), Types.LONG())
ANY = Types.PICKLED_BYTE_ARRAY()
Row = tuple[str, str, int]
ROWS: list[Row] = [("ann", "tea", 3), ("bob", "milk", 5), ("ann", "milk", 4), ("cid", "tea", 1)]


class Accounts(KeyedStateBootstrapFunction):
    """Each kind of state, and a timer."""

    def open(self, runtime_context: Any) -> None:
        self.balance = runtime_context.get_state(BALANCE)
        self.history = runtime_context.get_list_state(HISTORY)
        self.spent = runtime_context.get_map_state(SPENT)

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        _, what, amount = value
        self.balance.update((self.balance.value() or 0) + amount)
        self.history.add(amount)
        self.spent.put(what, (self.spent.get(what) or 0) + amount)
        ctx.timer_service().register_event_time_timer(1000)


def accounts(rows: Any = None) -> Any:
    keyed = OperatorTransformation.bootstrap_with(ROWS if rows is None else rows).key_by(
        lambda row: row[0], Types.STRING()
    )
    return keyed.transform(Accounts())


@pytest.fixture
def saved(tmp_path: Path) -> str:
    return SavepointWriter.new_savepoint().with_operator("accounts", accounts()).write(str(tmp_path / "saved"))


def values(path: str, state: str, uid: str = "accounts") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in state_processor.read(path).entries(uid, state):
        if entry.map_key is None:
            found[entry.key] = entry.value
        else:
            found.setdefault(entry.key, {})[entry.map_key] = entry.value
    return found


def test_state_of_every_kind_is_made_from_rows(saved: str) -> None:
    assert values(saved, "balance") == {"ann": 7, "bob": 5, "cid": 1}
    assert values(saved, "history") == {"ann": [3, 4], "bob": [5], "cid": [1]}
    assert values(saved, "spent") == {"ann": {"tea": 3, "milk": 4}, "bob": {"milk": 5}, "cid": {"tea": 1}}
    timers = state_processor.read(saved).timers("accounts").to_pylist()
    assert sorted((timer["key"], timer["timestamp"]) for timer in timers) == [
        ("ann", 1000),
        ("bob", 1000),
        ("cid", 1000),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        iter(ROWS),
        pa.table(dict(zip(("who", "what", "amount"), map(list, zip(*ROWS, strict=True)), strict=True))),
    ],
    ids=["iterator", "arrow"],
)
def test_rows_come_in_several_forms(tmp_path: Path, rows: Any) -> None:
    path = SavepointWriter.new_savepoint().with_operator("accounts", accounts(rows)).write(str(tmp_path / "x"))
    assert values(path, "balance") == {"ann": 7, "bob": 5, "cid": 1}


class Report(KeyedProcessFunction):
    """What the job that starts from a savepoint finds."""

    def open(self, runtime_context: Any) -> None:
        self.balance = runtime_context.get_state(BALANCE)

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.balance.update((self.balance.value() or 0) + value[2])
        yield value[0], self.balance.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), "timer"


def started(path: str, rows: list[Row]) -> list[Any]:
    configuration = Configuration.from_dict({"execution.target": "local", "execution.state-recovery.path": path})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection(rows).uid("rows").key_by(lambda row: row[0], Types.STRING())
    return sorted(stream.process(Report()).uid("accounts").execute_and_collect(), key=str)


def test_a_job_starts_from_it(saved: str) -> None:
    assert started(saved, [("ann", "tea", 1), ("new", "tea", 2)]) == [
        ("ann", "timer"),
        ("ann", 8),
        ("bob", "timer"),
        ("cid", "timer"),
        ("new", 2),
    ]


def test_keys_go_with_all_their_state_and_timers(saved: str) -> None:
    by_name = SavepointWriter.from_existing_savepoint(saved).delete_keys("accounts", ["ann"])
    path = by_name.write(f"{saved}-less")
    for state in ("balance", "history", "spent"):
        assert sorted(values(path, state)) == ["bob", "cid"]
    assert sorted(timer["key"] for timer in state_processor.read(path).timers("accounts").to_pylist()) == ["bob", "cid"]
    by_rule = SavepointWriter.from_existing_savepoint(path).delete_keys("accounts", lambda key: key > "bob")
    assert sorted(values(by_rule.write(f"{saved}-rule"), "balance")) == ["bob"]
    assert sorted(values(saved, "balance")) == ["ann", "bob", "cid"]  # as it was


def test_values_are_changed_in_place(saved: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(saved)
    writer.transform_state("accounts", "balance", lambda key, value: value * 100)
    writer.transform_state("accounts", "history", lambda key, value: -value)
    writer.transform_state("accounts", "spent", lambda key, value: value + len(key))
    path = writer.write(f"{saved}-changed")
    assert values(path, "balance") == {"ann": 700, "bob": 500, "cid": 100}
    assert values(path, "history") == {"ann": [-3, -4], "bob": [-5], "cid": [-1]}
    assert values(path, "spent") == {"ann": {"tea": 6, "milk": 7}, "bob": {"milk": 8}, "cid": {"tea": 4}}


def test_what_a_job_saved_is_changed_too(tmp_path: Path, saved: str) -> None:
    """Its state is in several runs, of which later ones have the last word."""
    from tidemill.testing import JobHarness

    def count(env: Any, words: Any) -> Any:
        return words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("count")

    with JobHarness(count, inputs=["words"]) as job:
        for words in (["a", "b"], ["a", "c"], ["a"]):
            job.epoch(words=words)
        path = job.savepoint(str(tmp_path / "savepoints"))
    writer = SavepointWriter.from_existing_savepoint(path).delete_keys("count", {"b"})
    changed = writer.transform_state("count", "_reduce_state", lambda key, pair: (pair[0], pair[1] + 10))
    new = changed.write(str(tmp_path / "changed"))
    assert values(new, "_reduce_state", "count") == {"a": ("a", 13), "c": ("c", 11)}


def test_two_become_one(tmp_path: Path, saved: str) -> None:
    other = SavepointWriter.new_savepoint().with_operator("others", accounts([("zoe", "tea", 9)]))
    path = other.write(str(tmp_path / "other"))
    both = SavepointWriter.from_existing_savepoint(saved).with_operators_of(path).write(str(tmp_path / "both"))
    assert values(both, "balance") == {"ann": 7, "bob": 5, "cid": 1}
    assert values(both, "balance", "others") == {"zoe": 9}
    assert [info.uid for info in state_processor.read(both).operators()] == ["accounts", "others"]


def test_an_operator_is_replaced(tmp_path: Path, saved: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(saved)
    with pytest.raises(StateError, match="an operator with uid 'accounts' already exists: remove it first"):
        writer.with_operator("accounts", accounts())
    writer.remove_operator("accounts").with_operator("accounts", accounts([("zoe", "tea", 9)]))
    path = writer.write(str(tmp_path / "replaced"))
    assert values(path, "balance") == {"zoe": 9}


class Names(StateBootstrapFunction):
    def initialize_state(self, context: Any) -> None:
        self.names = context.get_operator_state_store().get_list_state(ListStateDescriptor("names", Types.STRING()))

    def snapshot_state(self, context: Any) -> None:
        pass

    def process_element(self, value: str, ctx: Any) -> None:
        self.names.add(value)


def test_operator_state_is_made_too(tmp_path: Path) -> None:
    names = OperatorTransformation.bootstrap_with(["ann", "bob"]).transform(Names())
    path = SavepointWriter.new_savepoint().with_operator("names", names).write(str(tmp_path / "names"))
    found = state_processor.read(path).operator_state("names", "names").to_pylist()
    assert sorted(row["value"] for row in found) == ["ann", "bob"]


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Rules(BroadcastStateBootstrapFunction):
    def process_element(self, value: tuple[str, int], ctx: BroadcastStateBootstrapFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


class Judge(BroadcastProcessFunction):
    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        pass


def test_broadcast_state_is_made_too_and_every_subtask_has_it(tmp_path: Path) -> None:
    rules = OperatorTransformation.bootstrap_with([("tea", 1), ("milk", 2), ("tea", 3)]).transform(Rules())
    path = SavepointWriter.new_savepoint().with_operator("judge", rules).write(str(tmp_path / "rules"))
    found = state_processor.read(path).operator_state("judge", "rules").to_pylist()
    assert {row["map_key"]: row["value"] for row in found} == {"tea": 3, "milk": 2}
    settings = {"execution.target": "local", "execution.state-recovery.path": path, "parallelism.default": "3"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    nothing = env.from_collection([], Types.STRING()).uid("nothing").broadcast(RULES)
    words = env.from_collection(["tea", "milk", "tea", "rum", "milk", "tea"], Types.STRING()).uid("words").rebalance()
    judged = words.connect(nothing).process(Judge()).uid("judge")
    assert Counter(judged.execute_and_collect()) == {("tea", 3): 3, ("milk", 2): 2, ("rum", None): 1}


class Broken(Accounts):
    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        raise ValueError(f"no account for {value[0]}")


def test_a_function_that_fails_leaves_no_savepoint(tmp_path: Path) -> None:
    keyed = OperatorTransformation.bootstrap_with(ROWS).key_by(lambda row: row[0], Types.STRING())
    writer = SavepointWriter.new_savepoint().with_operator("accounts", keyed.transform(Broken()))
    with pytest.raises(UserCodeError, match="no account for"):
        writer.write(str(tmp_path / "broken"))
    assert not (tmp_path / "broken").exists()


def test_what_makes_no_sense_is_refused(tmp_path: Path, saved: str) -> None:
    with pytest.raises(CheckpointError, match="already contains a savepoint"):
        SavepointWriter.from_existing_savepoint(saved).write(saved)
    with pytest.raises(ConfigurationError, match="at least one operator"):
        SavepointWriter.new_savepoint().write(str(tmp_path / "empty"))
    with pytest.raises(StateError, match=r"no operator with uid 'acounts' to remove, only \['accounts'\]"):
        SavepointWriter.from_existing_savepoint(saved).remove_operator("acounts")
    with pytest.raises(StateError, match="no operator with uid 'acounts'"):
        SavepointWriter.from_existing_savepoint(saved).delete_keys("acounts", {"ann"})
    with pytest.raises(GraphError, match="key_by"):
        OperatorTransformation.bootstrap_with(ROWS).transform(Accounts())  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="is neither a savepoint nor the directory of a job"):
        SavepointWriter.from_existing_savepoint(str(tmp_path / "nowhere"))


class TestNothingIsDoneInSilence:
    """A change that would change nothing is an error, or at least logged; nothing is written then."""

    def write(self, saved: str, change: Any) -> None:
        writer = SavepointWriter.from_existing_savepoint(saved)
        change(writer)
        try:
            writer.write(f"{saved}-x")
        except Exception:
            assert not Path(f"{saved}-x").exists()
            raise

    @pytest.mark.parametrize("keys", ["ann", b"ann", 7, None])
    def test_a_key_is_no_collection_of_keys(self, saved: str, keys: Any) -> None:
        with pytest.raises(TypeError, match=r"needs a collection of keys.*write \["):
            SavepointWriter.from_existing_savepoint(saved).delete_keys("accounts", keys)

    @pytest.mark.parametrize("missing_ok", [False, True])
    @pytest.mark.parametrize("key", [7, ("ann",), b"ann"])
    def test_keys_of_another_type_are_refused_by_name(self, saved: str, key: Any, missing_ok: bool) -> None:
        kind = type(key).__name__
        with pytest.raises(StateError, match=rf"not a key of .*'accounts': it is a {kind}, but .* declared as String"):
            self.write(saved, lambda writer: writer.delete_keys("accounts", ["ann", key], missing_ok=missing_ok))

    def test_keys_that_are_not_there_are_refused_by_name(self, saved: str) -> None:
        with pytest.raises(StateError, match=r"1 of 2 keys have no state in .*'accounts': 'nobody'.*missing_ok=True"):
            self.write(saved, lambda writer: writer.delete_keys("accounts", ["ann", "nobody"]))
        with pytest.raises(StateError, match=r"12 of 12 keys.*and 2 more"):
            self.write(saved, lambda writer: writer.delete_keys("accounts", list(map(str, range(12)))))

    def test_they_may_be_missing_if_one_says_so(self, saved: str, caplog: pytest.LogCaptureFixture) -> None:
        self.write(saved, lambda writer: writer.delete_keys("accounts", ["ann", "nobody"], missing_ok=True))
        assert values(f"{saved}-x", "balance") == {"bob": 5, "cid": 1}
        assert "1 of 2 keys have no state in the operator with uid 'accounts': 'nobody'" in caplog.text

    def test_a_rule_that_no_key_meets_is_logged(self, saved: str, caplog: pytest.LogCaptureFixture) -> None:
        self.write(saved, lambda writer: writer.delete_keys("accounts", lambda key: key == 7))
        assert "deleted nothing" in caplog.text

    @pytest.mark.parametrize("state", ["balance", "history", "spent"])
    def test_a_function_that_returns_none_is_refused(self, saved: str, state: str) -> None:
        def forgets(key: str, value: int) -> None:
            value + 1

        with pytest.raises(StateError, match=r"returned None for the value \d+ of key 'ann'.*delete_keys\(\)"):
            self.write(saved, lambda writer: writer.transform_state("accounts", state, forgets))

    @pytest.mark.parametrize("state", [EVENT_TIMERS, "__operator:x"])
    def test_only_keyed_states_can_be_changed(self, saved: str, state: str) -> None:
        with pytest.raises(StateError, match=f"no keyed state {state!r} to change, only"):
            self.write(saved, lambda writer: writer.transform_state("accounts", state, lambda key, value: value))

    def test_states_of_an_operator_without_any(self, tmp_path: Path) -> None:
        empty = SavepointWriter.new_savepoint().with_operator("accounts", accounts([])).write(str(tmp_path / "empty"))
        with pytest.raises(StateError, match="no keyed state 'balance' to change, and has no other keyed state"):
            self.write(empty, lambda writer: writer.transform_state("accounts", "balance", lambda key, value: value))
        with pytest.raises(StateError, match="It has no keys at all"):
            self.write(empty, lambda writer: writer.delete_keys("accounts", {"ann"}))

    def test_changes_of_an_operator_go_with_it(self, tmp_path: Path, saved: str) -> None:
        def change(writer: SavepointWriter) -> None:
            writer.transform_state("accounts", "balance", lambda key, value: -value).delete_keys("accounts", {"ann"})
            writer.remove_operator("accounts").with_operator("accounts", accounts())

        self.write(saved, change)
        assert values(f"{saved}-x", "balance") == values(saved, "balance")

    def test_operators_to_take_over(self, tmp_path: Path, saved: str) -> None:
        writer = SavepointWriter.new_savepoint()
        with pytest.raises(TypeError, match=r"collection of uids, not 'accounts': write \['accounts'\]"):
            writer.with_operators_of(saved, "accounts")
        with pytest.raises(StateError, match="nothing to take over"):
            writer.with_operators_of(saved, [])
        with pytest.raises(TypeError, match="needs the result of OperatorTransformation's transform"):
            writer.with_operator("accounts", Accounts())  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "rows",
        [
            lambda: iter(ROWS),
            lambda: pa.table({"who": ["ann"], "what": ["tea"], "amount": [1]}).to_reader(),
        ],
        ids=["iterator", "reader"],
    )
    def test_rows_that_come_once_are_not_read_twice(self, tmp_path: Path, rows: Any) -> None:
        made = accounts(rows())
        SavepointWriter.new_savepoint().with_operator("accounts", made).write(str(tmp_path / "one"))
        with pytest.raises(GraphError, match="read already"):
            SavepointWriter.new_savepoint().with_operator("accounts", made).write(str(tmp_path / "two"))
        assert not (tmp_path / "two").exists()

    def test_lookups_by_a_key_of_another_type(self, saved: str) -> None:
        reader = state_processor.read(saved)
        assert (reader.get("accounts", "balance", "bob"), reader.get("accounts", "balance", "nobody")) == (5, None)
        with pytest.raises(StateError, match=r"7 is not a key of .*'accounts': it is a int, but .* declared as String"):
            reader.get("accounts", "balance", 7)


class Alarms(Accounts):
    """Processing-time timers: one that is due already, one that will be."""

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_processing_time_timer(5)
        ctx.timer_service().register_processing_time_timer(10**15)


def test_timers_that_are_due_wait_for_the_job(tmp_path: Path) -> None:
    keyed = OperatorTransformation.bootstrap_with(ROWS[:1]).key_by(lambda row: row[0], Types.STRING())
    writer = SavepointWriter.new_savepoint().with_operator("alarms", keyed.transform(Alarms()))
    path = writer.write(str(tmp_path / "alarms"))
    timers = state_processor.read(path).timers("alarms").to_pylist()
    assert [(timer["domain"], timer["timestamp"]) for timer in timers] == [("processing", 5), ("processing", 10**15)]
    assert open_state(path).manifest.next_timer == 5  # the job does not wait for input


def test_a_failure_never_loses_rows(tmp_path: Path) -> None:
    """Even if the configuration has jobs started again: the rows of the first try are gone."""
    settings = {"execution.target": "local", "restart-strategy.type": "fixed-delay", "execution.job-id": "x"}
    settings |= {"restart-strategy.fixed-delay.delay": "0 ms", "execution.state-recovery.path": "/nowhere"}
    keyed = OperatorTransformation.bootstrap_with(ROWS).key_by(lambda row: row[0], Types.STRING())
    writer = SavepointWriter.new_savepoint(configuration=Configuration.from_dict(settings))
    with pytest.raises(UserCodeError, match="no account for"):
        writer.with_operator("accounts", keyed.transform(Broken())).write(str(tmp_path / "broken"))


def test_a_change_that_fails_leaves_nothing(saved: str) -> None:
    def write(state: str, function: Any) -> None:
        SavepointWriter.from_existing_savepoint(saved).transform_state("accounts", state, function).write(f"{saved}-x")

    with pytest.raises(ZeroDivisionError):
        write("balance", lambda key, value: value / 0)
    with pytest.raises(StateError, match=r"'balance' of the operator with uid 'accounts' cannot be changed.*got str"):
        write("balance", lambda key, value: "much")
    with pytest.raises(StateError, match="no keyed state 'balanc' to change, only"):
        write("balanc", lambda key, value: value)
    assert not Path(f"{saved}-x").exists()


def test_a_job_keeps_its_directory(tmp_path: Path, saved: str) -> None:
    ManifestLog(LocalStorage(tmp_path / "job"), "job").open_lineage()
    with pytest.raises(CheckpointError, match="is the directory of a job"):
        SavepointWriter.from_existing_savepoint(saved).write(str(tmp_path / "job"))


def test_a_savepoint_has_one_epoch(saved: str) -> None:
    epoch = state_processor.read(saved).epoch
    assert state_processor.read(saved, epoch=epoch).epoch == epoch
    with pytest.raises(CheckpointError, match=f"is a savepoint of epoch {epoch} of job"):
        state_processor.read(saved, epoch=77)


def test_settings_of_an_object_store_are_used(saved: str) -> None:
    """It is enough that they get there: what they mean is tested with the store."""
    settings = Configuration.from_dict({"execution.target": "local", "s3.no-such-key": "x"})
    for use in (
        lambda: state_processor.read("s3://bucket/job", configuration=settings),
        lambda: SavepointWriter.from_existing_savepoint("s3://bucket/job", settings),
        lambda: SavepointWriter.from_existing_savepoint(saved, settings).with_operators_of("s3://bucket/other"),
        lambda: SavepointWriter.from_existing_savepoint(saved, settings).write("s3://bucket/new"),
    ):
        with pytest.raises(ConfigurationError, match=r"s3\.no-such-key"):
            use()


class Notes(KeyedStateBootstrapFunction):
    """State of which no type is declared, with None among its values."""

    def open(self, runtime_context: Any) -> None:
        self.notes = runtime_context.get_map_state(MapStateDescriptor("notes", ANY, ANY))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> None:
        self.notes.put("none", None)
        self.notes.put("one", 1)


def test_values_without_a_declared_type_may_change_it(tmp_path: Path) -> None:
    notes = OperatorTransformation.bootstrap_with(["ann"]).key_by(lambda row: row).transform(Notes())
    first = SavepointWriter.new_savepoint().with_operator("notes", notes).write(str(tmp_path / "1"))
    writer = SavepointWriter.from_existing_savepoint(first).transform_state(
        "notes", "notes", lambda key, value: [value]
    )
    assert values(writer.write(str(tmp_path / "2")), "notes", "notes") == {"ann": {"none": [None], "one": [1]}}


class Told(KeyedProcessFunction):
    """Keeps what was said last; ``None`` forgets it."""

    def __init__(self, migrating: bool) -> None:
        self._migrating = migrating

    def open(self, runtime_context: Any) -> None:
        last = ValueStateDescriptor("last", Types.LONG() if self._migrating else Types.STRING())
        self.last = runtime_context.get_state(last.migrate_from(Types.STRING(), len) if self._migrating else last)

    def process_element(self, value: tuple[str, Any], ctx: KeyedProcessFunction.Context) -> None:
        self.last.update(value[1])


def test_what_a_migration_replaced_stays_gone(tmp_path: Path) -> None:
    """Files hold values of two types: the function is given those that count, and no key comes back."""
    from tidemill.testing import JobHarness

    def job(migrating: bool) -> Any:
        return lambda env, told: told.key_by(lambda pair: pair[0], Types.STRING()).process(Told(migrating)).uid("told")

    with JobHarness(job(False), inputs=["told"], parallelism=1) as before:
        before.epoch(told=[("ann", "hello"), ("bob", "hi")])
    with JobHarness(job(True), inputs=before.inputs, storage=before.storage, parallelism=1) as after:
        after.epoch(told=[("bob", None)])
        path = after.savepoint(tmp_path)
    assert values(path, "last", "told") == {"ann": 5}
    doubled = SavepointWriter.from_existing_savepoint(path).transform_state(
        "told", "last", lambda key, value: value + 1
    )
    assert values(doubled.write(str(tmp_path / "doubled")), "last", "told") == {"ann": 6}
    empty = SavepointWriter.from_existing_savepoint(path).delete_keys("told", {"ann"}).write(str(tmp_path / "empty"))
    assert values(empty, "last", "told") == {}


class Ticket:
    """Says when it is unpickled."""

    opened: list[str] = []  # noqa: RUF012 - that is the point

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def __reduce__(self) -> Any:
        return opened, (self.owner,)

    def __deepcopy__(self, memo: Any) -> Ticket:
        return self


def opened(owner: str) -> str:
    Ticket.opened.append(owner)
    return owner


class Tickets(KeyedStateBootstrapFunction):
    def open(self, runtime_context: Any) -> None:
        self.ticket = runtime_context.get_state(ValueStateDescriptor("ticket"))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> None:
        self.ticket.update(Ticket(value))


def test_what_is_pickled_is_changed_only_if_the_savepoint_is_trusted(tmp_path: Path) -> None:
    tickets = OperatorTransformation.bootstrap_with(["ann", "bob"]).key_by(lambda row: row).transform(Tickets())
    first = SavepointWriter.new_savepoint().with_operator("tickets", tickets).write(str(tmp_path / "1"))
    Ticket.opened.clear()

    def changed(allow_pickle: bool) -> list[SavepointWriter]:
        begun = SavepointWriter.from_existing_savepoint(first, allow_pickle=allow_pickle)
        merged = SavepointWriter.new_savepoint().with_operators_of(first, allow_pickle=allow_pickle)
        return [writer.transform_state("tickets", "ticket", lambda key, value: f"{key}!") for writer in (begun, merged)]

    for writer in changed(allow_pickle=False):
        with pytest.raises(SerializationError, match=r"(?s)'ticket' of.*cannot be changed.*allow_pickle=True"):
            writer.write(str(tmp_path / "2"))
    without_bob = SavepointWriter.from_existing_savepoint(first).delete_keys("tickets", {"bob"})
    kept = state_processor.read(without_bob.write(str(tmp_path / "3"))).keyed_state("tickets", "ticket").to_pylist()
    assert [row["key"] for row in kept] == ["ann"], "keys are no pickles"
    assert Ticket.opened == []
    for number, writer in enumerate(changed(allow_pickle=True), 4):
        assert values(writer.write(str(tmp_path / str(number))), "ticket", "tickets") == {"ann": "ann!", "bob": "bob!"}
    assert Ticket.opened != []
