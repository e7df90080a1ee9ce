"""Who commits what: the driver or a worker, within a deadline, and what is reported when it goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from tests.waiting import eventually
from tidemill.common import Configuration, JobStatus
from tidemill.connectors.sinks import Committed, Committer, CommitterContext, Sink, SinkWriter
from tidemill.datastream.data_stream import DataStream
from tidemill.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidemill.errors import CheckpointError, JobExecutionError, UserCodeError
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.deadline import Deadline, DeadlineExceededError
from tidemill.testing import JobHarness


class Calls:
    """What committers were asked, in order, by which of them and in which thread."""

    log: ClassVar[list[tuple[str, int, Any]]] = []
    threads: ClassVar[set[int]] = set()
    fail: ClassVar[Exception | None] = None
    hang: ClassVar[threading.Event | None] = None


@pytest.fixture(autouse=True)
def calls() -> None:
    Calls.log, Calls.threads, Calls.fail, Calls.hang = [], set(), None, None


class BytesSink(Sink):
    """Each record is a committable."""

    def __init__(self, *, on_workers: bool) -> None:
        self.on_workers = on_workers

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return BytesWriter()

    def create_committer(self) -> Committer:
        return BytesCommitter(self.on_workers)


class BytesWriter(SinkWriter):
    def __init__(self) -> None:
        self.records: list[bytes] = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.records += values

    def prepare_commit(self) -> Sequence[bytes]:
        records, self.records = self.records, []
        return records


class BytesCommitter(Committer):
    def __init__(self, on_workers: bool) -> None:
        self.on_workers = on_workers

    def note(self, what: str, detail: Any = None) -> None:
        Calls.log.append((what, id(self), detail))
        Calls.threads.add(threading.get_ident())

    def open(self, context: CommitterContext) -> None:
        self.note("open", context.operator_uid)

    def commit(self, committed: Sequence[Committed]) -> None:
        self.note("commit", [(part.epoch, part.subtask, len(part.committables)) for part in committed])
        if Calls.fail is not None:
            raise Calls.fail
        if Calls.hang is not None:
            Calls.hang.wait(LONG)

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        self.note("discard")

    def close(self) -> None:
        self.note("close")


def job(*, on_workers: bool) -> JobHarness:
    def build(env: StreamExecutionEnvironment, records: DataStream) -> None:
        records.rebalance().sink_to(BytesSink(on_workers=on_workers)).uid("out").name("the sink")

    return JobHarness(build, inputs=["records"], parallelism=2)


def said(what: str) -> list[Any]:
    return [detail for call, _, detail in Calls.log if call == what]


LITTLE, MUCH = [b"x"] * 2, [b"x" * 200_000] * 2
#: Seconds that are never over: what waits for so long is released at the end of its test.
LONG = 120.0


def test_little_is_committed_on_the_driver_all_subtasks_at_once() -> None:
    with job(on_workers=True) as running:
        running.epoch(records=LITTLE)
    assert said("commit") == [[(1, 0, 1), (1, 1, 1)]]
    assert len({committer for _, committer, _ in Calls.log}) == 1


def test_much_is_committed_subtask_by_subtask_and_the_committers_stay_open() -> None:
    with job(on_workers=True) as running:
        running.epoch(records=MUCH)
        running.epoch(records=MUCH)
        assert said("commit") == [[(1, 0, 1)], [(1, 1, 1)], [(2, 0, 1)], [(2, 1, 1)]]
        assert said("open") == ["out"] * 3  # the driver's, which clears up, and one for each subtask
        assert said("close") == []
    assert len(said("close")) == 3
    driver = next(committer for call, committer, _ in Calls.log if call == "discard")
    assert all(committer != driver for call, committer, _ in Calls.log if call == "commit")


def test_only_committers_that_say_so_leave_the_driver() -> None:
    with job(on_workers=False) as running:
        running.epoch(records=MUCH)
    assert said("commit") == [[(1, 0, 1), (1, 1, 1)]]


@pytest.mark.parametrize("records", [LITTLE, MUCH], ids=["driver", "workers"])
def test_what_a_committer_raises_names_the_sink_and_comes_again(records: list[bytes]) -> None:
    running = job(on_workers=True)
    Calls.fail = OSError("no route to the database")
    with pytest.raises(UserCodeError) as failed:
        running.epoch(records=records)
    text = str(failed.value)
    assert text.startswith("Traceback (most recent call last):")
    assert "no route to the database" in text
    assert "commit() of the committer of sink 'the sink' (uid out)" in text
    assert failed.value.site is not None
    assert failed.value.site.epoch == 1
    Calls.fail, Calls.log = None, []
    running.restart(crashed=True)
    assert [part for parts in said("commit") for part in parts] == [(1, 0, 1), (1, 1, 1)]
    running.close()


@pytest.mark.parametrize("records", [LITTLE, MUCH], ids=["driver", "workers"])
def test_errors_of_our_own_keep_their_class(records: list[bytes]) -> None:
    running = job(on_workers=True)
    Calls.fail = CheckpointError("the log is gone")
    with pytest.raises(CheckpointError, match="the log is gone"):
        running.epoch(records=records)


def test_a_committer_that_failed_on_a_worker_is_replaced() -> None:
    running = job(on_workers=True)
    running.epoch(records=MUCH)
    Calls.fail, before = OSError("gone"), len(said("open"))
    with pytest.raises(UserCodeError):
        running.epoch(records=MUCH)
    assert len(said("close")) == 2
    Calls.fail = None
    running.restart(crashed=True)
    running.epoch(records=MUCH)
    assert len(said("open")) > before
    running.close()


class TestDeadline:
    def coordinator(self, seconds: float) -> tuple[JobHarness, Coordinator]:
        running = job(on_workers=True)
        coordinator = running._running()
        coordinator._commits._deadline = Deadline(seconds, "commits")
        return running, coordinator

    def test_a_commit_that_hangs_ends_in_a_named_failure(self) -> None:
        running, coordinator = self.coordinator(0.05)
        Calls.hang = threading.Event()
        with pytest.raises(
            JobExecutionError, match=r"sink 'the sink' \(uid out\) did not return from commit\(\), epoch 1"
        ):
            running.epoch(records=LITTLE)
        Calls.hang.set()
        coordinator.close()

    def test_a_sink_that_hangs_does_not_hold_up_the_restart_once_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What did not return from commit() will not return from discard() or close(), either."""
        monkeypatch.setattr("tidemill.runtime.driver.deadline._PATIENCE", 0.02)
        running, coordinator = self.coordinator(0.5)
        Calls.hang = never = threading.Event()
        monkeypatch.setattr(BytesCommitter, "discard", lambda *arguments: _wait(never))
        monkeypatch.setattr(BytesCommitter, "close", lambda *arguments: _wait(never))
        with pytest.raises(JobExecutionError, match=r"within 0\.5 s"):
            running.epoch(records=LITTLE)
        allowed: list[float | None] = []
        run = Deadline.run

        def timed(deadline: Deadline, act: Callable[[], None]) -> None:
            allowed.append(deadline.seconds)
            run(deadline, act)

        monkeypatch.setattr(Deadline, "run", timed)
        coordinator.close()
        assert set(allowed) == {0.02}, "else it is twice the timeout"
        never.set()

    def test_commits_of_a_job_come_from_one_thread(self) -> None:
        running, coordinator = self.coordinator(LONG)
        Calls.threads = set()
        for _ in range(3):
            running.epoch(records=LITTLE)
        assert len(Calls.threads) == 1
        assert threading.get_ident() not in Calls.threads
        coordinator.close()

    def test_what_is_raised_comes_through(self) -> None:
        deadline = Deadline(LONG, "test")
        with pytest.raises(KeyboardInterrupt):
            deadline.run(_interrupt)
        deadline.run(lambda: None)
        deadline.close()

    def test_after_a_call_that_hangs_the_next_one_is_made(self) -> None:
        deadline, done = Deadline(0.02, "test"), threading.Event()
        with pytest.raises(DeadlineExceededError, match=r"within 0\.02 s"):
            deadline.run(lambda: _wait(done))
        deadline.seconds = LONG
        deadline.run(lambda: None)
        done.set()
        deadline.close()

    def test_a_job_that_is_cancelled_waits_no_longer(self) -> None:
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.from_collection(LITTLE).sink_to(BytesSink(on_workers=True))
        Calls.hang = threading.Event()
        client = env.execute_async("hangs")
        eventually(lambda: said("commit"))
        client.cancel().result(60)
        assert client.get_job_status().result() is JobStatus.CANCELED
        Calls.hang.set()

    def test_what_can_be_interrupted_is(self) -> None:
        interrupted = threading.Event()

        def until_interrupted() -> None:
            assert interrupted.wait(LONG)
            raise OSError("interrupted")

        with pytest.raises(DeadlineExceededError), Deadline(0.02, "test").watching(interrupted.set):
            until_interrupted()
        with Deadline(LONG, "test").watching(interrupted.clear):
            pass
        assert interrupted.is_set()

    def test_the_thread_ends(self) -> None:
        deadline = Deadline(LONG, "a-thread-that-ends")
        deadline.run(lambda: None)
        deadline.close()
        eventually(lambda: all(thread.name != "a-thread-that-ends" for thread in threading.enumerate()))


def _interrupt() -> None:
    raise KeyboardInterrupt


def _wait(event: threading.Event) -> None:
    event.wait(LONG)
