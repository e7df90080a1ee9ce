"""A power failure at every moment of a job: what was acknowledged is there, and what is there is exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.power_failure import Moment, Recorder, different
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.lost_manifests import read_head
from tidemill.checkpoint.names import TEMPORARY
from tidemill.checkpoint.savepoint import METADATA, read_savepoint
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import CheckpointError
from tidemill.faults import Fault
from tidemill.testing import JobHarness
from tidemill.testing.committed_state import CommittedState

JOB = "job-harness"
WORDS = [[f"word {number % 5}" for number in range(epoch, epoch + 4)] for epoch in range(12)]


def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    return words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).uid("count")


@dataclass
class Run:
    """A recorded job, and the truth: by epoch, its state and the positions of its sources."""

    moments: list[Moment]
    truth: dict[int, tuple[Any, Any]] = field(default_factory=dict)


def run(root: Path, *, durable: bool, forgotten: str | None = None) -> Run:
    """A job with state in files, merges, retention, a crash, restarts and savepoints."""
    recorder = Recorder(root, forgotten)
    done = Run(recorder.moments)
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        job = JobHarness(
            count,
            inputs=["words"],
            configuration={"state.inline-delta-size": "1 bytes", "execution.checkpointing.num-retained": "2"},
            storage=LocalStorage(root / "job", durable=durable),
            merge_after=3,
        )
        done.truth[0] = {}, {}
        with job:
            for number, words in enumerate(WORDS, start=1):
                if number in (4, 9):
                    job.crash(Fault("manifest.before"), words=words)
                    job.run()
                else:
                    job.epoch(words=words)
                done.truth[number] = job.state("count", "_reduce_state"), job.head.sources
                recorder.acknowledge(number)
                if number in (5, 10):
                    recorder.acknowledge((number, job.savepoint(root / "savepoints")))
                if number == 6:
                    job.restart(parallelism=1)
    return done


def stored(files: dict[str, bytes], prefix: str) -> MemoryStorage:
    storage = MemoryStorage()
    storage._files.update({name.removeprefix(prefix): data for name, data in files.items() if name.startswith(prefix)})
    for name in storage.list(TEMPORARY):
        del storage._files[name]
    return storage


def wrong(done: Run, moment: Moment, files: dict[str, bytes]) -> str:
    """What is wrong with what a power failure has left, or nothing."""
    acknowledged = max((one for one in moment.acknowledged if isinstance(one, int)), default=0)
    storage = stored(files, "job/")
    log = ManifestLog(storage, JOB)
    try:
        head = read_head(storage, log)
        log.open_lineage()
        epoch = 0 if head is None else head.epoch
        if epoch < acknowledged:
            return f"epoch {acknowledged} was acknowledged, and {epoch} is left"
        found = CommittedState(storage, log).of("count", "_reduce_state"), {} if head is None else head.sources
        if found != done.truth[epoch]:
            return f"epoch {epoch} is {found}, not {done.truth[epoch]}"
    except CheckpointError as error:
        return f"refused: {error}"
    return wrong_savepoints(done, moment, files)


def wrong_savepoints(done: Run, moment: Moment, files: dict[str, bytes]) -> str:
    names = {name.split("/")[1] for name in files if name.startswith("savepoints/")}
    promised = {Path(one[1]).name: one[0] for one in moment.acknowledged if isinstance(one, tuple)}
    for name in sorted({*names, *promised}):
        storage, target = stored(files, f"savepoints/{name}/"), MemoryStorage()
        try:
            saved = read_savepoint(storage, name)
            saved.copy_into(target)
            log = ManifestLog(target, JOB)
            log.open_lineage(initial=saved.manifest)
            found = CommittedState(target, log).of("count", "_reduce_state"), saved.manifest.sources
            if found != done.truth[saved.manifest.epoch]:
                return f"savepoint of epoch {saved.manifest.epoch} is {found}"
        except CheckpointError as error:
            if name in promised or storage.exists(METADATA):
                return f"savepoint {name}: {error}"
    return ""


def test_whatever_a_power_failure_leaves_is_exact(tmp_path: Path) -> None:
    done = run(tmp_path, durable=True)
    tried = 0
    for moment, kind, files in different(done.moments, mixtures=2):
        tried += 1
        assert not (problem := wrong(done, moment, files)), f"{kind} before {moment.operation}: {problem}"
    assert tried > 300
    assert {"fsync job/manifests", "link", "unlink"} <= {moment.operation for moment in done.moments}


def test_without_syncs_it_is_noticed(tmp_path: Path) -> None:
    done = run(tmp_path, durable=False)
    assert any(wrong(done, moment, files) for moment, _, files in different(done.moments))


@pytest.mark.parametrize("forgotten", ["job/manifests", "job/.tmp", "job/state", "savepoints"])
def test_a_sync_that_is_left_out_is_noticed(tmp_path: Path, forgotten: str) -> None:
    done = run(tmp_path, durable=True, forgotten=forgotten)
    assert any(wrong(done, moment, files) for moment, _, files in different(done.moments))
