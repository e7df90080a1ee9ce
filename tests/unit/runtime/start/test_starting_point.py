"""What a job starts from: as asked, once, and then its own epochs, however often the same command is repeated."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import eventually
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.savepoint import dispose_savepoint
from tidemill.common import Configuration, JobStatus, Types
from tidemill.common.reports.exit_codes import ExitCode, exit_code_of
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter, WriterContext
from tidemill.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidemill.errors import ConfigurationError, JobFinishedError, NoSavepointError
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.testing import JobHarness

PATH = "execution.state-recovery.path"
SECONDS = 60


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        yield value, self._count.value()


def count(env: Any, words: Any) -> Any:
    return words.key_by(lambda word: word, Types.STRING()).process(Count()).uid("count")


@pytest.fixture(params=["hashmap", "rocksdb"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobHarness]:
    settings = {
        "state.backend.type": request.param,
        "state.backend.rocksdb.localdir": str(tmp_path / "rocksdb"),
        "execution.checkpointing.savepoint-dir": str(tmp_path),
    }
    with JobHarness(count, inputs=["words"], configuration=settings, merge_after=3) as harness:
        yield harness


@pytest.fixture
def saved(job: JobHarness, tmp_path: Path) -> str:
    """A savepoint of the job, which has continued since."""
    job.epoch(words=["a"])
    path = job.savepoint(tmp_path)
    job.epoch(words=["a"])
    job.epoch(words=["a"])
    return path


def where(job: JobHarness) -> tuple[int, int]:
    """The epoch that the job is at, and what it has counted by then."""
    return job.head.epoch, job.state("count", "count")["a"]


# --- roll-backs


def test_a_job_is_taken_back_to_its_savepoint(job: JobHarness, saved: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        job.restart(configuration={PATH: saved})
    assert "abandons its epoch 3 and starts from epoch 1" in caplog.text
    assert where(job) == (1, 1)
    job.run()
    assert where(job) == (3, 3)  # what it had read since, it has read again


def test_the_same_command_does_not_take_it_back_again(
    job: JobHarness, saved: str, caplog: pytest.LogCaptureFixture
) -> None:
    job.restart(configuration={PATH: saved})
    job.run()
    for number in range(3, 6):
        assert where(job) == (number, number)
        with caplog.at_level(logging.INFO):
            job.restart(parallelism=number % 3 + 1)
        assert "it has already started from" in caplog.text
        job.epoch(words=["a"])


@pytest.mark.parametrize("point", ["restore.copied", "lineage.before", "lineage.after"])
def test_a_crash_while_it_is_taken_back_is_survived(job: JobHarness, saved: str, point: str) -> None:
    with injected(Fault(point)), pytest.raises(InjectedFaultError):
        job.restart(configuration={PATH: saved})
    job.restart(crashed=True)
    assert where(job) == (1, 1)
    job.run()
    job.restart()
    job.epoch(words=["a"])
    assert where(job) == (4, 4)


def test_a_crash_in_the_first_epoch_afterwards_is_survived(job: JobHarness, saved: str) -> None:
    job.restart(configuration={PATH: saved})
    job.crash(Fault("manifest.after"))
    assert where(job) == (2, 2)


def test_another_savepoint_counts_again(job: JobHarness, saved: str, tmp_path: Path) -> None:
    later = job.savepoint(tmp_path)
    for path, number in ((saved, 1), (later, 3), (saved, 1)):
        job.restart(configuration={PATH: path})
        assert where(job) == (number, number)
    job.run()
    assert where(job) == (3, 3)


def test_a_savepoint_is_the_same_wherever_it_lies(job: JobHarness, saved: str, tmp_path: Path) -> None:
    job.restart(configuration={PATH: saved})
    job.run()
    shutil.move(saved, tmp_path / "moved")
    job.restart(configuration={PATH: str(tmp_path / "moved")})
    assert job.state("count", "count") == {"a": 3}


@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
def test_a_savepoint_that_is_gone_is_not_missed_by_who_began_from_it(job: JobHarness, saved: str, mode: str) -> None:
    job.restart(configuration={PATH: saved, "execution.state-recovery.claim-mode": mode})
    job.run()
    if mode == "NO_CLAIM":
        dispose_savepoint(saved)
    assert not Path(saved).exists()
    job.restart(configuration={PATH: f"{saved}/"})
    assert job.state("count", "count") == {"a": 3}


def test_a_path_that_leads_nowhere_is_refused(job: JobHarness, saved: str) -> None:
    before = ManifestLog(job.storage, "job-harness").last_slot()
    with pytest.raises(NoSavepointError, match="neither a savepoint nor the directory of a job") as caught:
        job.restart(configuration={PATH: "/no/such/savepoint"})
    assert exit_code_of(caught.value) == ExitCode.UNFIT
    assert ManifestLog(job.storage, "job-harness").last_slot() == before


def test_the_last_epoch_can_be_preferred(job: JobHarness, saved: str) -> None:
    job.restart(configuration={PATH: "/no/such/savepoint", "execution.state-recovery.prefer-latest": "true"})
    assert job.state("count", "count") == {"a": 3}
    with pytest.raises(NoSavepointError):
        JobHarness(count, inputs=["words"], configuration=job._configuration)


def test_a_job_of_earlier_code_that_began_from_a_savepoint_is_not_taken_back(
    job: JobHarness, saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_lineage = ManifestLog.open_lineage

    def without_history(self: ManifestLog, *args: Any, begins: Any = None, **options: Any) -> Any:
        return open_lineage(self, *args, **options)

    settings = {PATH: saved, "execution.checkpointing.savepoint-dir": str(tmp_path)}
    with monkeypatch.context() as earlier:
        earlier.setattr(ManifestLog, "open_lineage", without_history)
        other = JobHarness(count, inputs=job.inputs, configuration=settings)
        other.epoch()
    assert other.head.history == {}
    other.restart()
    assert where(other) == (2, 2)
    other.restart(configuration={PATH: job.savepoint(tmp_path)})
    assert where(other) == (3, 3)
    other.close()


# --- what sinks see of it


class Places(Sink):
    """Keeps the history and the epoch of what is written."""

    def __init__(self, places: list[tuple[str, int]]) -> None:
        self._places = places

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return _Place()

    def create_committer(self) -> Committer:
        return _Places(self._places)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Places, ([],))


class _Place(SinkWriter):
    def begin_epoch(self, context: WriterContext) -> None:
        self._place = f"{context.history} {context.epoch}".encode()

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        pass

    def prepare_commit(self) -> list[bytes]:
        return [self._place]


class _Places(Committer):
    def __init__(self, places: list[tuple[str, int]]) -> None:
        self._places = places

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in committed:
            for data in part.committables:
                history, epoch = data.decode().split()
                self._places.append((history, int(epoch)))


def test_epochs_that_come_again_have_a_history_of_their_own(tmp_path: Path) -> None:
    places: list[tuple[str, int]] = []

    def build(env: Any, words: Any) -> None:
        words.sink_to(Places(places)).set_parallelism(1).uid("places")

    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path)}
    with JobHarness(build, inputs=["words"], configuration=settings) as job:
        job.epoch(words=["a"])
        path = job.savepoint(tmp_path)
        job.epoch(words=["b"])
        job.restart(configuration={PATH: path})
        job.epoch()
        job.restart()
        job.epoch(words=["c"])
        first, second = sorted({history for history, _ in places})
        assert {epoch for history, epoch in places if history == first} == {1, 2}
        assert {epoch for history, epoch in places if history == second} == {2, 3}


# --- directories


class Jobs:
    """Bounded and unbounded jobs in directories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, job_id: str, **options: str) -> StreamExecutionEnvironment:
        settings = {
            "execution.target": "local",
            "execution.job-id": job_id,
            "execution.checkpointing.dir": str(self.folder),
            "restart-strategy.type": "none",
        }
        return StreamExecutionEnvironment(Configuration.from_dict({**settings, **options}))

    def collect(self, job_id: str, words: list[str], uid: str = "words", **options: str) -> list[Any]:
        stream = self.environment(job_id, **options).from_collection(words, Types.STRING()).uid(uid)
        return sorted(count(None, stream).execute_and_collect())

    def endless(self, job_id: str, **options: str) -> Any:
        """A job that counts for ever, ten numbers per epoch."""
        env = self.environment(
            job_id, **{"execution.epoch.max-records": "10", "execution.epoch.min-interval": "10ms", **options}
        )
        numbers = env.from_sequence(1, 10**9).uid("numbers").map(lambda n: "n", Types.STRING())
        count(env, numbers)
        return env.execute_async(job_id)

    def head(self, job_id: str) -> Any:
        from tidemill.checkpoint.storage.storages import storage_for

        return ManifestLog(storage_for(str(self.folder / job_id)), job_id).read_head()

    def run_for(self, epochs: int, job_id: str, **options: str) -> Any:
        """Run a job for some epochs more than it has, or begins with; its head."""
        client = self.endless(job_id, **options)
        first = eventually(lambda: self.head(job_id)).epoch
        eventually(lambda: (head := self.head(job_id)) is not None and head.epoch >= first + epochs)
        client.cancel().result(SECONDS)
        return self.head(job_id)


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path)


