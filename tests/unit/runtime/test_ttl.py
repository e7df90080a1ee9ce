"""Time to live in whole operators and jobs: clocks come from the epoch and the watermark, and files shrink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.checkpoint.restore import committed_pieces
from tidemill.common import Types
from tidemill.common.time import Duration
from tidemill.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from tidemill.datastream import (
    CoMapFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidemill.faults import Fault
from tidemill.state.files.state_file import decode_sections
from tidemill.testing import JobHarness, KeyedHarness
from tidemill.testing.job_harness import moving

TTL = 100


def ttl(millis: int = TTL, *, event_time: bool = False) -> StateTtlConfig.Builder:
    builder = StateTtlConfig.new_builder(Duration.of_millis(millis))
    return builder.use_event_time() if event_time else builder


def descriptor(config: StateTtlConfig | None) -> ValueStateDescriptor:
    made = ValueStateDescriptor("count", Types.LONG(), default_value=0)
    if config is not None:
        made.enable_time_to_live(config)
    return made


class Count(KeyedProcessFunction):
    """Counts the records of a key; what has expired is not counted."""

    def __init__(self, config: StateTtlConfig | None) -> None:
        self._config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(descriptor(self._config))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update(self.count.value() + 1)
        yield value[0], self.count.value()


class CountMap(MapFunction):
    def __init__(self, config: StateTtlConfig) -> None:
        self._config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(descriptor(self._config))

    def map(self, value: Any) -> Any:
        self.count.update(self.count.value() + 1)
        return value[0], self.count.value()


class CountFlatMap(FlatMapFunction):
    def __init__(self, config: StateTtlConfig) -> None:
        self._counting = CountMap(config)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counting.open(runtime_context)

    def flat_map(self, value: Any) -> Any:
        return [self._counting.map(value)]


class CountBoth(CoMapFunction):
    def __init__(self, config: StateTtlConfig) -> None:
        self._counting = CountMap(config)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counting.open(runtime_context)

    def map1(self, value: Any) -> Any:
        return self._counting.map(value)

    def map2(self, value: Any) -> Any:
        return self._counting.map(value)


def harness(function: Any) -> KeyedHarness:
    return KeyedHarness(function, key_selector=0, key_type=Types.STRING())


# --- one operator


def test_processing_time_is_that_of_the_epoch() -> None:
    with harness(Count(ttl().build())) as counting:
        counting.process(("a", 1))
        counting.set_processing_time(TTL - 1)
        counting.process(("a", 1))
        counting.checkpoint()
        assert counting.state("count", "a") == 2
        counting.set_processing_time(2 * TTL - 1)
        assert counting.state("count", "a") == 0
        counting.process(("a", 1))
        assert counting.output() == [("a", 1), ("a", 2), ("a", 1)]


def test_looking_at_a_state_in_a_test_changes_nothing() -> None:
    with harness(Count(ttl().update_ttl_on_read_and_write().disable_cleanup_in_background().build())) as counting:
        counting.process(("a", 1))
        counting.checkpoint()
        counting.set_processing_time(60)
        assert counting.state("count", "a") == 1
        assert counting.checkpoint() == b""
        counting.set_processing_time(TTL)
        assert counting.state("count", "a") == 0
        assert counting.checkpoint() == b""
        counting.put_state("count", "b", 7)
        assert counting.state("count", "b") == 7


def test_a_snapshot_has_only_what_lives() -> None:
    with harness(Count(ttl().disable_cleanup_in_background().cleanup_full_snapshot().build())) as counting:
        counting.process(("old", 1))
        counting.checkpoint()
        counting.set_processing_time(60)
        counting.process(("young", 1))
        counting.checkpoint()
        counting.set_processing_time(TTL)
        snapshot = counting.snapshot()
        assert len(snapshot.files) == 1
        (section,) = decode_sections(snapshot.files[0], "snapshot")
        assert section.table.column("key").to_pylist() == ["young"]
        with counting.restore(snapshot) as again:
            again.process(("young", 1))
            again.process(("old", 1))
            assert again.output() == [("young", 2), ("old", 1)]


@pytest.mark.parametrize("function", [Count, CountMap, CountFlatMap, CountBoth])
def test_event_time_is_that_of_records_and_watermarks(function: Any) -> None:
    with harness(function(ttl(event_time=True).build())) as counting:
        counting.process(("a", 1), timestamp=1000)
        counting.watermark(1000 + TTL - 1)
        counting.process(("a", 1), timestamp=1000)  # late, but renews up to the watermark
        counting.checkpoint()
        counting.watermark(1000 + 2 * TTL - 2)
        counting.process(("a", 1), timestamp=5000)  # ahead
        counting.watermark(5000 + TTL - 1)
        counting.process(("b", 1), timestamp=6000)
        counting.process(("a", 1), timestamp=5150)
        counting.watermark(5150 + TTL)
        counting.process(("a", 1), timestamp=6000)
        assert [count for key, count in counting.output() if key == "a"] == [1, 2, 3, 4, 1]
        assert counting.state("count", "b") == 1


def test_a_processing_time_timer_has_no_event_time() -> None:
    class Late(Count):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            ctx.timer_service().register_processing_time_timer(10**15)
            return iter(())

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            self.count.update(timestamp)

    with harness(Late(ttl(event_time=True).build())) as late:
        late.process(("a", 1), timestamp=50)
        late.watermark(1000)
        late.set_processing_time(10**15)
        assert late.state("count", "a") == 10**15
        late.watermark(1000 + TTL)
        assert late.state("count", "a") == 0  # written at watermark 1000, not at the timer's time


def test_a_timer_at_the_end_of_all_input_still_finds_its_state() -> None:
    class AtEnd(Count):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.count.update(self.count.value() + 1)
            ctx.timer_service().register_event_time_timer(10**15)
            return iter(())

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), self.count.value()

    with harness(AtEnd(ttl(event_time=True).build())) as at_end:
        at_end.process(("a", 1), timestamp=50)
        at_end.watermark(60)
        at_end.end_input()
        assert at_end.output() == [("a", 1)]


def test_restored_state_continues_by_the_restored_clocks() -> None:
    with harness(Count(ttl(event_time=True).build())) as counting:
        counting.process(("a", 1), timestamp=1000)
        counting.watermark(1050)
        snapshot = counting.snapshot()
        with counting.restore(snapshot) as again:
            again.process(("a", 1), timestamp=1040)
            again.watermark(1050 + TTL)
            again.process(("a", 1), timestamp=1060)
            assert again.output() == [("a", 2), ("a", 1)]


def test_turned_on_by_a_new_program_it_counts_from_the_restore_on() -> None:
    with harness(Count(None)) as plain:
        plain.process(("a", 1))
        plain.set_processing_time(5000)
        snapshot = plain.snapshot()
    new = KeyedHarness(Count(ttl().build()), key_selector=0, key_type=Types.STRING(), snapshot=snapshot)
    with new:
        new.set_processing_time(5000 + TTL - 1)
        assert new.state("count", "a") == 1
        new.set_processing_time(5000 + TTL)
        assert new.state("count", "a") == 0


# --- whole jobs


class First(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        timestamp: int = value[1]
        return timestamp


def counting_job(config: StateTtlConfig | None, **options: Any) -> JobHarness:
    return JobHarness(program(config), inputs=["words"], **options)


def program(config: StateTtlConfig | None, *, event_time: bool = False) -> Any:
    def build(env: Any, words: Any) -> Any:
        if event_time:
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(First())
            words = words.assign_timestamps_and_watermarks(strategy)
        return words.key_by(0, Types.STRING()).process(Count(config)).uid("count")

    return build


def stored_keys(job: JobHarness) -> list[str]:
    """The keys that stand in any file that the head manifest needs, put or deleted."""
    manifests = job._running().manifests
    keys = []
    for _, pieces in committed_pieces(job.storage, manifests, manifests.head):
        for piece in pieces:
            data = piece.data if piece.data is not None else job.storage.read(piece.file or "")
            for section in decode_sections(data, "piece"):
                keys += section.table.column("key").to_pylist()
    return sorted(set(keys))


@pytest.mark.parametrize("fault", [None, "delta.after", "manifest.before", "manifest.after"])
def test_an_epoch_that_is_run_again_finds_the_same_entries_expired(fault: str | None) -> None:
    with counting_job(ttl().build()) as job:
        job.epoch(words=[("a", 1), ("b", 1)])
        job.set_processing_time(60)
        job.epoch(words=[("b", 1)])
        job.set_processing_time(TTL)
        if fault is None:
            job.epoch(words=[("a", 1), ("b", 1)])
        else:
            job.crash(Fault(fault), words=[("a", 1), ("b", 1)])
            job.run()
        assert sorted(job.output()) == [("a", 1), ("a", 1), ("b", 1), ("b", 2), ("b", 3)]


def test_a_clock_that_goes_back_brings_nothing_back() -> None:
    with counting_job(ttl().build()) as job:
        job.epoch(words=[("a", 1)])
        job.set_processing_time(10 * TTL)
        job.epoch(words=[("b", 1)])
        job.set_processing_time(1)
        job.restart()
        job.epoch(words=[("a", 1), ("b", 1)])
        assert sorted(job.output()) == [("a", 1), ("a", 1), ("b", 1), ("b", 2)]


@pytest.mark.parametrize("placement", [None, moving(3)])
def test_background_merges_drop_what_has_expired(placement: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.state.keyed.ttl.PER_EPOCH", 0)
    config = ttl().disable_cleanup_in_background().cleanup_in_rocksdb_compact_filter(1).build()
    with counting_job(config, merge_after=4, processing_time=1, workers=3, placement=placement) as job:
        for epoch in range(40):
            job.set_processing_time(1 + epoch * 10)
            job.epoch(words=[(f"key {epoch}", 1), ("always", 1)])
        alive = {f"key {epoch}" for epoch in range(31, 40)} | {"always"}
        stored = set(stored_keys(job))
        assert alive <= stored
        assert len(stored) < 25  # some that a merge has not come to yet
        assert job.state("count", "count")["always"] == 40
        assert dict(job.output())["always"] == 40


def test_merges_do_not_drop_what_a_new_program_lets_live_longer() -> None:
    def with_another(config: StateTtlConfig) -> Any:
        def build(env: Any, words: Any, others: Any) -> Any:
            others.key_by(0, Types.STRING()).process(Count(None)).uid("other")
            return words.key_by(0, Types.STRING()).process(Count(config)).uid("count")

        return build

    short = ttl().disable_cleanup_in_background().cleanup_in_rocksdb_compact_filter(1).build()
    long = ttl(10**6).cleanup_full_snapshot().build()
    with JobHarness(with_another(short), inputs=["words", "others"], merge_after=4, processing_time=1) as job:
        for _ in range(3):
            job.epoch(words=[("a", 1)])
        job.restart(build=with_another(long))
        job.set_processing_time(10 * TTL)
        for _ in range(6):  # merges what the first program wrote; this one has written nothing of this state yet
            job.epoch(others=[("b", 1)])
        assert len(job.head.runs) < 9
        job.restart()
        job.epoch(words=[("a", 1)])
        assert job.output()[-1] == ("a", 4)


@pytest.mark.parametrize("event_time", [False, True])
def test_turned_on_in_a_running_job_entries_live_from_the_restart_on(event_time: bool) -> None:
    before, after = program(None, event_time=True), program(ttl(event_time=event_time).build(), event_time=True)
    with JobHarness(before, inputs=["words"], parallelism=1, processing_time=5000) as job:
        job.epoch(words=[("a", 4000), ("b", 4000), ("time", 5001)])
        job.restart(build=after)
        job.set_processing_time(5000 + TTL - 1)
        job.epoch(words=[("time", 5000 + TTL)])  # the watermark is one less
        job.epoch(words=[("a", 5000 + TTL)])
        job.set_processing_time(5000 + 2 * TTL)
        job.epoch(words=[("time", 5001 + 2 * TTL)])
        job.epoch(words=[("b", 5001 + 2 * TTL)])
        assert dict(job.output())["a"] == 2
        assert dict(job.output())["b"] == 1


@pytest.mark.parametrize("parallelism", [1, 3])
def test_event_time_expires_in_jobs_and_their_merges(parallelism: int) -> None:
    config = ttl(event_time=True).build()
    build = program(config, event_time=True)
    with JobHarness(build, inputs=["words"], parallelism=parallelism, merge_after=4, processing_time=1) as job:
        for epoch in range(40):
            job.set_processing_time(2 + epoch)
            job.epoch(words=[(f"key {epoch}", 1000 + epoch * 50), ("always", 1000 + epoch * 50)])
        job.set_processing_time(100)
        for epoch in range(40, 50):
            job.epoch(words=[("always", 1000 + epoch * 50)])
        assert {key for key, value in job.state("count", "count").items() if value} == {"always"}
        job.restart(parallelism=2)
        job.epoch(words=[("always", 4000), ("key 3", 4000)])
        assert max(job.output()) == ("key 9", 1)
        assert dict(job.output())["key 3"] == 1
        job.end()


def test_committed_state_is_read_as_plain_values() -> None:
    with counting_job(ttl().build()) as job:
        job.epoch(words=[("a", 1), ("a", 1)])
        assert job.state("count", "count") == {"a": 2}
