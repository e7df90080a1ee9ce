"""Upgrades of a program: what is stored is found again, or the start is refused, and a dry run says which.

Every refusal leaves things as they were: the old program continues.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Configuration, Time, Types, WatermarkStrategy
from tidemill.common.reports.upgrade_report import Outcome
from tidemill.common.types import Row
from tidemill.datastream import (
    KeyedProcessFunction,
    MapFunction,
    MapStateDescriptor,
    ProcessFunction,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidemill.errors import StateError, StateMigrationError, TidemillError
from tidemill.testing import JobHarness

Build = Callable[..., Any]
NewJob = Callable[..., JobHarness]


@pytest.fixture(params=["hashmap", "rocksdb"])
def new_job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewJob]:
    settings = {"state.backend.type": request.param, "state.backend.rocksdb.localdir": str(tmp_path)}
    made: list[JobHarness] = []

    def make(build: Build, **options: Any) -> JobHarness:
        made.append(JobHarness(build, inputs=["records"], configuration=settings, **options))
        return made[-1]

    yield make
    for job in made:
        job.close()


@pytest.fixture
def define() -> Iterator[Callable[[str], Any]]:
    """Defines a module: again for another version of its classes."""
    name = "tests_upgraded_classes"

    def module(source: str) -> Any:
        made = types.ModuleType(name)
        sys.modules[name] = made
        exec(source, made.__dict__)
        return made

    yield module
    sys.modules.pop(name, None)


def attempt(job: JobHarness, build: Build, *records: Any) -> list[Any] | TidemillError:
    """Start another program, after a dry run of it, which must say the same; its output, or what it is refused with."""
    before = len(job.output())
    refused = _raised(job.check_upgrade(build).check)

    def start() -> None:
        job.restart(build=build)
        job.epoch()  # without records, which would wait for the next program if this one is refused

    error = _raised(start)
    assert type(error) is type(refused), (error, refused)
    if refused is None:
        job.epoch(records=records)
        return job.output()[before:]
    assert isinstance(error, StateMigrationError)
    return refused


def _raised(action: Callable[[], Any]) -> TidemillError | None:
    try:
        action()
    except TidemillError as error:
        return error
    return None


class Remember(KeyedProcessFunction):
    """Keeps the second field of records, and emits what it has."""

    def __init__(self, value_type: Any = None, *, timer: bool = False, map_state: bool = False) -> None:
        self._type = value_type
        self._timer = timer
        self._map = map_state

    def open(self, runtime_context: Any) -> None:
        if self._map:
            self._state = runtime_context.get_map_state(MapStateDescriptor("kept"))
        else:
            self._state = runtime_context.get_state(ValueStateDescriptor("kept", self._type))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self._timer:
            ctx.timer_service().register_processing_time_timer(100)
        if self._map:
            if value[1] is not None:
                self._state.put(value[1], 1)
            yield list(self._state.keys())
        else:
            if value[1] is not None:
                self._state.update(value[1])
            yield self._state.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer"


def remember(value_type: Any = None, key_type: Any = None, **options: bool) -> Build:
    return lambda env, records: (
        records.key_by(lambda record: record[0], key_type).process(Remember(value_type, **options)).uid("kept")
    )


# --- classes of keys

DATACLASS = "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass K:\n a: int\n"
NAMED_TUPLE = "from typing import NamedTuple\nclass K(NamedTuple):\n a: int\n"


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("source", [DATACLASS, NAMED_TUPLE], ids=["dataclass", "NamedTuple"])
def test_a_key_class_with_a_new_field_is_refused(new_job: NewJob, define: Any, source: str, parallelism: int) -> None:
    build = remember(Types.LONG())
    old = define(source)
    job = new_job(build, parallelism=parallelism)
    job.epoch(records=[(old.K(n), n) for n in range(100)])
    new = define(source + " b: int = 0\n")
    refused = attempt(job, build, *((new.K(n), None) for n in range(100)))
    assert "keys of class tests_upgraded_classes:K are stored with the fields ['a'], but the class now has" in str(
        refused
    )
    again = define(source)
    assert attempt(job, build, *((again.K(n), None) for n in range(100))) == unordered(range(100))


@pytest.mark.parametrize("source", [DATACLASS, NAMED_TUPLE], ids=["dataclass", "NamedTuple"])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_key_class_without_a_field_it_had_is_refused(new_job: NewJob, define: Any, source: str, mixed: bool) -> None:
    """Two keys could become one. Where keys of several types are mixed, they are stored in another form."""
    build = remember(Types.LONG())
    old = define(source + " b: int = 0\n")
    job = new_job(build)
    job.epoch(records=[(old.K(n, n), n) for n in range(10)] + ([("text", 7)] if mixed else []))
    new = define(source)
    assert isinstance(attempt(job, build, (new.K(1), None)), StateMigrationError)


def test_a_key_class_that_compares_by_other_fields_is_refused(new_job: NewJob, define: Any) -> None:
    build = remember(Types.LONG())
    old = define(DATACLASS + " b: int = 0\n")
    job = new_job(build)
    job.epoch(records=[(old.K(n, n), n) for n in range(10)])
    new = define(DATACLASS + " b: int = field(default=0, compare=False)\n")
    refused = attempt(job, build, (new.K(1, 0), None))
    assert "do not hash as they did when they were stored" in str(refused)


def test_a_map_key_class_without_a_field_it_had_is_refused(new_job: NewJob, define: Any) -> None:
    build = remember(map_state=True)
    old = define(DATACLASS + " b: int = 0\n")
    job = new_job(build)
    job.epoch(records=[("x", old.K(1, 0)), ("x", old.K(1, 1))])
    define(DATACLASS)
    assert "keys of class tests_upgraded_classes:K are stored with" in str(attempt(job, build, ("x", None)))


def test_keys_of_an_enum_with_a_new_member_are_found(new_job: NewJob, define: Any) -> None:
    source = "from enum import Enum\nclass K(Enum):\n A = 1\n B = 2\n"
    build = remember(Types.LONG())
    old = define(source)
    job = new_job(build)
    job.epoch(records=[(old.K.A, 1), (old.K.B, 2)])
    new = define(source + " C = 3\n")
    assert attempt(job, build, (new.K.A, None), (new.K.B, None)) == unordered([1, 2])


def test_a_refused_key_class_is_refused_with_timers_alone(new_job: NewJob, define: Any) -> None:
    class OnlyTimers(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_processing_time_timer(100)
            return ()

    def build(env: Any, records: Any) -> Any:
        return records.key_by(lambda record: record[0]).process(OnlyTimers()).uid("timers")

    job = new_job(build)
    old = define(DATACLASS)
    job.epoch(records=[(old.K(1), 1)])
    define(DATACLASS + " b: int = 0\n")
    assert isinstance(attempt(job, build), StateMigrationError)


# --- types of keys and values


@pytest.mark.parametrize("timer", [False, True])
def test_keys_of_another_type_than_is_declared_later_are_refused(new_job: NewJob, timer: bool) -> None:
    job = new_job(remember(Types.LONG(), timer=timer))
    job.epoch(records=[(1, 5)])
    refused = attempt(job, remember(Types.LONG(), Types.STRING(), timer=timer), ("1", None))
    assert "expected String, got int 1" in str(refused)
    assert "Declare the actual type of the keys" in str(refused)
    assert attempt(job, remember(Types.LONG(), timer=timer), (1, None)) == [5]


def test_keys_of_the_type_that_is_declared_later_are_found(new_job: NewJob) -> None:
    job = new_job(remember(Types.LONG(), timer=True))
    job.epoch(records=[(1, 5), (2, 6)])
    assert attempt(job, remember(Types.LONG(), Types.LONG(), timer=True), (1, None), (2, None)) == unordered([5, 6])


def test_values_of_another_type_than_is_declared_later_are_refused(new_job: NewJob) -> None:
    job = new_job(remember(None, Types.STRING()))
    job.epoch(records=[("a", "x")])
    assert "expected Long, got str 'x'" in str(attempt(job, remember(Types.LONG(), Types.STRING()), ("a", None)))


def test_values_of_a_class_with_a_new_field_need_a_default(new_job: NewJob, define: Any) -> None:
    source = "from dataclasses import dataclass\n@dataclass\nclass V:\n x: int\n"
    build = remember(None, Types.STRING())
    job = new_job(build)
    job.epoch(records=[("a", define(source).V(1))])
    define(source + " y: int\n")
    assert "have no field 'y'; give it a default" in str(attempt(job, build, ("a", None)))
    new = define(source + " y: int = 7\n")
    assert attempt(job, build, ("a", None)) == [new.V(1, 7)]


RENAMED = "the stored fields 'x' no longer exist, while 'y' are new"


def test_a_renamed_field_of_a_class_is_refused_until_a_migration_renames_it(new_job: NewJob, define: Any) -> None:
    source = "from dataclasses import dataclass\n@dataclass\nclass V:\n x: int\n"
    job = new_job(remember(None, Types.STRING()))
    job.epoch(records=[("a", define(source).V(1))])
    new = define(source.replace("x: int", "y: int = 0"))
    assert RENAMED in str(attempt(job, remember(None, Types.STRING()), ("a", None)))

    class Renaming(Remember):
        def open(self, runtime_context: Any) -> None:
            descriptor = ValueStateDescriptor("kept", Types.DATACLASS(new.V))
            descriptor.migrate_from(Types.PICKLED_BYTE_ARRAY(), lambda stored: new.V(stored["x"]))
            self._state = runtime_context.get_state(descriptor)

    def renaming(env: Any, records: Any) -> Any:
        return records.key_by(lambda record: record[0], Types.STRING()).process(Renaming()).uid("kept")

    assert attempt(job, renaming, ("a", None)) == [new.V(1)]


@pytest.mark.parametrize("tagged", [False, True])  # in a column of their own, or with values of other types
def test_fields_of_named_tuples_are_found_by_name(new_job: NewJob, define: Any, tagged: bool) -> None:
    source = "from typing import NamedTuple\nclass V(NamedTuple):\n"
    build = remember(None, Types.STRING())
    job = new_job(build)
    old = define(source + " a: int\n b: int\n")
    job.epoch(records=[("k", old.V(1, 2)), ("other", "text" if tagged else old.V(3, 4))])
    define(source + " a: int\n c: int = 0\n")
    assert "the stored fields 'b' no longer exist, while 'c' are new" in str(attempt(job, build, ("k", None)))
    new = define(source + " c: int = 0\n b: int = 0\n a: int = 0\n")
    assert attempt(job, build, ("k", None)) == [new.V(a=1, b=2)]


def test_a_renamed_field_of_a_row_is_refused(new_job: NewJob) -> None:
    def row(*names: str) -> Any:
        return Types.ROW_NAMED([*names], [Types.LONG() for _ in names])

    job = new_job(remember(row("x"), Types.STRING()))
    job.epoch(records=[("a", Row(x=1))])
    assert RENAMED in str(attempt(job, remember(row("y"), Types.STRING()), ("a", None)))
    assert attempt(job, remember(row("x", "y"), Types.STRING()), ("a", None)) == [Row(x=1, y=None)]


def test_a_renamed_field_of_what_windows_hold_is_refused(new_job: NewJob) -> None:
    def sums(field: str) -> Build:
        kind = Types.ROW_NAMED(["key", field], [Types.STRING(), Types.LONG()])

        def program(env: Any, records: Any) -> Any:
            rows = records.map(lambda record: Row(**{"key": record[0], field: record[1]}), kind)
            keyed = rows.key_by(lambda row: row[0], Types.STRING())
            return keyed.window(TumblingProcessingTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: b).uid("w")

        return program

    job = new_job(sums("x"))
    job.epoch(records=[("a", 1)])
    assert RENAMED in str(attempt(job, sums("y")))


def test_a_migration_that_fails_is_reported_by_the_dry_run(new_job: NewJob) -> None:
    class Migrating(Remember):
        def open(self, runtime_context: Any) -> None:
            descriptor = ValueStateDescriptor("kept", Types.LONG())
            descriptor.migrate_from(Types.STRING(), int)
            self._state = runtime_context.get_state(descriptor)

    def build(env: Any, records: Any) -> Any:
        return records.key_by(lambda record: record[0], Types.STRING()).process(Migrating()).uid("kept")

    job = new_job(remember(Types.STRING(), Types.STRING()))
    job.epoch(records=[("a", "not a number")])
    assert "failed with ValueError" in str(attempt(job, build, ("a", None)))


def test_a_state_that_cannot_be_registered_is_reported_by_the_dry_run(new_job: NewJob) -> None:
    class FromTheSameType(Remember):
        def open(self, runtime_context: Any) -> None:
            descriptor = ValueStateDescriptor("kept").migrate_from(Types.PICKLED_BYTE_ARRAY(), str)
            self._state = runtime_context.get_state(descriptor)

    def build(env: Any, records: Any) -> Any:
        return records.key_by(lambda record: record[0], Types.STRING()).process(FromTheSameType()).uid("kept")

    job = new_job(remember(None, Types.STRING()))
    job.epoch(records=[("a", "x")])
    same = "a migration from PickledByteArrayTypeInfo to the same type"
    with pytest.raises(StateMigrationError, match=same):
        job.check_upgrade(build).check()
    job.restart(build=build)
    with pytest.raises(StateError, match=same):
        job.epoch(records=[("a", None)])


def test_a_refused_state_is_not_tried_again(tmp_path: Path) -> None:
    def run(value_type: Any) -> Any:
        settings = {
            "execution.target": "local",
            "execution.job-id": "job",
            "execution.checkpointing.dir": str(tmp_path),
            "execution.epoch.max-records": "1",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "2",
            "restart-strategy.fixed-delay.delay": "1ms",
        }
        env = StreamExecutionEnvironment(Configuration.from_dict(settings))
        records = env.from_collection([("a", "x"), ("b", "y")]).uid("records")
        remember(value_type, Types.STRING())(env, records)
        return env.execute_async()

    client = run(None)
    client.get_job_execution_result().result()
    # As if it were stopped before its end: a finished job is not started again.
    *_, head = sorted((tmp_path / "job" / "manifests").iterdir())
    head.unlink()
    client = run(Types.LONG())
    with pytest.raises(StateMigrationError, match="expected Long, got str"):
        client.get_job_execution_result().result()
    assert client.num_restarts == 0


# --- time to live


def with_ttl(millis: int | None, *, event_time: bool = False) -> Build:
    class Expiring(Remember):
        def open(self, runtime_context: Any) -> None:
            descriptor = ValueStateDescriptor("kept", Types.LONG())
            if millis is not None:
                config = StateTtlConfig.new_builder(Time.milliseconds(millis))
                descriptor.enable_time_to_live((config.use_event_time() if event_time else config).build())
            self._state = runtime_context.get_state(descriptor)

    return lambda env, records: records.key_by(lambda record: record[0], Types.STRING()).process(Expiring()).uid("kept")


@pytest.mark.parametrize("merge_after", [2, 8])
@pytest.mark.parametrize("between", [with_ttl(None), with_ttl(10, event_time=True)], ids=["off", "event time"])
def test_a_time_to_live_that_is_turned_on_again_begins_anew(new_job: NewJob, between: Build, merge_after: int) -> None:
    job = new_job(with_ttl(10), merge_after=merge_after)
    job.epoch(records=[("a", 1)])
    job.set_processing_time(5)
    assert attempt(job, between, ("a", None)) == [1]
    job.set_processing_time(100)
    assert attempt(job, with_ttl(10), ("a", None)) == [1]
    for now, seen in ((105, 1), (109, 1), (110, None)):  # however often it is started again
        job.set_processing_time(now)
        assert attempt(job, with_ttl(10), ("a", None)) == [seen]


def test_a_time_to_live_that_is_turned_on_counts_from_then_over_restarts(new_job: NewJob) -> None:
    job = new_job(with_ttl(None))
    job.epoch(records=[("a", 1)])
    for now, seen in ((100, 1), (109, 1), (110, None)):
        job.set_processing_time(now)
        assert attempt(job, with_ttl(10), ("a", None)) == [seen]


# --- kinds of operators


def windows(assigner: Any, trigger: Any = None, lateness: int = 0) -> Build:
    def build(env: Any, records: Any) -> Any:
        timed = records.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
        )
        opened = timed.key_by(lambda record: record[0], Types.STRING()).window(assigner).allowed_lateness(lateness)
        opened = opened if trigger is None else opened.trigger(trigger)
        return opened.reduce(lambda a, b: (a[0], b[1])).uid("windows")

    return build


TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (windows(TUMBLING), windows(SESSIONS), "time windows, windows that do not merge, and is now sessions"),
        (windows(SESSIONS), windows(TUMBLING), "sessions, windows that merge, and is now time windows"),
        (
            windows(TUMBLING),
            windows(TumblingProcessingTimeWindows.of(Time.milliseconds(10))),
            "event time, EventTimeTrigger, and is now processing time, ProcessingTimeTrigger",
        ),
        (windows(TUMBLING, CountTrigger(3), 5), windows(TUMBLING, lateness=5), "CountTrigger, and is now EventTime"),
        (
            windows(TUMBLING),
            windows(TUMBLING, ContinuousEventTimeTrigger(Time.milliseconds(2))),
            "EventTimeTrigger, and is now ContinuousEventTimeTrigger",
        ),
        (windows(TUMBLING), remember(), "windows, and is now a function of the program"),
        (remember(None, Types.STRING()), windows(TUMBLING), "a function of the program, and is now windows"),
    ],
)
def test_windows_of_another_kind_are_refused(old: Build, new: Build, said: str) -> None:
    def under_one_uid(build: Build) -> Build:
        return lambda env, records: build(env, records).uid("windows")

    with JobHarness(under_one_uid(old), inputs=["records"]) as job:
        job.epoch(records=[("a", 1), ("a", 3)])
        refused = attempt(job, under_one_uid(new), ("b", 100))
        assert said in str(refused)
        job.restart(build=under_one_uid(old))
        job.epoch(records=[("b", 100)])


@pytest.mark.parametrize(
    "new",
    [
        windows(TumblingEventTimeWindows.of(Time.milliseconds(50))),
        windows(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))),
        windows(TUMBLING, PurgingTrigger.of(EventTimeTrigger.create())),
    ],
    ids=["size", "sliding", "purging"],
)
def test_open_windows_of_another_size_fire(new: Build) -> None:
    with JobHarness(windows(TUMBLING), inputs=["records"], parallelism=1) as job:
        job.epoch(records=[("a", 1), ("a", 3)])
        assert attempt(job, new, ("b", 1000)) == [("a", 3)]


class OnlyMap(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def test_timers_that_can_no_longer_fire_are_refused(new_job: NewJob) -> None:
    def mapped(env: Any, records: Any) -> Any:
        return records.key_by(lambda record: record[0], Types.STRING()).map(OnlyMap()).uid("kept")

    job = new_job(remember(Types.LONG(), Types.STRING(), timer=True))
    job.epoch(records=[("a", 1)])
    assert "they would never fire" in str(attempt(job, mapped, ("a", 1)))
    job.restart(build=remember(Types.LONG(), Types.STRING()))
    job.set_processing_time(100)
    job.epoch()
    assert job.output()[-1] == "timer"
    assert attempt(job, mapped, ("a", 1)) == [("a", 1)]


def test_keyed_state_is_not_left_on_a_stream_without_keys(new_job: NewJob) -> None:
    class Plain(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    job = new_job(remember(Types.LONG(), Types.STRING()))
    job.epoch(records=[("a", 1)])
    refused = attempt(job, lambda env, records: records.process(Plain()).uid("kept"), ("a", 1))
    assert "an operator with keyed state, and is now one on a stream without keys" in str(refused)


def test_a_process_function_takes_the_place_of_a_map(new_job: NewJob) -> None:
    job = new_job(lambda env, records: records.key_by(lambda record: record[0]).map(OnlyMap()).uid("kept"))
    job.epoch(records=[("a", 1)])
    assert attempt(job, remember(Types.LONG()), ("a", 2)) == [2]


def test_the_dry_run_reports_that_keys_are_checked() -> None:
    with JobHarness(remember(Types.LONG()), inputs=["records"]) as job:
        job.epoch(records=[(1, 1)])
        report = job.check_upgrade(remember(Types.LONG(), Types.LONG()))
        assert [(c.state, c.outcome, c.detail) for c in report.changes if c.state] == [
            ("kept", Outcome.MIGRATED, "keys are checked against the declared type")
        ]


class unordered:  # noqa: N801 - reads as a word
    def __init__(self, values: Any) -> None:
        self._values = sorted(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and sorted(other) == self._values

    def __repr__(self) -> str:
        return f"in any order {self._values}"

    __hash__ = None  # type: ignore[assignment]