RETAIN = {"execution.checkpointing.num-retained": "100", "execution.checkpointing.interval": "1ms"}


def test_a_job_resumes_from_its_own_directory(jobs: Jobs) -> None:
    own = {PATH: str(jobs.folder / "job")}
    head = jobs.run_for(3, "job")
    assert jobs.run_for(1, "job", **own).epoch > head.epoch
    assert jobs.head("job").history == {}


def test_a_checkpoint_of_its_own_takes_a_job_back_once(jobs: Jobs) -> None:
    head = jobs.run_for(8, "job", **RETAIN)
    back = {PATH: f"{jobs.folder}/job/chk-2"}
    client = jobs.endless("job", **back)
    eventually(lambda: jobs.head("job").history != {})
    client.cancel().result(SECONDS)
    taken_back = jobs.head("job")
    assert taken_back.epoch >= 2
    assert taken_back.slot > head.slot
    assert taken_back.sources["numbers"] != head.sources["numbers"]
    # By now it is not retained any more, or is another epoch 2.
    again = jobs.run_for(1, "job", **back)
    assert again.epoch > taken_back.epoch
    assert again.history == taken_back.history


def test_another_jobs_directory_is_taken_once_though_that_job_continues(jobs: Jobs) -> None:
    jobs.run_for(3, "first")
    second = jobs.run_for(2, "second", **{PATH: str(jobs.folder / "first")})
    jobs.run_for(20, "first")
    again = jobs.run_for(1, "second", **{PATH: str(jobs.folder / "first")})
    assert second.epoch < again.epoch
    assert again.history == second.history


