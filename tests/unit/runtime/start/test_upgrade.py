"""A changed program on old state: what it finds, what is refused, and that a refusal touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.own_logs import logged_here
from tidemill.common import Types
from tidemill.common.configuration import Configuration
from tidemill.common.reports.upgrade_report import Outcome, UpgradeReport
from tidemill.common.time import Time
from tidemill.common.typeinfo import DataclassTypeInfo
from tidemill.datastream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.functions.basic import MapFunction
from tidemill.datastream.functions.checkpointed import CheckpointedFunction
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.errors import GraphError, StateError, StateMigrationError
from tidemill.faults import Fault
from tidemill.runtime.driver.launch import prepare
from tidemill.runtime.start.upgrade import warn_of_derived_uids
from tidemill.state.codecs.class_names import register_class
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving
from tidemill.testing.simulation.disks import fast_directory

IGNORE = {"execution.state-recovery.ignore-unclaimed-state": "true"}
BACKENDS = ("hashmap", "rocksdb")


class Remember(KeyedProcessFunction):
    """Puts the value of each record into all its states, which ``declare`` names when it is opened."""

    def __init__(self, declare: Callable[[], Iterable[StateDescriptor]], *, lazily: bool = False) -> None:
        self._declare = declare
        self._lazily = lazily
        self._states: list[Any] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context
        if not self._lazily:
            self._register()

    def _register(self) -> None:
        getters: dict[str, Any] = {"value": "get_state", "list": "get_list_state", "map": "get_map_state"}
        self._states = [getattr(self._context, getters[d.kind])(d) for d in self._declare()]

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if not self._states:
            self._register()
        for state in self._states:
            if hasattr(state, "update"):
                state.update([value[1]] if hasattr(state, "add") else value[1])
            else:
                state.put("x", value[1])
        yield value


def remember(*descriptors: Callable[[], StateDescriptor], uid: str = "memory", lazily: bool = False) -> Any:
    """A program that remembers the last value of each key."""

    def build(env: Any, records: Any) -> Any:
        function = Remember(lambda: [make() for make in descriptors], lazily=lazily)
        return records.key_by(lambda record: record[0], Types.STRING()).process(function).uid(uid)

    return build


def value(name: str, type_info: Any) -> Callable[[], StateDescriptor]:
    return lambda: ValueStateDescriptor(name, type_info)


def outcomes(report: UpgradeReport) -> dict[str, Outcome]:
    return {change.state: change.outcome for change in report.changes if change.operator == "memory"}


def started(build: Any, records: Iterable[Any], **options: Any) -> JobHarness:
    job = JobHarness(build, inputs=["records"], **options)
    job.epoch(records=records)
    return job


def stored_bytes(job: JobHarness) -> dict[str, bytes]:
    """All that the job has in its storage."""
    return {name: job.storage.read(name) for name in job.storage.list()}


# --- operators


def test_state_stays_with_its_operator_when_the_program_grows_around_it() -> None:
    def grown(env: Any, records: Any) -> Any:
        before = records.map(lambda record: record).rebalance().filter(lambda record: True)
        keyed = before.key_by(lambda record: record[0], Types.STRING())
        keyed.process(Remember(lambda: [ValueStateDescriptor("other")])).uid("newcomer")
        return keyed.process(Remember(lambda: [ValueStateDescriptor("s", Types.LONG())])).uid("memory")

    with started(remember(value("s", Types.LONG())), [("a", 1), ("b", 2)]) as job:
        job.restart(build=grown)
        job.epoch(records=[("b", 3)])
        assert job.state("memory", "s") == {"a": 1, "b": 3}
        assert job.state("newcomer", "other") == {"b": 3}


def test_an_operator_that_is_gone_is_refused_and_the_message_guesses_its_new_uid() -> None:
    with started(remember(value("s", Types.LONG())), [("a", 1)]) as job:
        before = stored_bytes(job)
        with pytest.raises(StateError, match=r"\(uid memory\), which is not part of the program") as caught:
            job.restart(build=remember(value("s", Types.LONG()), uid="renamed"))
        assert "has the new uid 'renamed': is it the same one?" in str(caught.value)
        assert stored_bytes(job) == before


@pytest.mark.parametrize("key", ["execution.state-recovery.ignore-unclaimed-state", "allow-by-its-old-name"])
def test_state_that_is_left_behind_is_gone_for_good(key: str, caplog: pytest.LogCaptureFixture) -> None:
    old = key if key.startswith("execution") else "execution.savepoint.ignore-unclaimed-state"
    program = remember(value("s", Types.LONG()))
    with started(program, [("a", 1)], merge_after=2) as job:
        job.restart(build=remember(value("s", Types.LONG()), uid="other"), configuration={old: "true"})
        assert "state of operator 'KEYED PROCESS' is ignored" in caplog.text
        job.epoch(records=[("b", 2)])
        # From here on nobody has to allow it any more, and who has the uid again begins with nothing.
        job.restart(configuration={old: "false"})
        job.epoch(records=[("b", 3)])
        job.restart(build=program, configuration={old: "true"})
        job.epoch(records=[("c", 3)])
        assert job.state("memory", "s") == {"c": 3}
        for number in range(6):  # some of them are merged
            job.epoch(records=[("d", number)])
        job.restart(workers=1)
        job.epoch(records=[("e", 1)])
        assert job.state("memory", "s") == {"c": 3, "d": 5, "e": 1}


def test_what_is_left_behind_does_not_come_back_from_a_file_that_is_still_needed() -> None:
    """A merged file holds both operators: one goes and comes back, the other stays all the time."""
    stays, memory = remember(value("s", Types.LONG()), uid="stays"), remember(value("s", Types.LONG()))

    def both(env: Any, records: Any) -> Any:
        memory(env, records)
        return stays(env, records)

    with started(both, [("a", 1)], merge_after=2) as job:
        for _ in range(2):
            job.epoch(records=[("a", 1)])
        assert any(run.snapshot for run in job.head.runs)
        job.restart(build=stays, configuration=IGNORE)
        job.epoch(records=[("b", 2)])
        job.restart(build=both)
        for number in range(6):
            job.epoch(records=[("c", number)])
            assert job.state("memory", "s") == {"c": number}
        job.restart(workers=1)
        job.epoch()
        assert job.state("memory", "s") == {"c": 5}
        assert job.state("stays", "s") == {"a": 1, "b": 2, "c": 5}


def test_a_source_that_is_gone_is_refused_since_its_position_would_be_lost() -> None:
    def from_numbers(uid: str) -> Any:
        return lambda env: env.from_sequence(1, 4).uid(uid).map(str)

    with JobHarness(from_numbers("numbers"), max_records=2) as job:
        job.epoch()
        with pytest.raises(StateError, match=r"the position of source .* \(uid numbers\), which is not part"):
            job.restart(build=from_numbers("other"))
        job.restart(build=from_numbers("other"), configuration=IGNORE)
        job.run()
        assert sorted(job.output()) == ["1", "1", "2", "2", "3", "4"]
        assert list(job.head.sources) == ["other"]


def test_a_sink_that_is_gone_is_refused_since_its_results_may_not_be_committed() -> None:
    def writing(*names: str) -> Any:
        return lambda env, records: dict.fromkeys(names, records)

    with started(writing("one", "two"), [1]) as job:
        with pytest.raises(StateError, match=r"results to be committed of sink .* \(uid output-two\), which is not"):
            job.restart(build=writing("one"))
        job.restart(build=writing("one"), configuration=IGNORE)
        job.epoch(records=[2])
        job.restart(configuration=dict.fromkeys(IGNORE, "false"))
        job.epoch(records=[3])
        assert job.output("one") == [1, 2, 3]
        assert job.output("two") == [1]


def test_a_changed_max_parallelism_is_refused_with_both_numbers() -> None:
    def limited(most: int) -> Any:
        build = remember(value("s", Types.LONG()))
        return lambda env, records: build(env, records).set_max_parallelism(most)

    with started(limited(128), [("a", 1)]) as job:
        report = job.check_upgrade(limited(64))
        assert [(c.stored, c.declared) for c in report.refused] == [("max parallelism 128", "max parallelism 64")]
        with pytest.raises(GraphError, match="started with max parallelism 128 and now has 64"):
            job.restart(build=limited(64))


def test_keys_of_another_type_are_refused_before_anything_runs() -> None:
    def keyed(type_info: Any) -> Any:
        function = Remember(lambda: [ValueStateDescriptor("s")], lazily=True)
        return lambda env, records: records.key_by(lambda r: r[0], type_info).process(function).uid("memory")

    with started(keyed(Types.INT()), [(1, 1)]) as job:
        with pytest.raises(StateMigrationError, match=r"keys .*\n    stored:   Integer\n    declared: String"):
            job.restart(build=keyed(Types.STRING()))
        job.restart(build=keyed(Types.LONG()))
        job.epoch(records=[(1, 2), (2, 3)])
        assert job.state("memory", "s") == {1: 2, 2: 3}


def test_all_obstacles_are_in_one_message() -> None:
    def both(env: Any, records: Any) -> Any:
        remember(value("s", None), uid="one")(env, records)
        return remember(value("s", None), uid="two")(env, records)

    with started(both, [("a", 1)]) as job, pytest.raises(StateError, match=r"(?s)uid one.*uid two"):
        job.restart(build=lambda env, records: records)


# --- uids


def test_operators_with_state_but_without_a_uid_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment(Configuration())
    numbers = env.from_sequence(1, 3)
    numbers.map(abs).key_by(lambda n: n).sum().uid("total")
    numbers.key_by(lambda n: n).reduce(max).name("greatest").print()
    warn_of_derived_uids(prepare(env._program("job"), 1).plan)
    (told,) = logged_here(caplog)
    assert "'greatest'" in told
    assert "Source" in told
    assert "Map" not in told
    assert "total" not in told
    assert "pipeline.auto-generate-uids" in told


@pytest.mark.parametrize(("directory", "warned"), [(True, True), (False, False)])
def test_only_a_job_that_can_come_back_is_warned(
    directory: bool, warned: bool, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"execution.target": "local", **({"execution.checkpointing.dir": str(tmp_path)} if directory else {})}
    env = StreamExecutionEnvironment(Configuration.from_dict(settings))
    env.from_collection([1, 2]).key_by(lambda n: n).reduce(max).print()
    env.execute()
    assert ("no uid" in caplog.text) is warned


def test_in_strict_mode_a_missing_uid_is_an_error() -> None:
    env = StreamExecutionEnvironment(Configuration.from_dict({"pipeline.auto-generate-uids": "false"}))
    env.from_collection([1]).uid("numbers").map(abs).print()
    with pytest.raises(GraphError, match=r"has no uid, and pipeline.auto-generate-uids is false"):
        env.explain()


# --- states


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_that_comes_starts_empty_and_one_that_goes_is_kept(backend: str, tmp_path: Any) -> None:
    """As in Flink: a state that is not registered stays in the checkpoints, and is found if it is registered again."""
    options = _options(backend, tmp_path)
    one, two = value("one", Types.LONG()), value("two", Types.LONG())
    with started(remember(one), [("a", 1)], merge_after=2, **options) as job:
        report = job.check_upgrade(remember(two))
        assert outcomes(report) == {"one": Outcome.ORPHANED, "two": Outcome.NEW}
        job.restart(build=remember(two))
        for number in range(5):  # also through merges
            job.epoch(records=[("b", number)])
        job.restart(build=remember(one, two))
        job.epoch(records=[("c", 7)])
        assert job.state("memory", "one") == {"a": 1, "c": 7}
        assert job.state("memory", "two") == {"b": 4, "c": 7}


def versions() -> tuple[Any, Any]:
    """A class in the first version of a program, and in the second."""

    @dataclass
    class Account:
        balance: int

    first = Account

    @dataclass
    class Account:  # type: ignore[no-redef]
        balance: float
        currency: str = "EUR"

    return first, register_class(Account)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dataclass_gains_a_field_and_a_wider_number(backend: str, tmp_path: Any) -> None:
    first, second = versions()
    # An int of 32 bits becomes a float without loss; the hint alone would say LONG.
    narrow, wide = DataclassTypeInfo(first, {"balance": Types.INT()}), Types.DATACLASS(second)

    def all_kinds(type_info: Any) -> Any:
        return remember(
            value("v", type_info),
            lambda: ListStateDescriptor("l", type_info),
            lambda: MapStateDescriptor("m", Types.STRING(), type_info),
        )

    with started(all_kinds(narrow), [("a", first(5))], merge_after=3, **_options(backend, tmp_path)) as job:
        assert set(outcomes(job.check_upgrade(all_kinds(wide))).values()) == {Outcome.MIGRATED}
        job.restart(build=all_kinds(wide))
        for number in range(4):
            job.epoch(records=[("b", second(float(number), "USD"))])
        found = second(5.0, "EUR"), second(3.0, "USD")
        assert job.state("memory", "v") == dict(zip("ab", found, strict=True))
        assert job.state("memory", "l") == {"a": [found[0]], "b": [found[1]]}
        assert job.state("memory", "m") == {"a": {"x": found[0]}, "b": {"x": found[1]}}
        assert type(job.state("memory", "v")["a"].balance) is float


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_migrated_state_needs_no_migration_after_the_first_epoch(
    backend: str, parallelism: int, tmp_path: Any
) -> None:
    text, number = value("s", Types.STRING()), value("s", Types.LONG())

    def migrating() -> StateDescriptor:
        return ValueStateDescriptor("s", Types.LONG()).migrate_from(Types.STRING(), int)

    records = [(key, str(i)) for i, key in enumerate("abcdef")]
    with started(remember(text), records, merge_after=3, **_options(backend, tmp_path)) as job:
        report = job.check_upgrade(remember(migrating))
        assert outcomes(report) == {"s": Outcome.MIGRATED}
        assert "by a function of the program" in str(report)
        job.restart(build=remember(migrating), parallelism=parallelism)
        job.epoch(records=[("a", 100)])
        assert outcomes(job.check_upgrade(remember(number))) == {"s": Outcome.RESTORED}
        job.restart(build=remember(number), parallelism=2)
        for i in range(5):
            job.epoch(records=[("b", i)])
        assert job.state("memory", "s") == {"a": 100, "b": 4, "c": 2, "d": 3, "e": 4, "f": 5}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("point", ["state.loaded", "delta.after", "manifest.before", "manifest.after"])
def test_a_crash_in_the_epoch_that_migrates_changes_nothing(point: str, backend: str, tmp_path: Any) -> None:
    def migrating() -> StateDescriptor:
        return ListStateDescriptor("s", Types.LONG()).migrate_from(Types.STRING(), int)

    text, number = (lambda: ListStateDescriptor("s", Types.STRING())), (lambda: ListStateDescriptor("s", Types.LONG()))
    records = [(key, str(i)) for i, key in enumerate("abcdef")]
    with started(remember(text), records, placement=moving(2), **_options(backend, tmp_path)) as job:
        job.restart(build=remember(migrating))
        job.crash(Fault(point), records=[("a", 100)])
        job.run()
        job.restart(build=remember(number))
        job.epoch(records=[("b", 200)])
        assert job.state("memory", "s") == {"a": [100], "b": [200], "c": [2], "d": [3], "e": [4], "f": [5]}


def test_a_refused_type_leaves_everything_as_it_was() -> None:
    text, number = value("s", Types.STRING()), value("s", Types.LONG())
    with started(remember(text), [("a", "1")]) as job:
        state = job.state("memory", "s")
        job.restart(build=remember(number))
        with pytest.raises(StateMigrationError, match=r"stored:   String\n    declared: Long"):
            job.epoch(records=[("a", 2)])
        assert job.output() == [("a", "1")]
        job.restart(build=remember(text), crashed=True)
        assert job.state("memory", "s") == state
        assert job.head.epoch == 1


def test_a_refused_type_is_not_tried_again(tmp_path: Any) -> None:
    """A restart could not mend it, so the job fails at once, whatever its restart strategy is."""

    def run(type_info: Any, numbers: int) -> None:
        settings = {
            "execution.target": "local",
            "execution.checkpointing.dir": str(tmp_path),
            "execution.job-id": "job",
            "execution.epoch.max-records": "1",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "60 s",
        }
        env = StreamExecutionEnvironment(Configuration.from_dict(settings))
        convert = int if type_info == Types.LONG() else str
        records = env.from_sequence(1, 2).uid("numbers").map(lambda number: (fail_at(number, numbers), convert(number)))
        remember(value("s", type_info))(env, records).print().uid("out")
        env.execute()

    def fail_at(number: int, last: int) -> str:
        if number > last:
            raise StateMigrationError("stop here")
        return "key"

    with pytest.raises(StateMigrationError, match="stop here"):
        run(Types.STRING(), 1)
    with pytest.raises(StateMigrationError, match="String cannot become Long"):
        run(Types.LONG(), 2)


def test_a_state_registered_with_the_first_record_is_checked_then() -> None:
    text = remember(value("s", Types.STRING()), lazily=True)
    number = remember(value("s", Types.LONG()), lazily=True)
    with started(text, [("a", "1")]) as job:
        report = job.check_upgrade(number)
        assert outcomes(report) == {"s": Outcome.ORPHANED}
        job.restart(build=number)
        job.epoch()
        with pytest.raises(StateMigrationError, match="cannot become Long"):
            job.epoch(records=[("a", 2)])


def test_a_state_of_another_kind_is_refused() -> None:
    with started(remember(value("s", Types.LONG())), [("a", 1)]) as job:
        other = remember(lambda: ListStateDescriptor("s", Types.LONG()))
        (refused,) = job.check_upgrade(other).refused
        assert (refused.stored, refused.declared) == ("value(Long)", "list(Long)")
        job.restart(build=other)
        with pytest.raises(StateMigrationError, match="stored as value state, but the program now declares it as list"):
            job.epoch(records=[("a", 2)])


def test_a_time_to_live_that_comes_goes_or_changes_is_part_of_the_report() -> None:
    def expiring(seconds: int) -> Callable[[], StateDescriptor]:
        def make() -> StateDescriptor:
            descriptor = ValueStateDescriptor("s", Types.LONG())
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(seconds)).build())
            return descriptor

        return make

    plain = value("s", Types.LONG())
    with started(remember(plain), [("a", 1)]) as job:
        (change,) = job.check_upgrade(remember(expiring(5))).of(Outcome.MIGRATED)
        assert (change.stored, change.declared) == ("value(Long)", "value(Long, ttl 5000 ms)")
        assert change.detail == "a time to live of 5000 ms begins with the restore"
        job.restart(build=remember(expiring(5)))
        job.epoch(records=[("a", 1)])
        (change,) = job.check_upgrade(remember(plain)).of(Outcome.MIGRATED)
        assert "the time to live of 5000 ms is dropped" in change.detail
        (change,) = job.check_upgrade(remember(expiring(9))).of(Outcome.MIGRATED)
        assert "5000 ms, OnCreateAndWrite, ProcessingTime becomes 9000 ms" in change.detail


class Buffer(MapFunction, CheckpointedFunction):
    """Keeps all it has seen in operator state."""

    def __init__(self, make: Callable[[], ListStateDescriptor]) -> None:
        self._make = make
        self._seen: list[Any] = []

    def initialize_state(self, context: Any) -> None:
        self._state = context.get_operator_state_store().get_list_state(self._make())
        self._seen = list(self._state.get())

    def snapshot_state(self, context: Any) -> None:
        self._state.update(self._seen)

    def map(self, value: Any) -> Any:
        self._seen.append(value)
        return value


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_operator_state_is_migrated_and_reported_too(parallelism: int) -> None:
    def buffering(make: Callable[[], ListStateDescriptor]) -> Any:
        return lambda env, records: records.rebalance().map(Buffer(make)).uid("memory")

    def migrating() -> ListStateDescriptor:
        return ListStateDescriptor("b", Types.LONG()).migrate_from(Types.STRING(), int)

    text = buffering(lambda: ListStateDescriptor("b", Types.STRING()))
    number = buffering(lambda: ListStateDescriptor("b", Types.LONG()))
    with started(text, ["1", "2", "3", "4"], merge_after=3) as job:
        (refused,) = job.check_upgrade(number).refused
        assert (refused.state, refused.stored, refused.declared) == ("b", "split(String)", "split(Long)")
        assert outcomes(job.check_upgrade(buffering(migrating))) == {"b": Outcome.MIGRATED}
        job.restart(build=buffering(migrating), parallelism=parallelism)
        job.epoch(records=[5])
        assert outcomes(job.check_upgrade(number)) == {"b": Outcome.RESTORED}
        job.restart(build=number, parallelism=2)
        for i in range(6, 10):
            job.epoch(records=[i])
        found = job.operator_state("memory", "b")
        assert sorted(item for part in found.values() for item in part) == list(range(1, 10))


# --- the report


def test_a_function_that_cannot_be_opened_here_is_reported() -> None:
    class Picky(Remember):
        def open(self, runtime_context: RuntimeContext) -> None:
            if runtime_context.get_number_of_parallel_subtasks() == 1:
                raise OSError("no such device here")
            super().open(runtime_context)

    def picky(env: Any, records: Any) -> Any:
        function = Picky(lambda: [ValueStateDescriptor("s")])
        return records.key_by(lambda r: r[0], Types.STRING()).process(function).uid("memory")

    with started(picky, [("a", 1)]) as job:
        report = job.check_upgrade()
        assert outcomes(report) == {"": Outcome.UNKNOWN, "s": Outcome.ORPHANED}
        assert "OSError: no such device here" in str(report)
        report.check()


def test_a_dry_run_touches_nothing() -> None:
    opened: list[str] = []

    class Watched(Remember):
        def open(self, runtime_context: RuntimeContext) -> None:
            opened.append("open")
            super().open(runtime_context)

        def close(self) -> None:
            opened.append("close")

    def watched(env: Any, records: Any) -> Any:
        function = Watched(lambda: [ValueStateDescriptor("s")])
        return records.key_by(lambda r: r[0], Types.STRING()).process(function).uid("memory")

    with started(remember(value("s", None)), [("a", 1)]) as job:
        before = stored_bytes(job)
        report = job.check_upgrade(watched)
        assert outcomes(report) == {"s": Outcome.RESTORED}
        assert stored_bytes(job) == before
        job.epoch(records=[("a", 2)])
        assert job.state("memory", "s") == {"a": 2}


def _options(backend: str, tmp_path: Any) -> Mapping[str, Any]:
    directory = fast_directory() or str(tmp_path)
    return {"configuration": {"state.backend.type": backend, "state.backend.rocksdb.localdir": directory}}
