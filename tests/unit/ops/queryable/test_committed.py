"""Lookups in what a job has committed: right for every kind of state, in every epoch, whatever happens to the job."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ops.queryable import trap
from tests.unit.ops.queryable.programs import KINDS, Model, expected, remember
from tests.waiting import eventually
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, Storage
from tidemill.common import Time, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    TumblingEventTimeWindows,
)
from tidemill.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidemill.errors import GraphError, SerializationError, StateError
from tidemill.faults import Fault
from tidemill.ops.queryable import CommittedStates, StateUnavailableError, UnknownStateNameError, key_index
from tidemill.ops.queryable.answer import NOTHING, Answer
from tidemill.runtime.driver import coordinator
from tidemill.state.keys.stable_hash import stable_hash
from tidemill.state_processor.job_directory import JobDirectory
from tidemill.testing import JobHarness


def states_in(storage: Storage, **options: Any) -> CommittedStates:
    return CommittedStates(JobDirectory(storage, "job-harness", "storage"), **options)


def check(states: CommittedStates, model: Model, keys: Iterable[str], epoch: int) -> None:
    for kind in KINDS:
        for key in keys:
            answer = states.get(kind, key)
            assert answer.epoch == epoch
            assert answer.plain() == model[kind].get(key, NOTHING), (kind, key)


@pytest.mark.parametrize("most_in_dict", [20_000, 0], ids=["dict", "hashes"])
def test_every_kind_of_state_in_every_epoch_over_merges_crashes_and_rescaling(
    most_in_dict: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "_MOST_IN_DICT", most_in_dict)
    dice = random.Random(3)
    keys = [f"k{i}" for i in range(12)]
    seen: list[tuple[str, int]] = []
    with JobHarness(remember, inputs=["records"], merge_after=3) as job:
        states = states_in(job.storage)
        for epoch in range(1, 17):
            records = [(dice.choice(keys), dice.randint(-4, 12)) for _ in range(9)]
            if epoch % 7 == 3:
                job.crash(Fault("manifest.before"), records=records)
                check(states, expected(seen), keys, epoch - 1)  # of the epoch that failed nothing is seen
                job.run()
            elif epoch % 5 == 0:
                job.restart(parallelism=1 + epoch % 4)
                job.epoch(records=records)
            else:
                job.epoch(records=records)
            seen += records
            check(states, expected(seen), keys, epoch)
    check(states, expected(seen), keys, 16)  # the job has ended, and is as it was


def test_answers_that_come_while_the_job_runs_are_of_the_epoch_they_say() -> None:
    """The model: by epoch, what each key had. Any answer must be in it, and none older than the one before."""
    keys = [f"k{i}" for i in range(5)]
    history: dict[int, Model] = {}
    seen: list[tuple[str, int]] = []
    done = threading.Event()
    failures: list[object] = []
    epochs: set[int] = set()

    def read(states: CommittedStates, kind: str) -> None:
        slot = 0
        while not done.is_set():
            for key in keys:
                states.poll()
                try:
                    answer = Answer(states.lookup(kind, [hashed(key)]))
                except StateUnavailableError:  # whenever it looked, the job was further, and had cleaned up
                    continue
                if answer.slot < slot or answer.plain() != history[answer.epoch][kind].get(key, NOTHING):
                    failures.append((kind, key, answer, slot))
                slot = answer.slot
                epochs.add(answer.epoch)

    with JobHarness(remember, inputs=["records"], merge_after=2) as job:
        readers: list[threading.Thread] = []
        for epoch in range(1, 30):
            records = [(key, epoch + i) for i, key in enumerate(keys)]
            seen += records
            history[epoch] = expected(seen)
            job.epoch(records=records)
            if epoch == 1:
                for kind in ("value", "list", "map"):
                    states = states_in(job.storage, cache_bytes=20_000)
                    states.refresh()
                    readers.append(threading.Thread(target=read, args=(states, kind)))
                    readers[-1].start()
            if epoch < 6:
                eventually(partial(epochs.__contains__, epoch))
            if epoch % 6 == 0:
                job.restart(parallelism=1 + epoch % 3)
        done.set()
        for reader in readers:
            reader.join()
    assert not failures


def hashed(key: str) -> tuple[int, str]:
    return stable_hash(key), key


def test_files_that_are_deleted_under_a_reader_lead_it_to_the_newest_epoch(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, durable=False)
    with JobHarness(remember, inputs=["records"], merge_after=2, storage=storage) as job:
        many = [(f"key {i:08}", 1) for i in range(3_000)]
        job.epoch(records=many)  # too large for the manifest: in files of its own
        files = storage.list("state/")
        assert files
        states = states_in(storage)
        states.refresh()  # knows the epoch, and has read nothing of its state
        for _ in range(2, 7):
            job.epoch(records=many)
        job.epoch(records=[(many[0][0], 7)])
        assert not any(map(storage.exists, files)), "retention has not deleted what this test is about"
        answers = [Answer(states.lookup("value", [hashed(key)])) for key, _ in many[:2]]
        assert [(answer.epoch, answer.plain()) for answer in answers] == [(7, 7), (7, 1)]


def test_a_job_that_is_gone_is_unavailable_not_wrong() -> None:
    with JobHarness(remember, inputs=["records"]) as job:
        states = states_in(job.storage)
        with pytest.raises(StateUnavailableError, match="not committed an epoch"):
            states_in(MemoryStorage()).get("value", "a")
        job.epoch(records=[("a", 1)])
        assert states.get("value", "a").plain() == 1


class Forgetful(KeyedProcessFunction):
    def __init__(self, ttl: StateTtlConfig) -> None:
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        value = ValueStateDescriptor("value", Types.LONG())
        elements = ListStateDescriptor("list", Types.LONG())
        for descriptor in (value, elements):
            descriptor.enable_time_to_live(self.ttl)
            descriptor.set_queryable(descriptor.name)
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(elements)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.value.update(value[1])
        self.list.add(value[1])


def forgetful(ttl: StateTtlConfig) -> Any:
    class Second(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[1])

    def build(_env: Any, records: DataStream) -> DataStream:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
        timed = records.assign_timestamps_and_watermarks(strategy).uid("times")
        return timed.key_by(lambda record: record[0], Types.STRING()).process(Forgetful(ttl)).uid("forgetful")

    return build


def test_expired_entries_are_not_shown() -> None:
    now = [1_000]
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    with JobHarness(forgetful(ttl), inputs=["records"], processing_time=1_000) as job:
        states = states_in(job.storage, clock=lambda: now[0])
        job.epoch(records=[("a", 1)])
        job.set_processing_time(1_050)
        job.epoch(records=[("b", 2), ("a", 3)])
        assert states.get("value", "a").plain() == 3
        assert states.get("list", "a").plain() == [1, 3]
        now[0] = 1_120
        assert states.get("list", "a").plain() == [3], "elements expire one by one"
        now[0] = 1_150
        assert states.get("value", "a").plain() is NOTHING
        assert states.get("list", "a").plain() is NOTHING


def test_expired_entries_are_shown_where_the_state_says_so() -> None:
    visible = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).set_state_visibility(visible).build()
    with JobHarness(forgetful(ttl), inputs=["records"], processing_time=1_000) as job:
        states = states_in(job.storage, clock=lambda: 5_000)
        job.epoch(records=[("a", 1)])
        assert states.get("value", "a").plain() == 1


def test_by_event_time_entries_expire_with_the_watermark() -> None:
    event_time = StateTtlConfig.TtlTimeCharacteristic.EventTime
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).set_ttl_time_characteristic(event_time).build()
    with JobHarness(forgetful(ttl), inputs=["records"], parallelism=1) as job:
        states = states_in(job.storage)
        job.epoch(records=[("a", 1_000)])
        assert states.get("value", "a").plain() == 1_000
        job.epoch(records=[("b", 1_050)])
        assert states.get("value", "a").plain() == 1_000
        job.epoch(records=[("b", 1_200)])
        assert states.get("value", "a").plain() is NOTHING
        assert states.get("value", "b").plain() == 1_200


def test_state_of_a_window_has_no_key_alone() -> None:
    class Noted(ProcessWindowFunction):
        def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
            for store, name in ((context.window_state(), "of a window"), (context.global_state(), "of all")):
                descriptor = ValueStateDescriptor(name, Types.STRING())
                descriptor.set_queryable(name)
                store.get_state(descriptor).update(key)
            return ()

        def clear(self, context: ProcessWindowFunction.Context) -> None:
            """Leave the state, for the test to find."""

    class Second(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[1])

    def build(_env: Any, records: DataStream) -> DataStream:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
        timed = records.assign_timestamps_and_watermarks(strategy).uid("times")
        windows = timed.key_by(lambda record: record[0], Types.STRING()).window(
            TumblingEventTimeWindows.of(Time.milliseconds(10))
        )
        return windows.process(Noted()).uid("windows")

    with JobHarness(build, inputs=["records"], parallelism=1) as job:
        job.epoch(records=[("a", 1)])
        job.epoch(records=[("a", 30)])
        states = states_in(job.storage)
        assert states.get("of all", "a").plain() == "a"
        assert states.get("of a window", "a").plain() is NOTHING


class Named(KeyedProcessFunction):
    def __init__(self, **names: str) -> None:
        self.names = names

    def open(self, runtime_context: RuntimeContext) -> None:
        self.states = []
        for state, name in self.names.items():
            descriptor = ValueStateDescriptor(state, Types.LONG())
            descriptor.set_queryable(name)
            self.states.append(runtime_context.get_state(descriptor))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        for state in self.states:
            state.update(value[1])


def named(*functions: Named) -> Any:
    def build(_env: Any, records: DataStream) -> None:
        keyed = records.key_by(lambda record: record[0], Types.STRING())
        for number, function in enumerate(functions):
            keyed.process(function).uid(f"named-{number}")

    return build


def test_two_states_of_one_name_are_refused() -> None:
    def twice(_env: Any, records: DataStream) -> None:
        keyed = records.key_by(lambda record: record[0])
        keyed.as_queryable_state("same")
        keyed.as_queryable_state("same")

    with pytest.raises(
        GraphError, match=r"two states have the queryable name 'same'.*test_committed.py.*test_committed.py"
    ):
        JobHarness(twice, inputs=["records"])
    job = JobHarness(named(Named(one="same", two="same")), inputs=["records"])
    with job, pytest.raises(StateError, match="'one' and 'two' both have the queryable name 'same'"):
        job.epoch(records=[("a", 1)])
    with JobHarness(named(Named(one="one"), Named(two="two")), inputs=["records"]) as job:
        job.epoch(records=[("a", 1)])
        job.restart(build=named(Named(one="one"), Named(two="one")))
        both = r"name 'one': 'one' of operator .*test_committed.py.* uid 'named-0'\) and 'two' of .* uid 'named-1'\)"
        with pytest.raises(GraphError, match=both):
            job.epoch(records=[("a", 2)])
        assert states_in(job.storage).get("two", "a").plain() == 1, "nothing of that epoch is committed"


def test_a_query_that_could_mean_two_states_fails_and_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """As older versions let a job be."""
    monkeypatch.setattr(coordinator, "check_reported_names", lambda plan, acks: None)
    with JobHarness(named(Named(one="same"), Named(two="same")), inputs=["records"]) as job:
        job.epoch(records=[("a", 1)])
        with pytest.raises(UnknownStateNameError, match="'one' of operator named-0 and 'two' of operator named-1"):
            states_in(job.storage).get("same", "a")


def test_a_program_can_publish_a_state_later_and_take_it_back() -> None:
    def plain(_env: Any, records: DataStream) -> None:
        records.key_by(lambda record: record[0], Types.STRING()).process(Counting()).uid("named-0")

    class Counting(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("one", Types.LONG()))

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            self.state.update(value[1])

    with JobHarness(plain, inputs=["records"], merge_after=3) as job:
        states = states_in(job.storage)
        job.epoch(records=[("a", 1)])
        with pytest.raises(
            UnknownStateNameError, match=r"no state with the queryable name 'one'.*available names: none"
        ):
            states.get("one", "a")
        job.restart(build=named(Named(one="one")))
        job.epoch(records=[("b", 2)])
        assert [states.get("one", key).plain() for key in "ab"] == [1, 2]
        job.restart(build=plain)
        job.epoch(records=[("b", 3)])
        with pytest.raises(UnknownStateNameError):
            states.get("one", "a")


def test_a_state_that_changes_its_type_is_read_in_the_new_one() -> None:
    def typed(type_info: Any, migrate: bool = False) -> Any:
        class Keep(KeyedProcessFunction):
            def open(self, runtime_context: RuntimeContext) -> None:
                descriptor = ValueStateDescriptor("kept", type_info)
                descriptor.set_queryable("kept")
                if migrate:
                    for stored in (Types.INT(), Types.DOUBLE()):
                        descriptor.migrate_from(stored, lambda value: f"was {value:.1f}")
                self.state = runtime_context.get_state(descriptor)

            def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
                self.state.update(value[1])

        def build(_env: Any, records: DataStream) -> None:
            records.key_by(lambda record: record[0], Types.STRING()).process(Keep()).uid("keep")

        return build

    with JobHarness(typed(Types.INT()), inputs=["records"]) as job:
        states = states_in(job.storage)
        job.epoch(records=[("a", 1), ("b", 1)])
        job.restart(build=typed(Types.DOUBLE()))
        job.epoch(records=[("b", 2.5)])
        assert [repr(states.get("kept", key).plain()) for key in "ab"] == ["1.0", "2.5"]
        job.restart(build=typed(Types.STRING(), migrate=True))
        job.epoch(records=[("b", "new")])
        assert [states.get("kept", key).plain() for key in "ab"] == ["was 1.0", "new"]


def test_of_a_list_that_was_migrated_only_what_came_of_it_counts() -> None:
    def listed(type_info: Any, *stored: Any) -> Any:
        class Keep(KeyedProcessFunction):
            def open(self, runtime_context: RuntimeContext) -> None:
                descriptor = ListStateDescriptor("kept", type_info)
                descriptor.set_queryable("kept")
                for old in stored:
                    descriptor.migrate_from(old, lambda value: f"was {value}")
                self.state = runtime_context.get_list_state(descriptor)

            def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
                self.state.add(value[1])

        def build(_env: Any, records: DataStream) -> None:
            records.key_by(lambda record: record[0], Types.STRING()).process(Keep()).uid("keep")

        return build

    with JobHarness(listed(Types.LONG()), inputs=["records"]) as job:
        states = states_in(job.storage)
        job.epoch(records=[("a", 1), ("b", 1)])
        job.epoch(records=[("a", 2)])
        job.restart(build=listed(Types.STRING(), Types.LONG()))
        job.epoch(records=[("b", "new")])
        assert states.get("kept", "a").plain() == ["was 1", "was 2"]
        assert states.get("kept", "b").plain() == ["was 1", "new"]


@pytest.mark.parametrize("most_in_dict", [20_000, 0], ids=["dict", "hashes"])
def test_keys_whose_hashes_are_equal_are_distinguished(most_in_dict: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_MOST_IN_DICT", most_in_dict)
    keys = [-1, -2, 0, 2**61 - 1]
    assert len(set(map(hash, keys))) == 2

    def build(_env: Any, records: DataStream) -> None:
        records.key_by(lambda record: record, Types.LONG()).as_queryable_state("kept")

    with JobHarness(build, inputs=["records"], parallelism=1) as job:
        job.epoch(records=keys)
        states = states_in(job.storage)
        assert [states.get("kept", key).plain() for key in keys] == keys


def test_pickles_are_not_unpickled() -> None:
    def build(_env: Any, records: DataStream) -> None:
        records.key_by(lambda record: record[0]).as_queryable_state("trapped")

    with JobHarness(build, inputs=["records"]) as job:
        job.epoch(records=[("a", trap.Trap())])
        trap.SPRUNG.clear()
        answer = states_in(job.storage).get("trapped", "a")
        with pytest.raises(SerializationError, match="pickled"):
            answer.plain()
        assert not trap.SPRUNG
