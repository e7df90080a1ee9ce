"""The harness for whole programs: epochs, faults, restarts, rescaling, what was committed."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import StateError, UserCodeError
from tidemill.faults import POINTS, Fault
from tidemill.testing import JobHarness, run_local
from tidemill.testing.job_harness import moving

Env = StreamExecutionEnvironment
EPOCHS = [["a", "b", "a"], ["c"], ["a", "b"], [], ["b", "c", "c"]]
COUNTS = {"a": 3, "b": 3, "c": 3}


def count(env: Env, words: DataStream) -> DataStream:
    return words.key_by(lambda word: word).map_with_state(number).uid("count")


def number(word: str, seen: int | None) -> tuple[Any, int]:
    return (word, (seen or 0) + 1), (seen or 0) + 1


def everything(job: JobHarness) -> tuple[list[Any], dict[Any, Any]]:
    return sorted(job.output()), job.state("count", "with-state")


@pytest.fixture
def truth() -> tuple[list[Any], dict[Any, Any]]:
    with JobHarness(count, inputs=["words"]) as job:
        for words in EPOCHS:
            job.epoch(words=words)
        return everything(job)


def test_epochs_commit_output_and_state(truth: Any) -> None:
    output, state = truth
    assert output == sorted((key, n) for key in COUNTS for n in (1, 2, 3))
    assert state == COUNTS


def test_output_by_epoch_and_by_subtask() -> None:
    with JobHarness(count, inputs=["words"]) as job:
        job.epoch(words=["a", "b"])
        job.epoch(words=["a"])
        assert job.recording().by_epoch()[2] == [("a", 2)]
        assert sorted(v for values in job.recording().by_subtask().values() for v in values) == sorted(job.output())
        assert job.head.epoch == 2


#: What a job without a background merge and without garbage never reaches.
UNREACHED = {"lineage.before", "lineage.after", "snapshot.published", "retention.delete"}


#: What every subtask passes, so that a crash at the second pass finds some of them done.
OFTEN = {"state.loaded", "task.batch", "sink.precommit.before", "sink.precommit.after"} | {
    point for point in POINTS if point.startswith(("delta.", "ack."))
}
CRASHES = [(point, 0) for point in sorted(set(POINTS) - UNREACHED)] + [(point, 1) for point in sorted(OFTEN)]


@pytest.mark.parametrize(("point", "skip"), CRASHES)
def test_a_crash_at_any_point_changes_nothing(point: str, skip: int, truth: Any) -> None:
    with JobHarness(count, inputs=["words"], workers=2) as job:
        job.epoch(words=EPOCHS[0])
        job.crash(Fault(point, skip=skip), words=EPOCHS[1])
        job.run()
        job.crash(Fault(point, skip=skip), words=EPOCHS[2])
        for words in EPOCHS[3:]:
            job.epoch(words=words)
        job.run()
        assert everything(job) == truth


def test_a_crash_while_a_merge_is_published_changes_nothing(truth: Any) -> None:
    with JobHarness(count, inputs=["words"], merge_after=2) as job:
        job.epoch(words=EPOCHS[0])
        job.crash(Fault("snapshot.published"), words=EPOCHS[1])
        for words in EPOCHS[2:]:
            job.epoch(words=words)
        assert everything(job) == truth
        assert any(run.snapshot for run in job.head.runs)


def test_a_fault_that_is_not_reached_is_reported() -> None:
    with (
        JobHarness(count, inputs=["words"]) as job,
        pytest.raises(AssertionError, match=r"did not reach manifest\.before"),
    ):
        job.crash(Fault("manifest.before", skip=5), words=["a"])


@pytest.mark.parametrize("storage", ["memory", "files"])
def test_restarts_rescale_and_move(storage: str, truth: Any, tmp_path: Any) -> None:
    kept = None if storage == "memory" else LocalStorage(str(tmp_path), durable=False)
    with JobHarness(count, inputs=["words"], storage=kept, merge_after=2) as job:
        for number_, words in enumerate(EPOCHS):
            job.epoch(words=words)
            job.restart(parallelism=1 + number_ % 4, workers=1 + number_ % 3, placement=moving(1 + number_ % 3))
        assert everything(job) == truth


def test_a_killed_worker_is_a_cold_start() -> None:
    with JobHarness(count, inputs=["words"], parallelism=1, workers=1) as job:
        job.epoch(words=["a"])
        started = job.cold_starts
        job.epoch(words=["a"])
        assert job.cold_starts == started
        job.kill_worker(0)
        job.epoch(words=["a"])
        assert job.output() == [("a", 1), ("a", 2), ("a", 3)]


def test_a_failing_function_leaves_the_job_down_with_its_state() -> None:
    def build(env: Env, numbers: DataStream) -> DataStream:
        return numbers.key_by(lambda n: n % 2).map_with_state(lambda n, s: (10 // n, (s or 0) + 1)).uid("count")

    with JobHarness(build, inputs=["numbers"]) as job:
        job.epoch(numbers=[1, 2])
        with pytest.raises(UserCodeError, match="ZeroDivisionError"):
            job.epoch(numbers=[1, 0])
        with pytest.raises(RuntimeError, match=r"call restart\(\)"):
            job.epoch()
        job.restart(crashed=True)
        assert job.state("count", "with-state") == {1: 1, 0: 1}
        with pytest.raises(UserCodeError):
            job.run()


def test_another_program_continues_with_the_state() -> None:
    def doubled(env: Env, words: DataStream) -> DataStream:
        return count(env, words).map(lambda r: (r[0], 2 * r[1]))

    with JobHarness(count, inputs=["words"]) as job:
        job.epoch(words=["a"])
        job.restart(build=doubled)
        job.epoch(words=["a"])
        assert job.output() == [("a", 1), ("a", 4)]


def test_several_outputs_and_inputs_in_parallel() -> None:
    def build(env: Env, left: DataStream, right: DataStream) -> dict[str, DataStream]:
        return {"left": left.map(lambda n: n), "both": left.union(right)}

    with JobHarness(build, inputs=["left", "right"], input_parallelism=3) as job:
        job.epoch(left=range(5), right=range(5, 8))
        assert sorted(job.output("left")) == list(range(5))
        assert sorted(job.output("both")) == list(range(8))


def test_an_unknown_operator_is_reported() -> None:
    with JobHarness(count, inputs=["words"]) as job:
        with pytest.raises(StateError, match=r"no operator has the uid or name 'other'"):
            job.state("other", "x")
        assert job.state("MapWithState", "nothing") == {}


def test_bounded_sources_run_to_their_end() -> None:
    def build(env: Env) -> DataStream:
        return env.from_sequence(1, 10).key_by(lambda n: n % 2).sum()

    with JobHarness(build, max_records=3) as job:
        job.run()
        assert job.head.finished
        job.restart()
        job.run()
        assert max(job.output()) == 30
    assert len(run_local(build)) == 10


def test_a_worker_cache_without_room_keeps_one_chain_at_a_time() -> None:
    def run(size: str) -> tuple[list[Any], int]:
        with JobHarness(
            lambda env, words: words.map(lambda word: (word, 1)).key_by(0).sum(1),
            inputs=["words"],
            workers=1,
            configuration={"worker.cache.size": size},
        ) as job:
            for _ in range(4):
                job.epoch(words=["a", "b", "c", "d"])
            return sorted(job.output()), job.cold_starts

    warm, cold = run("1gb"), run("1b")
    assert warm[0] == cold[0]
    assert cold[1] > warm[1]