def test_of_two_drivers_that_take_a_job_back_at_once_the_second_continues_where_the_first_has_come(jobs: Jobs) -> None:
    jobs.run_for(3, "first")
    back = {PATH: str(jobs.folder / "first")}
    jobs.run_for(2, "job")
    taking = {"execution.take-over": "true"}
    # The second one has its files, and has not claimed the job, when the first one runs.
    heads: list[Any] = []
    other = Fault("restore.copied", action="call", call=lambda: heads.append(jobs.run_for(4, "job", **taking, **back)))
    with injected(other):
        jobs.run_for(1, "job", **back)
    head = jobs.head("job")
    assert head.history == heads[0].history
    assert head.epoch >= heads[0].epoch


def test_nothing_is_deleted_for_a_savepoint_that_is_not_there(jobs: Jobs) -> None:
    head = jobs.run_for(2, "job")
    anew = {"execution.resume-mode": "none"}
    with pytest.raises(NoSavepointError):
        jobs.endless("job", **anew, **{PATH: "/no/such/savepoint"})
    with pytest.raises(ConfigurationError, match="is part of that"):
        jobs.endless("job", **anew, **{PATH: str(jobs.folder / "job")})
    assert jobs.head("job") == head


def test_a_job_that_starts_over_has_a_new_history(jobs: Jobs) -> None:
    jobs.run_for(2, "job")
    assert jobs.run_for(1, "job", **{"execution.resume-mode": "none"}).history["lineage"] > "000000000001"


