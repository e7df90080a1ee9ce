"""Checkpoints among epochs: which ones they are, what is tolerated, what is remembered, what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.unit.runtime.plans import launch
from tests.waiting import eventually
from tidemill.checkpoint.cleanup import discard_job
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import (
    Ack,
    Attempt,
    Epoch,
    Lineage,
    Manifest,
    Piece,
    RunRef,
    SectionInfo,
    Slot,
    SubtaskId,
)
from tidemill.checkpoint.storage.local import LocalStorage
from tidemill.checkpoint.storage.storages import MemoryStorage, Storage
from tidemill.common import Configuration, Types
from tidemill.common.job_client import JobClient
from tidemill.common.job_status import JobStatus
from tidemill.common.reports.checkpoint_statistics import CheckpointStatus
from tidemill.config import CheckpointingOptions
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.checkpoint_storage import JobManagerCheckpointStorage
from tidemill.datastream.functions import KeyedProcessFunction
from tidemill.datastream.functions.checkpointed import CheckpointListener
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import CheckpointError, ConfigurationError, CorruptFileError, FencedError, JobCancelledError
from tidemill.local.engine import LocalEngine
from tidemill.runtime.driver import checkpointing as checkpointing_module
from tidemill.runtime.driver.checkpointing import Checkpointing, CheckpointSettings
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.job import RunningJob, StopSignal
from tidemill.runtime.driver.launch import let_go
from tidemill.runtime.driver.restarts import NoRestarts
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.task.pieces import PieceForm
from tidemill.runtime.task.subtask_report import checkpoint_parts
from tidemill.state.keys.key_groups import KeyGroup, Subtask
from tidemill.testing.faulty_storage import Fate, FaultyStorage
from tidemill.testing.recording_sink import Recording
from tidemill.testing.simulation.world import KilledError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def manifest(epoch: int, *, checkpoints: tuple[int, ...] = (), pieces: tuple[Piece, ...] = ()) -> Manifest:
    return Manifest(
        kind="epoch",
        job_id="job",
        lineage=Lineage("x"),
        slot=Slot(epoch + 1),
        epoch=Epoch(epoch),
        parallelism={"op": 2},
        pieces=pieces,
        runs=(RunRef(Epoch(epoch), slot=Slot(epoch + 1), bytes=sum(piece.length for piece in pieces)),),
        checkpoints=tuple(Slot(slot) for slot in checkpoints),
    )


def test_checkpoints_are_an_interval_apart_and_a_pause() -> None:
    clock = Clock()
    checkpointing = Checkpointing(CheckpointSettings(interval=10, min_pause=8), clock=clock)
    assert checkpointing.begin(last=False)  # the first epoch of a driver
    assert checkpointing.seconds_to_next(checkpoint=True) == 10
    clock.now = 5
    checkpointing.completed(manifest(1, checkpoints=(2,)), 0, seconds=5)
    clock.now = 9.5
    assert not checkpointing.begin(last=False)
    assert checkpointing.seconds_to_next(checkpoint=False) == 3.5
    assert checkpointing.begin(last=True)
    clock.now = 10
    assert not checkpointing.begin(last=False)  # 10 s after the last one began, but not 8 s after it ended
    clock.now = 13
    assert checkpointing.begin(last=False)


def test_without_an_interval_every_epoch_is_a_checkpoint() -> None:
    settings = CheckpointSettings.of(Configuration())
    assert settings.interval == 0
    checkpointing = Checkpointing(settings)
    for epoch in (1, 2):
        assert checkpointing.begin(last=False)
        assert checkpointing.seconds_to_next(checkpoint=True) is None
        checkpointing.completed(manifest(epoch, checkpoints=(epoch + 1,)), 0, seconds=5)
    assert settings.timeout is None  # Flink's ten minutes are for barriers, not for epochs with much input


def test_failures_in_a_row_are_tolerated_up_to_the_number_that_is_set() -> None:
    pauses: list[float] = []
    checkpointing = Checkpointing(CheckpointSettings(tolerable_failures=2), pause=pauses.append)
    error = CheckpointError("no space left")
    checkpointing.failed(error, Epoch(1), 0, 0.5)
    checkpointing.failed(error, Epoch(1), 0, 0.5)
    checkpointing.completed(manifest(1, checkpoints=(2,)), 0, seconds=1)
    checkpointing.failed(error, Epoch(2), 0, 0.5)  # counted anew after a success
    checkpointing.failed(error, Epoch(2), 0, 0.5)
    with pytest.raises(CheckpointError, match="no space left"):
        checkpointing.failed(error, Epoch(2), 0, 0.5)
    assert pauses == [0.1, 0.2, 0.1, 0.2]
    history = checkpointing.history()
    assert (history.completed, history.failed) == (1, 5)
    assert history.latest_completed is not None
    assert history.latest_completed.checkpoint_id == 1
    assert [one.failure for one in history.checkpoints if one.status is CheckpointStatus.FAILED] == [
        "no space left"
    ] * 5


def test_what_cannot_be_mended_is_not_tolerated() -> None:
    checkpointing = Checkpointing(CheckpointSettings(tolerable_failures=10), pause=lambda seconds: None)
    with pytest.raises(CorruptFileError):
        checkpointing.failed(CorruptFileError("a flipped byte"), Epoch(1), 0, 0)


def test_an_epoch_that_takes_too_long_is_interrupted() -> None:
    checkpointing = Checkpointing(CheckpointSettings(timeout=0.01))
    interrupted = threading.Event()

    def too_long() -> None:
        with checkpointing.timed(Epoch(7), interrupted.set):
            assert interrupted.wait(60)
            raise RuntimeError("Job cancelled")

    with pytest.raises(CheckpointError, match=r"epoch 7 was not committed within 0\.01 s"):
        too_long()


def test_a_timeout_that_comes_late_leaves_the_next_epoch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expired: list[Any] = []

    class LateTimer(threading.Timer):
        def start(self) -> None:
            expired.append(self.function)

    monkeypatch.setattr(threading, "Timer", LateTimer)
    interrupted = threading.Event()
    with Checkpointing(CheckpointSettings(timeout=60)).timed(Epoch(1), interrupted.set):
        pass
    expired[0]()
    assert not interrupted.is_set()


def test_an_epoch_in_time_keeps_its_own_error() -> None:
    with pytest.raises(ZeroDivisionError), Checkpointing(CheckpointSettings(timeout=60)).timed(Epoch(1), lambda: None):
        raise ZeroDivisionError


def test_what_subtasks_contributed_is_remembered_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing_module, "_DETAILED", 2)
    checkpointing = Checkpointing(CheckpointSettings(history_size=5))
    piece = Piece(1, "op", 70, "", (SectionInfo("op", "count", KeyGroup(0), KeyGroup(9), 3),), data=b"")
    for epoch in range(1, 5):
        acks = [
            Ack(SubtaskId("op", Subtask(subtask)), Attempt(f"a{subtask}"), Epoch(epoch), 0, pieces=pieces)
            for subtask, pieces in ((1, (piece, piece)), (0, ()))
        ]
        checkpointing.completed(manifest(epoch, checkpoints=(epoch + 1,)), 0, 1, partial(checkpoint_parts, acks))
    known = checkpointing.history().checkpoints
    assert [len(one.parts) for one in known] == [0, 0, 2, 2]
    first, second = known[-1].parts
    assert (first.subtask, first.bytes, first.rows) == (0, 0, ())
    assert (second.subtask, second.bytes, second.rows) == (1, 140, (("op", "count", 6),))


def test_a_job_that_restarts_before_its_first_epoch_was_restored_from_nothing() -> None:
    checkpointing = Checkpointing(CheckpointSettings())
    checkpointing.restored(manifest(0), list)
    assert checkpointing.history().restored is None
    checkpointing.restored(manifest(3), list)
    restored = checkpointing.history().restored
    assert restored is not None
    assert restored.checkpoint_id == 3


def test_the_history_remembers_so_many() -> None:
    checkpointing = Checkpointing(CheckpointSettings(history_size=3))
    for epoch in range(1, 6):
        checkpointing.completed(manifest(epoch, checkpoints=(epoch, epoch + 1)), 0, seconds=1)
    history = checkpointing.history()
    assert [one.checkpoint_id for one in history.checkpoints] == [3, 4, 5]
    assert [one.retained for one in history.checkpoints] == [False, True, True]
    assert history.completed == 5


def test_memory_of_the_driver_has_a_limit() -> None:
    checkpointing = Checkpointing(CheckpointSettings(max_state_size=1000))
    section = SectionInfo("sum", "total", KeyGroup(0), KeyGroup(127), 10)
    small = Piece(0, "sum", 900, "", (section,), file="a")
    large = Piece(1, "sum", 1001, "", (section,), file="b")
    checkpointing.check_size(manifest(1, pieces=(small, small)))
    with pytest.raises(ConfigurationError, match=r"subtask 1 of chain sum \('total' of sum\) has 1,001 bytes"):
        checkpointing.check_size(manifest(1, pieces=(small, large)))
    with pytest.raises(ConfigurationError, match="FileSystemCheckpointStorage"):
        checkpointing.check_size(manifest(1, pieces=(small, small, small)))  # 2 700 bytes in two subtasks


# Whole jobs, in this process.


class Sum(KeyedProcessFunction, CheckpointListener):
    heard: ClassVar[list[int]] = []

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(checkpoint_id)


OUT: list[Any] = []


def noted(record: Any) -> Any:
    OUT.append(record)
    return record


def finished(directory: Path, **options: str) -> tuple[JobClient, list[Any]]:
    """Run a job of one record per epoch; returns its handle and what it put out."""
    OUT.clear()
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.job-id": "sums",
        "execution.epoch.max-records": "1",
        "parallelism.default": "1",
        "execution.checkpointing.dir": str(directory),
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection([("a", n) for n in range(1, 9)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    stream.key_by(lambda record: record[0]).process(Sum()).uid("sum").map(noted)
    client = env.execute_async("sums")
    client.get_job_execution_result().result(60)
    return client, list(OUT)


def test_a_job_reports_its_checkpoints(tmp_path: Path) -> None:
    client, _ = finished(tmp_path, execution__checkpointing__num_retained="3")
    history = client.get_checkpoint_history()
    assert history.completed == 8
    assert history.restored is None
    assert sum(one.retained for one in history.checkpoints) == 3
    last = history.checkpoints[-1]
    assert last.status is CheckpointStatus.COMPLETED
    assert last.state_size > 0
    assert last.duration >= 0
    assert last.subtasks == 2


def test_a_long_interval_makes_few_checkpoints_and_few_calls_to_listeners(tmp_path: Path) -> None:
    Sum.heard.clear()
    client, _ = finished(tmp_path, execution__checkpointing__interval="1 h")
    assert [one.checkpoint_id for one in client.get_checkpoint_history().checkpoints] == [1, 8]
    assert Sum.heard == [1]
    Sum.heard.clear()
    finished(tmp_path / "other")
    assert Sum.heard == list(range(1, 8))


def test_a_restarted_driver_knows_what_it_started_from(tmp_path: Path) -> None:
    _, out = finished(tmp_path, execution__checkpointing__num_retained="2")
    assert out[-1] == ("a", 36)
    client, out = finished(tmp_path)
    history = client.get_checkpoint_history()
    assert out == []  # it had finished
    assert history.restored is not None
    assert history.restored.checkpoint_id == 8
    assert [one.checkpoint_id for one in history.checkpoints] == [7, 8]


def test_resume_mode_none_starts_from_nothing(tmp_path: Path) -> None:
    finished(tmp_path)
    _, out = finished(tmp_path, execution__resume_mode="none")
    assert out[-1] == ("a", 36)
    storage = LocalStorage(tmp_path / "sums")
    head = ManifestLog(storage, "sums").read_head()
    assert head is not None
    assert head.epoch == 8  # counted anew


class Endless(Sum):
    started = threading.Event()

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
        yield from super().process_element(value, ctx)
        if value[1] > 3:
            Endless.started.set()


@pytest.mark.parametrize(
    ("retention", "left"),
    [("DELETE_ON_CANCELLATION", None), ("RETAIN_ON_CANCELLATION", "some"), ("NO_EXTERNALIZED_CHECKPOINTS", "some")],
)
def test_cancelling_keeps_or_deletes_what_was_committed(tmp_path: Path, retention: str, left: str | None) -> None:
    Endless.started.clear()
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.job-id": "endless",
        "execution.epoch.max-records": "2",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.externalized-checkpoint-retention": retention,
        "state.inline-delta-size": "0",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_sequence(1, 10**12).map(lambda n: ("a", n), Types.TUPLE([Types.STRING(), Types.LONG()]))
    numbers.key_by(lambda record: record[0]).process(Endless()).uid("sum")
    client = env.execute_async("endless")
    assert Endless.started.wait(60)
    client.cancel().result(60)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(60)
    storage = LocalStorage(tmp_path / "endless")
    head = ManifestLog(storage, "endless").read_head()
    assert head is not None
    assert (head.epoch > 0) == (left is not None)
    assert bool(storage.list("state/")) == (left is not None)


def test_state_too_large_for_the_driver_is_refused(tmp_path: Path) -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    JobManagerCheckpointStorage(max_state_size=2000).apply(configuration)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    words = env.from_collection([(f"key {n}", n) for n in range(500)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    words.key_by(lambda record: record[0]).process(Sum()).uid("sum")
    with pytest.raises(ConfigurationError, match=r"'total' of sum.*FileSystemCheckpointStorage"):
        env.execute("too large")


def test_compressed_state_is_smaller_and_the_same(tmp_path: Path) -> None:
    sizes = {}
    for compressed in ("false", "true"):
        configuration = Configuration()
        configuration.set(CheckpointingOptions.INTERVAL, timedelta(seconds=1))
        for key, value in {
            "execution.target": "local",
            "execution.job-id": "sums",
            "execution.checkpointing.dir": str(tmp_path / compressed),
            "execution.checkpointing.snapshot-compression": compressed,
            "state.inline-delta-size": "0",
        }.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        words = env.from_collection(
            [(f"a long key that repeats {n % 3000}", n) for n in range(6000)],
            Types.TUPLE([Types.STRING(), Types.LONG()]),
        )
        words.key_by(lambda record: record[0]).process(Sum()).uid("sum")
        env.execute("sums")
        storage = LocalStorage(tmp_path / compressed / "sums")
        sizes[compressed] = sum(storage.size(name) for name in storage.list("state/"))
    assert 0 < sizes["true"] < 0.5 * sizes["false"]


def count(env: Any) -> Any:
    return env.from_collection(["a", "b", "a", "c"]).key_by(lambda w: w).map_with_state(number).uid("count")


def number(word: str, seen: int | None) -> tuple[Any, int]:
    return (word, (seen or 0) + 1), (seen or 0) + 1


class Program:
    """A counting job on some storage, epoch by epoch."""

    def __init__(self, storage: Storage, checkpointing: Checkpointing) -> None:
        self.recording = Recording()
        launched = launch(count, self.recording)
        bundle = replace(launched.bundle(storage), form=PieceForm(inline_limit=0))
        parallelism = launched.parallelism(2)
        self._coordinator = Coordinator(
            bundle,
            LocalEngine(bundle, workers=2),
            parallelism,
            launched.committers(),
            clock=lambda: 0,
            checkpointing=checkpointing,
        )
        self._coordinator.open()
        self._sources = SplitInput(
            launched.plan, launched.split_sources(), self._coordinator.head.sources, parallelism, max_records=2
        )

    def epoch(self) -> None:
        self._coordinator.run_epoch(self._sources.next_input())


@pytest.mark.parametrize(("call", "place"), [("write", "state/"), ("create", "manifests/")])
def test_storage_that_fails_for_a_while_costs_only_time(call: str, place: str) -> None:
    """A full disk, say: no delta can be written, or no manifest created; the epoch runs, or is published, again."""
    failures: list[str] = []
    broken = False

    def full() -> None:
        raise CheckpointError("no space left on device")

    def oracle(name: str, file: str) -> Fate | None:
        if broken and name == call and file.startswith(place) and len(failures) < 4:
            failures.append(file)
            return Fate(before=full)
        return None

    checkpointing = Checkpointing(CheckpointSettings(tolerable_failures=4), pause=lambda seconds: None)
    job = Program(FaultyStorage(MemoryStorage(), oracle), checkpointing)
    broken = True
    job.epoch()
    assert len(failures) == 4
    assert len(job.recording.values()) == 2
    history = checkpointing.history()
    assert history.completed == 1
    assert history.failed >= 2
    assert {one.failure for one in history.checkpoints[:-1]} == {"no space left on device"}
    job.epoch()
    assert sorted(job.recording.values()) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


def test_a_job_that_bears_failures_can_be_cancelled() -> None:
    tolerant = Checkpointing(CheckpointSettings(tolerable_failures=1000))
    trying = threading.Event()

    def attempt(stop: StopSignal) -> None:
        while True:
            trying.set()
            tolerant.failed(CheckpointError("no space left"), Epoch(1), 0, 0)

    parallelism = launch(count, Recording()).parallelism(1)
    job = RunningJob("job", "job", attempt, NoRestarts(), lambda: None, parallelism, tolerant).start()
    assert trying.wait(60)
    job.cancel().result(60)
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result(60)


def test_after_a_restart_as_many_failures_are_borne_again() -> None:
    checkpointing = Checkpointing(CheckpointSettings(tolerable_failures=1), pause=lambda seconds: None)
    for _ in range(2):
        checkpointing.failed(CheckpointError("no space left"), Epoch(1), 0, 0)
        with pytest.raises(CheckpointError):
            checkpointing.failed(CheckpointError("no space left"), Epoch(1), 0, 0)


def test_a_driver_that_was_taken_over_tolerates_nothing() -> None:
    """What it cannot read or write is gone for good: it stops at the first failure, however many it may bear."""
    storage = MemoryStorage()
    taken_over = False

    def oracle(name: str, file: str) -> Fate | None:
        return Fate(before=full) if taken_over and name == "write" else None

    def full() -> None:
        raise CheckpointError("no such directory")

    checkpointing = Checkpointing(CheckpointSettings(tolerable_failures=1000), pause=lambda seconds: None)
    job = Program(FaultyStorage(storage, oracle), checkpointing)
    ManifestLog(storage, "unit").open_lineage()
    taken_over = True
    with pytest.raises(FencedError):
        job.epoch()
    assert checkpointing.history().failed == 0


def test_cancelling_a_driver_that_was_taken_over_deletes_nothing() -> None:
    storage = MemoryStorage()
    configuration = Configuration()
    configuration.set(CheckpointingOptions.EXTERNALIZED_RETENTION, "DELETE_ON_CANCELLATION")
    former, _ = ManifestLog(storage, "job").open_lineage()
    successor = ManifestLog(storage, "job")
    successor.open_lineage()
    head = manifest(1)
    successor.publish(replace(head, slot=Slot(3), lineage=successor.head.lineage, runs=()))
    let_go(configuration, storage, "job", former)
    let_go(configuration, storage, "job", None)  # it never owned the job
    assert ManifestLog(storage, "job").read_head() == successor.head
    let_go(configuration, storage, "job", successor.head.lineage)
    left = ManifestLog(storage, "job").read_head()
    assert left is not None
    assert left.epoch == 0


def test_input_that_is_deleted_in_part_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path, **options: bool) -> None:
        (path / "source" / "folder" / "rows-1").unlink()
        raise KilledError

    storage = LocalStorage(tmp_path)
    ManifestLog(storage, "job").open_lineage()
    for name in ("chosen", "folder/rows-1", "folder/rows-2"):
        storage.write(f"input/source/{name}", b"folder")
    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(KilledError):
        discard_job(storage, "job")
    assert storage.list("input/") == ["input/source/folder/rows-2"]


def test_where_there_is_no_directory_input_and_logs_of_sources_are_deleted_too() -> None:
    storage = MemoryStorage()
    ManifestLog(storage, "job").open_lineage()
    for name in ("input/source/chosen", "input/source/folder/rows-1", "spark/000000000001-abc/sources/0/0"):
        storage.write(name, b"folder")
    discard_job(storage, "job")
    assert storage.list("input/") == storage.list("spark/") == []


def test_a_driver_that_starts_while_an_object_store_still_deletes_keeps_what_it_has_stored() -> None:
    class Slow(MemoryStorage):
        def delete(self, names: Iterable[str]) -> None:
            super().delete(names)
            if not begun and not self.exists("input/source/chosen"):
                begun.extend(theirs)
                for name in theirs:
                    self.write(name, b"anew")

    begun: list[str] = []
    theirs = ["input/source/anew/rows-1", "input/source/chosen", "spark/000000000003-abc/sources/0/0"]
    storage = Slow()
    ManifestLog(storage, "job").open_lineage()
    storage.write("input/source/chosen", b"folder")
    for name in ("input/source/folder/rows-1", "spark/000000000001-abc/sources/0/0"):
        storage.write(name, b"folder")
    discard_job(storage, "job")
    assert [*storage.list("input/"), *storage.list("spark/")] == theirs


class Failing(Sum):
    """Fails after some epochs."""

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
        if value[1] > 2:
            raise ValueError("too much")
        yield from super().process_element(value, ctx)


def test_a_job_that_waits_for_its_restart_is_deleted_too(tmp_path: Path) -> None:
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.job-id": "failing",
        "execution.epoch.max-records": "1",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 h",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection([("a", n) for n in range(1, 9)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    stream.uid("numbers").key_by(lambda record: record[0]).process(Failing()).uid("sum")
    client = env.execute_async("failing")
    eventually(lambda: client.get_job_status().result() is JobStatus.RESTARTING)
    client.cancel().result(60)
    head = ManifestLog(LocalStorage(tmp_path / "failing"), "failing").read_head()
    assert head is not None
    assert head.epoch == 0
