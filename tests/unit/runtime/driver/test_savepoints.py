"""Savepoints of a running job: requested from outside, taken between epochs; and jobs that start from one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.driver.savepoint_program import EPOCHS, JOB_ID, counted, harness
from tests.waiting import eventually
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.savepoint import METADATA, dispose_savepoint
from tidemill.checkpoint.storage.storages import LocalStorage, storage_for
from tidemill.common import CompletableFuture, Configuration, JobClient, JobStatus, Types
from tidemill.connectors.sinks import Committed, Committer, Sink, SinkWriter
from tidemill.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidemill.errors import (
    CheckpointError,
    ConfigurationError,
    GraphError,
    JobCancelledError,
    JobExecutionError,
    JobFinishedError,
    TidemillError,
)
from tidemill.faults import SAVEPOINT_POINTS, Fault, InjectedFaultError, injected
from tidemill.testing.scripted_source import Script, ScriptedSource

SECONDS = 60
PROGRAM = Path(__file__).parent / "savepoint_program.py"
ROOT = Path(__file__).parents[4]


class Kept(Sink):
    """Keeps what is committed, in the driver's memory."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return _Lines()

    def create_committer(self) -> Committer:
        return _Keeper(self.lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Kept, ())


class _Lines(SinkWriter):
    def __init__(self) -> None:
        self._lines: list[bytes] = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self._lines += [str(value).encode() for value in values]

    def prepare_commit(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        return lines


class _Keeper(Committer):
    def __init__(self, lines: list[Any]) -> None:
        self._lines = lines

    def commit(self, committed: Sequence[Committed]) -> None:
        if not any(part.again for part in committed):
            self._lines += sorted(line.decode() for part in committed for line in part.committables)


class AtTheEnd(KeyedProcessFunction):
    """Emits a key when its time is over."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        if value[0] == "bad":
            raise ValueError("a bad word")
        ctx.timer_service().register_event_time_timer(2**60)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), "at the end"


class Job:
    """Jobs that count words, of one input that outlives them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = Script()
        self.saved = folder / "saved"

    def start(self, job_id: str = "first", **options: str) -> tuple[JobClient, list[Any]]:
        configuration = Configuration()
        defaults = {
            "execution.target": "local",
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(self.saved),
            "execution.job-id": job_id,
            "restart-strategy.type": "none",
        }
        for key, value in {**defaults, **options}.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        words = env.from_source(ScriptedSource(self.words), None, "words").uid("words").map(lambda word: (word, 1))
        sink = Kept()
        counts = words.key_by(0).sum(1).uid("count")
        ends = words.key_by(0).process(AtTheEnd(), Types.PICKLED_BYTE_ARRAY()).uid("ends")
        counts.union(ends).sink_to(sink).uid("kept")
        return env.execute_async(job_id), sink.lines

    def storage(self, job_id: str = "first") -> LocalStorage:
        storage = storage_for(str(self.folder / "checkpoints" / job_id))
        assert isinstance(storage, LocalStorage)
        return storage


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def holds(lines: list[Any], expected: list[str]) -> None:
    """Wait until this is what was committed."""
    eventually(lambda: lines == expected, shown=lambda: lines)


def asking(client: JobClient) -> dict[str, Callable[..., CompletableFuture[str]]]:
    """The ways to ask for a savepoint, each with a directory or none."""
    return {
        "trigger": client.trigger_savepoint,
        "stop": lambda directory=None: client.stop_with_savepoint(False, directory),
        "cancel": client.cancel_with_savepoint,
    }


def over(client: JobClient) -> JobStatus:
    client.get_job_execution_result()._future.exception(SECONDS)
    return client.get_job_status().result()


# --- taking one


def test_a_running_job_continues_while_it_is_saved(job: Job) -> None:
    job.words.add(["a", "b"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 2)
    path = client.trigger_savepoint().result(SECONDS)
    assert Path(path).parent == job.saved
    job.words.add(["a"])
    eventually(lambda: len(lines) == 3)
    other = client.trigger_savepoint(str(job.folder / "other")).result(SECONDS)
    assert Path(other).parent == job.folder / "other"
    client.cancel().result(SECONDS)
    for place, counts in ((path, ["('a', 2)"]), (other, ["('a', 3)", "('b', 2)"])):
        if place == other:
            job.words.add(["a", "b"])
        started, more = job.start(f"from-{Path(place).name}", **{"execution.state-recovery.path": place})
        holds(more, counts)
        started.cancel().result(SECONDS)


def test_files_are_kept_while_they_are_copied(job: Job) -> None:
    job.words.add(["a"])
    options = {"state.inline-delta-size": "0b", "execution.epoch.snapshot-interval": "2"}
    client, lines = job.start(**options)
    eventually(lambda: len(lines) == 1)
    copying, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        copying.set()
        assert go_on.wait(2 * SECONDS)

    def commits_until(ask: Callable[[], bool]) -> None:
        """Many epochs, and as many more as it takes until what is done beside them has been done."""

        def asked_after_another() -> bool:
            before = len(lines)
            job.words.add([f"word {before}"])
            eventually(lambda: len(lines) > before)
            return ask()

        for _ in range(10):
            asked_after_another()
        eventually(asked_after_another)

    with injected(Fault("savepoint.begun", action="call", call=wait)):
        future = client.trigger_savepoint()
        assert copying.wait(SECONDS)
        first = set(job.storage().list("state/"))
        # Many epochs are merged and let go meanwhile, but not the one that is being copied.
        commits_until(lambda: len(job.storage().list("manifests/")) < 10)
        assert first <= set(job.storage().list("state/"))
        go_on.set()
        path = future.result(SECONDS)
    # When it is done they go.
    commits_until(lambda: not first & set(job.storage().list("state/")))
    client.cancel().result(SECONDS)
    del job.words.epochs[1:]
    job.words.add(["a"])
    client, more = job.start("second", **{"execution.state-recovery.path": path})
    holds(more, ["('a', 2)"])
    client.cancel().result(SECONDS)


def test_stopping_reads_nothing_more_and_fires_nothing(job: Job) -> None:
    job.words.add(["a"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 1)
    path = client.stop_with_savepoint(False).result(SECONDS)
    assert client.get_job_status().result() == JobStatus.FINISHED
    job.words.add(["b", "a"])
    client, more = job.start("second", **{"execution.state-recovery.path": path})
    eventually(lambda: len(more) == 2)
    assert (lines, more) == (["('a', 1)"], ["('a', 2)", "('b', 1)"])
    client.cancel().result(SECONDS)
    # The first job itself can continue as well: from where it stopped.
    client, again = job.start("first")
    eventually(lambda: again == ["('a', 2)", "('b', 1)"])
    client.cancel().result(SECONDS)


def test_draining_moves_time_to_its_end_and_the_job_is_over_for_good(job: Job) -> None:
    job.words.add(["a", "b"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 2)
    path = client.stop_with_savepoint(True).result(SECONDS)
    assert client.get_job_status().result() == JobStatus.FINISHED
    assert lines == ["('a', 1)", "('b', 1)", "('a', 'at the end')", "('b', 'at the end')"]
    job.words.add(["c"])
    client, more = job.start()
    assert over(client) == JobStatus.FINISHED
    assert more == []
    with pytest.raises(JobFinishedError, match="is the end of job 'first', which is FINISHED"):
        job.start("second", **{"execution.state-recovery.path": path})


def test_cancelling_with_a_savepoint(job: Job) -> None:
    job.words.add(["a"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 1)
    path = client.cancel_with_savepoint().result(SECONDS)
    assert client.get_job_status().result() == JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(SECONDS)
    job.words.add(["a"])
    client, more = job.start("second", **{"execution.state-recovery.path": path})
    eventually(lambda: more == ["('a', 2)"])
    client.cancel().result(SECONDS)


def test_a_savepoint_waits_neither_for_input_nor_for_the_pause_between_epochs(job: Job) -> None:
    job.words.add(["a"])
    client, lines = job.start(**{"execution.epoch.min-interval": "1h"})
    eventually(lambda: len(lines) == 1)
    client.trigger_savepoint().result(SECONDS)
    client.stop_with_savepoint(False).result(SECONDS)


@pytest.mark.parametrize("how", ["trigger", "stop", "cancel"])
def test_savepoints_are_in_the_history_of_checkpoints(job: Job, how: str) -> None:
    job.words.add(["a"])
    client, lines = job.start(**{"web.checkpoints.history": "3"})
    eventually(lambda: len(lines) == 1)
    (job.folder / "file").write_text("in the way")
    with pytest.raises(CheckpointError):
        asking(client)[how](str(job.folder / "file")).result(SECONDS)
    path = asking(client)[how]().result(SECONDS)
    history = client.get_checkpoint_history()
    assert [(one.checkpoint_id, one.is_savepoint, one.path, one.status.value) for one in history.checkpoints] == [
        (1, False, None, "completed"),
        (1, True, None, "failed"),
        (1, True, path, "completed"),
    ]
    assert "file" in (history.checkpoints[1].failure or "")
    assert (history.completed, history.failed) == (2, 1)
    assert (history.latest_completed, history.latest_savepoint) == (history.checkpoints[0], history.checkpoints[2])
    assert history.checkpoints[2].state_size == history.checkpoints[0].state_size > 0
    if how == "trigger":
        for count in ("('a', 2)", "('a', 3)", "('a', 4)"):
            job.words.add(["a"])
            eventually(partial(lines.__contains__, count))
        assert client.get_checkpoint_history().latest_savepoint == history.latest_savepoint
        client.cancel().result(SECONDS)


# --- when it fails


@pytest.mark.parametrize("how", ["trigger", "stop", "cancel"])
def test_a_savepoint_that_fails_leaves_the_job_running(job: Job, how: str) -> None:
    job.words.add(["a"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 1)
    ask = asking(client)[how]
    (job.folder / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"a file is in its place|Not a directory"):
        ask(str(job.folder / "file")).result(SECONDS)
    with injected(Fault("savepoint.copied")), pytest.raises(InjectedFaultError):
        ask().result(SECONDS)
    assert list(job.saved.iterdir()) == []
    job.words.add(["a"])
    eventually(lambda: lines == ["('a', 1)", "('a', 2)"])
    assert client.get_job_status().result() == JobStatus.RUNNING
    ask().result(SECONDS)
    client.cancel().result(SECONDS)


def test_that_a_drained_job_can_be_saved_is_tried_before_it_is_drained(job: Job) -> None:
    job.words.add(["a"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 1)
    (job.folder / "file").write_text("in the way")
    with pytest.raises(CheckpointError):
        client.stop_with_savepoint(True, str(job.folder / "file")).result(SECONDS)
    job.words.add(["a"])
    eventually(lambda: lines == ["('a', 1)", "('a', 2)"])
    # If it fails all the same, the job is over, and its last epoch can still be had from its own directory.
    with injected(Fault("savepoint.copied")), pytest.raises(InjectedFaultError):
        client.stop_with_savepoint(True).result(SECONDS)
    assert over(client) == JobStatus.FINISHED
    assert lines[2:] == ["('a', 'at the end')"]


def test_a_savepoint_request_too_late_or_without_a_place_or_of_a_batch_job_is_refused(job: Job) -> None:
    client, _ = job.start(**{"execution.checkpointing.savepoint-dir": ""})
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.savepoint-dir"):
        client.trigger_savepoint().result(SECONDS)
    client.cancel().result(SECONDS)
    with pytest.raises(JobCancelledError):
        client.trigger_savepoint(str(job.saved)).result(SECONDS)
    job.words.ended = True
    client, _ = job.start("second")
    over(client)
    with pytest.raises(JobExecutionError, match="the job has finished"):
        client.stop_with_savepoint(False).result(SECONDS)
    client, _ = job.start("third", **{"execution.runtime-mode": "BATCH"})
    with pytest.raises(GraphError, match="BATCH mode"):
        client.trigger_savepoint().result(SECONDS)


def test_a_request_outlives_a_failure_of_the_job(job: Job) -> None:
    client, _ = job.start(
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000000000",
            "restart-strategy.fixed-delay.delay": "0 s",
        }
    )
    # Each attempt fails in its epoch; the savepoint is taken before the next one.
    job.words.add(["bad"])
    eventually(client.get_exception_history)
    path = client.stop_with_savepoint(False).result(SECONDS)
    assert client.get_job_status().result() == JobStatus.FINISHED
    job.words.epochs[0] = ["good"]
    client, lines = job.start("second", **{"execution.state-recovery.path": path})
    holds(lines, ["('good', 1)"])
    client.cancel().result(SECONDS)


def test_a_request_does_not_outlive_the_job(job: Job) -> None:
    client, _ = job.start()
    job.words.add(["bad"])
    over(client)
    with pytest.raises(TidemillError, match="a bad word"):
        client.trigger_savepoint().result(SECONDS)


def test_several_at_once(job: Job) -> None:
    job.words.add(["a"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 1)
    futures = [client.trigger_savepoint() for _ in range(3)]
    unwanted = client.trigger_savepoint()
    cancelled = unwanted.cancel()
    futures += [client.stop_with_savepoint(False), client.stop_with_savepoint(False)]
    *paths, last = [future.result(SECONDS) for future in futures[:-1]]
    assert len({*paths, last}) == 4
    # The job ends with the first of those that it is to end with.
    with pytest.raises(JobExecutionError, match="the job has finished"):
        futures[-1].result(SECONDS)
    assert len(list(job.saved.iterdir())) == (4 if cancelled else 5)
    assert all((path / METADATA).exists() for path in job.saved.iterdir())


@pytest.mark.parametrize("how", ["trigger", "stop", "cancel"])
def test_a_cancelled_job_gives_its_copies_up(job: Job, how: str) -> None:
    job.words.add(["a"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 1)
    copying, cancelled = threading.Event(), threading.Event()

    def wait() -> None:
        copying.set()
        assert cancelled.wait(SECONDS)

    with injected(Fault("savepoint.begun", action="call", call=wait)):
        future = asking(client)[how]()
        assert copying.wait(SECONDS)
        ended = client.cancel()
        cancelled.set()
        ended.result(SECONDS)
    with pytest.raises(CheckpointError, match="was canceled"):
        future.result(SECONDS)
    assert client.get_job_status().result() == JobStatus.CANCELED
    assert list(job.saved.iterdir()) == []


# --- starting from one


@pytest.fixture
def saved(job: Job) -> str:
    """A savepoint of a job that has counted ``a`` once."""
    job.words.add(["a"])
    client, lines = job.start()
    eventually(lambda: len(lines) == 1)
    return client.stop_with_savepoint(False).result(SECONDS)


def test_a_job_starts_from_a_savepoint_once_and_then_resumes_from_its_own_epochs(job: Job, saved: str) -> None:
    for expected in ("('a', 2)", "('a', 3)"):
        job.words.add(["a"])
        client, lines = job.start("second", **{"execution.savepoint.path": saved})
        holds(lines, [expected])
        client.cancel().result(SECONDS)
    dispose_savepoint(saved)
    job.words.add(["a"])
    client, lines = job.start("second", **{"execution.savepoint.path": saved})
    eventually(lambda: lines == ["('a', 4)"])
    client.cancel().result(SECONDS)


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_job_that_fails_before_its_first_epoch_starts_again(job: Job, epochs: int) -> None:
    client, lines = job.start()
    for _ in range(epochs):
        job.words.add(["a"])
    eventually(lambda: len(lines) == epochs)
    path = client.stop_with_savepoint(False).result(SECONDS)
    job.words.add(["a"])
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
    claim = {"execution.state-recovery.path": path, "execution.state-recovery.claim-mode": "CLAIM"}
    with injected(Fault("offsets.logged", times=1)):
        client, more = job.start("second", **restarts, **claim)
        holds(more, [f"('a', {epochs + 1})"])
    assert len(client.get_exception_history()) == 1
    client.cancel().result(SECONDS)


def test_a_job_that_starts_over_takes_the_savepoint_again(job: Job, saved: str) -> None:
    job.words.add(["a"])
    for _ in range(2):
        options = {"execution.state-recovery.path": saved, "execution.resume-mode": "none"}
        client, lines = job.start("second", **options)
        holds(lines, ["('a', 2)"])
        client.cancel().result(SECONDS)


@pytest.mark.parametrize(("mode", "stays"), [("NO_CLAIM", True), ("LEGACY", True), ("CLAIM", False)])
def test_who_owns_the_savepoint_afterwards(job: Job, saved: str, mode: str, stays: bool) -> None:
    options = {"execution.state-recovery.path": saved, "execution.state-recovery.claim-mode": mode}
    job.words.add(["a"])
    client, lines = job.start("second", **options)
    eventually(lambda: lines == ["('a', 2)"])
    client.cancel().result(SECONDS)
    assert (Path(saved) / METADATA).exists() == stays
    assert Path(saved).exists() == stays


def test_a_job_without_a_savepoint_to_start_from_does_not_start(job: Job) -> None:
    with pytest.raises(CheckpointError, match="neither a savepoint nor the directory of a job"):
        job.start(**{"execution.state-recovery.path": str(job.folder / "nowhere")})
    assert not job.storage().list()
    client, _ = job.start("other")
    path = client.stop_with_savepoint(False).result(SECONDS)
    with pytest.raises(GraphError, match="a job in BATCH mode cannot start from"):
        job.start(**{"execution.state-recovery.path": path, "execution.runtime-mode": "BATCH"})
    assert not job.storage().list()


# --- crashes


def killed(folder: Path, point: str, job_id: str, start_from: str = "") -> None:
    """Run a driver in a process of its own, which takes a savepoint after each epoch, until it is killed at a point."""
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), job_id, start_from],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "TIDEMILL_FAULTS": json.dumps([{"point": point, "action": "kill"}]),
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_driver_killed_while_it_saves_loses_nothing_and_leaves_no_half_savepoint(tmp_path: Path) -> None:
    left = []
    for point in ("savepoint.begun", "savepoint.copied", "savepoint.written"):
        before = set((tmp_path / "saved").glob("*"))
        killed(tmp_path, point, "job")
        left += sorted(set((tmp_path / "saved").glob("*")) - before)
    begun, copied, written = left
    for half in (begun, copied):
        assert not (half / METADATA).exists()
        with pytest.raises(CheckpointError, match="it was never finished"):
            counted(tmp_path, "other", str(half))
    # With its metadata it is one, whatever became of its driver.
    assert counted(tmp_path, "other", str(written)) == EPOCHS
    assert counted(tmp_path, "job", "") == EPOCHS
    for path in left:
        dispose_savepoint(str(path))
    assert [path for path in left if path.exists()] == []


@pytest.mark.parametrize("point", ["restore.copied", "lineage.after"])
def test_a_driver_killed_while_it_starts_starts_again(tmp_path: Path, point: str) -> None:
    with harness(tmp_path, "job", "") as first:
        first.epoch()
        saved = first.savepoint(tmp_path / "saved")
    killed(tmp_path, point, "other", saved)
    storage = storage_for(str(tmp_path / "checkpoints" / "other"))
    assert (ManifestLog(storage, JOB_ID).last_slot() is None) == (point == "restore.copied")
    copied = storage.list("snapshots/")
    assert copied
    assert counted(tmp_path, "other", saved) == EPOCHS
    assert set(copied) <= set(storage.list("snapshots/"))


def test_all_points_are_tried() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [point for point in SAVEPOINT_POINTS if f'"{point}"' not in text] == []