def test_the_dry_run_checks_what_the_start_would_take(jobs: Jobs) -> None:
    def report(**options: str) -> int:
        env = jobs.environment("second", **options)
        count(env, env.from_sequence(1, 2).uid("numbers").map(lambda n: "n", Types.STRING()))
        return env.check_upgrade().epoch

    first = jobs.run_for(3, "first").epoch
    path = {PATH: str(jobs.folder / "first")}
    assert report(**path) == first
    second = jobs.run_for(3, "second", **path).epoch
    assert report(**path) == second
    with pytest.raises(NoSavepointError):
        report(**{PATH: "/no/such/savepoint"})


# --- jobs that have finished


def test_nothing_starts_from_the_end_of_another_job(jobs: Jobs) -> None:
    assert jobs.collect("monday", ["a", "a"]) == [("a", 1), ("a", 2)]
    end = {PATH: str(jobs.folder / "monday"), "execution.state-recovery.ignore-unclaimed-state": "true"}
    for uid in ("words", "others"):
        with pytest.raises(JobFinishedError, match="the end of job 'monday', which is FINISHED") as caught:
            jobs.collect("tuesday", ["a", "b"], uid, **end)
        assert exit_code_of(caught.value) == ExitCode.UNFIT
    env = jobs.environment("tuesday", **end)
    count(env, env.from_collection(["a"], Types.STRING()).uid("words"))
    with pytest.raises(JobFinishedError):
        env.check_upgrade(str(jobs.folder / "monday")).check()


def test_the_results_of_a_finished_job_are_not_handed_out_again(jobs: Jobs) -> None:
    assert jobs.collect("monday", ["a"]) == [("a", 1)]
    with pytest.raises(JobFinishedError, match="its results went to the program that ran it"):
        jobs.collect("monday", ["a", "x"])
    anew = {"execution.resume-mode": "none"}
    assert jobs.collect("monday", ["a", "x"], **anew) == [("a", 1), ("x", 1)]


@pytest.mark.parametrize("uid", ["words", "others"])
def test_a_finished_job_is_not_run_again(jobs: Jobs, uid: str, caplog: pytest.LogCaptureFixture) -> None:
    def run(uid: str) -> JobStatus:
        env = jobs.environment("job")
        count(env, env.from_collection(["a"], Types.STRING()).uid(uid))
        client = env.execute_async()
        client.get_job_execution_result().result(SECONDS)
        status: JobStatus = client.get_job_status().result()
        return status

    assert run("words") == JobStatus.FINISHED
    if uid == "words":
        assert run(uid) == JobStatus.FINISHED
        assert "is FINISHED at epoch 1 and is not run again" in caplog.text
    else:
        with pytest.raises(JobFinishedError, match=r"This program is different: it has .* \(uid others\)"):
            run(uid)


def test_results_are_collected_by_the_job_that_made_them(jobs: Jobs) -> None:
    env = jobs.environment("first", **{"execution.epoch.max-records": "3", "execution.epoch.min-interval": "1h"})
    with count(env, env.from_sequence(1, 9).uid("numbers").map(str, Types.STRING())).execute_and_collect() as found:
        first = {next(found) for _ in range(3)}
    env = jobs.environment("second", **{PATH: str(jobs.folder / "first")})
    second = set(count(env, env.from_sequence(1, 9).uid("numbers").map(str, Types.STRING())).execute_and_collect())
    assert (len(first), len(second)) == (3, 6)
    assert not first & second
