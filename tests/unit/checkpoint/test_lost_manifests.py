"""Manifests that are lost: no job begins again, or resumes from an older epoch, without a word."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.checkpoint.examples import JOB
from tidemill.checkpoint.cleanup import discard_job
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.lost_manifests import beyond, evidence, evidence_of, read_head
from tidemill.checkpoint.model import Epoch, Manifest, Slot
from tidemill.checkpoint.names import (
    delta_name,
    lineage_id,
    manifest_name,
    snapshot_file_name,
    snapshot_id,
    snapshot_index_name,
    spark_location,
)
from tidemill.checkpoint.savepoint import open_state
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage
from tidemill.common import Configuration, ExitCode, exit_code_of
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import CorruptFileError, NewerFormatError, TidemillError
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.testing import JobHarness
from tidemill.testing.recording_sink import Recording, RecordingSink

FIRST, SECOND, THIRD = (lineage_id(slot, "abc") for slot in (1, 5, 9))
HEAD = Manifest("epoch", JOB, SECOND, Slot(8), Epoch(6))


def delta(lineage: str, epoch: int) -> str:
    return delta_name(lineage, Epoch(epoch), "chain", 0, "attempt")


def snapshot(lineage: str, through: int) -> str:
    return snapshot_file_name(snapshot_id(lineage, through, "abc"), 0)


def spark(lineage: str, batch: int) -> Manifest:
    return replace(HEAD, spark={"lineage": lineage, "batch_id": batch, "offsets": ""})


# --- what names prove


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (None, delta(FIRST, 1)),
        (None, snapshot(FIRST, 3)),
        (None, snapshot_index_name(snapshot_id(FIRST, 3, "abc"))),
        (None, f"{spark_location(FIRST)}/metadata"),
        (HEAD, delta(THIRD, 1)),
        (HEAD, snapshot(THIRD, 1)),
        (HEAD, f"{spark_location(THIRD)}/sources/0/0"),
        (HEAD, delta(SECOND, 8)),
        (HEAD, snapshot(SECOND, 7)),
        (spark(SECOND, 4), f"{spark_location(SECOND)}/commits/5"),
    ],
)
def test_a_name_that_proves_a_later_manifest(head: Manifest | None, name: str) -> None:
    found = evidence_of(name)
    assert found is not None
    assert beyond(head, [found]) == [found]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (None, snapshot(lineage_id(0, "abc"), 7)),  # copied from a savepoint, before the job was there
        (None, f"{spark_location(lineage_id(0, 'abc'))}/sources/0/0"),
        (None, delta("of-another-making", 3)),
        (HEAD, delta(SECOND, 7)),  # the epoch that was running
        (HEAD, snapshot(SECOND, 6)),
        (HEAD, delta(FIRST, 40)),  # the job was taken back, or begun anew
        (HEAD, snapshot(FIRST, 40)),
        (HEAD, f"{spark_location(FIRST)}/commits/40"),
        (HEAD, f"{spark_location(SECOND)}/commits/4"),  # of positions that are not in a manifest yet
        (spark(SECOND, 4), f"{spark_location(SECOND)}/commits/4"),
        (spark(SECOND, 4), f"{spark_location(SECOND)}/offsets/5"),  # a batch that was begun
        (spark(FIRST, 4), f"{spark_location(FIRST)}/commits/40"),  # taken back
    ],
)
def test_a_name_that_proves_nothing(head: Manifest | None, name: str) -> None:
    found = evidence_of(name)
    assert found is None or beyond(head, [found]) == []


def test_names_that_are_not_ours_are_passed_over() -> None:
    storage = MemoryStorage()
    for name in ("state/notes.txt", "snapshots/x", "sinks/a/b", "spark/stray", "input/x/chosen"):
        storage.write(name, b"")
    assert evidence(storage) == []


def test_names_are_listed_before_the_head_is_looked_for() -> None:
    """Another driver may take over, and write, at any moment: it must not look like a loss."""

    class Racing(MemoryStorage):
        def list(self, prefix: str = "") -> list[str]:
            found = super().list(prefix)
            if prefix == "spark/":  # the last of them
                lineage, _ = ManifestLog(self, JOB).open_lineage()
                self.write(delta(lineage, 1), b"")
            return found

    storage = Racing()
    head = read_head(storage, ManifestLog(storage, JOB))
    assert head is not None
    assert head.slot == 1
    again = read_head(storage, ManifestLog(storage, JOB))
    assert again is not None
    assert again.slot == 2


def test_a_driver_remembers_its_own_lineage(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / JOB)
    log = ManifestLog(storage, JOB)
    lineage, _ = log.open_lineage()
    assert read_head(storage, log, lineage) == log.head
    shutil.rmtree(tmp_path / JOB)
    with pytest.raises(CorruptFileError, match=rf"there is none, but lineage {lineage} has run the job since"):
        read_head(storage, log, lineage)


# --- jobs


def options(directory: Path, **more: str) -> dict[str, str]:
    return {
        "execution.target": "local",
        "execution.job-id": JOB,
        "execution.checkpointing.dir": str(directory),
        "execution.checkpointing.num-retained": "3",
        "execution.epoch.max-records": "10",
        "execution.epoch.snapshot-interval": "3",
        "state.inline-delta-size": "1 bytes",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 s",
        **more,
    }


def run(directory: Path, **more: str) -> list[int]:
    """Add up numbers, ten in an epoch; how many results there were."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options(directory, **more)))
    recording = Recording()
    numbers = env.from_sequence(1, 60).uid("numbers").map(lambda n: (n % 3, n))
    numbers.key_by(lambda pair: pair[0]).sum(1).uid("sums").sink_to(RecordingSink(recording)).uid("sink")
    env.execute("sums")
    return [number for _, number in recording.values()]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The directory of a job that was killed in its sixth epoch."""
    with pytest.raises(InjectedFaultError), injected(Fault("manifest.before", skip=5)):
        run(tmp_path, **{"restart-strategy.type": "none"})
    return tmp_path / JOB


def manifests(job: Path) -> Iterator[Path]:
    return iter(sorted((job / "manifests").iterdir()))


def remove_all(job: Path) -> None:
    shutil.rmtree(job / "manifests")


def remove_epochs(job: Path) -> None:
    for path in [*manifests(job)][1:]:
        path.unlink()


def remove_last_two(job: Path) -> None:
    for path in [*manifests(job)][-2:]:
        path.unlink()


def test_a_killed_job_resumes(job: Path) -> None:
    assert [*(job / "state").rglob("000000000006-*")], "files of an epoch that did not count"
    assert len(run(job.parent)) == 20  # the last epoch's results are committed again


@pytest.mark.parametrize(
    ("remove", "last"),
    [(remove_all, "there is none"), (remove_epochs, "of epoch 0"), (remove_last_two, "of epoch 3")],
)
def test_a_job_whose_manifests_are_lost_does_not_start(job: Path, remove: Callable[[Path], None], last: str) -> None:
    remove(job)
    before = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}
    with pytest.raises(CorruptFileError, match=f"{last}.* more files.*execution.resume-mode: none") as raised:
        run(job.parent)
    assert exit_code_of(raised.value) is ExitCode.UNFIT
    assert {path: path.read_bytes() for path in job.rglob("*") if path.is_file()} == before, "it is all still there"
    # Nor does another job start from there, unless an epoch is named.
    with pytest.raises(CorruptFileError, match="manifests"):
        open_state(str(job))
    if remove is remove_last_two:
        assert open_state(f"{job}/chk-3").manifest.epoch == 3


@pytest.mark.parametrize("remove", [remove_all, remove_epochs, remove_last_two])
def test_it_starts_again_when_that_is_configured(job: Path, remove: Callable[[Path], None]) -> None:
    remove(job)
    assert len(run(job.parent, **{"execution.resume-mode": "none"})) == 60
    assert not beyond(ManifestLog(LocalStorage(job), JOB).read_head(), evidence(LocalStorage(job)))
    run(job.parent)  # it has finished, and a start finds that out


def test_an_attempt_of_the_same_driver_finds_out_as_well(tmp_path: Path) -> None:
    """A driver that loses its directory does not begin again by its restart strategy."""
    failures: list[tuple[int, int]] = []

    def fail(pair: tuple[int, int]) -> tuple[int, int]:
        if pair[1] == 35 and not failures:
            failures.append(pair)
            shutil.rmtree(tmp_path / JOB)
            raise ValueError("the disk is gone")
        return pair

    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options(tmp_path)))
    env.from_sequence(1, 60).uid("numbers").map(lambda n: (n % 3, n)).map(fail).sink_to(RecordingSink(Recording()))
    with pytest.raises(CorruptFileError, match="there is none, but lineage 000000000001-"):
        env.execute("emptied")


def test_discarding_deletes_what_lost_lineages_left_and_nothing_of_a_successor() -> None:
    class Racing(MemoryStorage):
        raced = ""

        def delete(self, names: object) -> None:
            if not self.raced:
                self.raced, _ = ManifestLog(self, JOB).open_lineage()
                self.write(delta(self.raced, 1), b"")
            super().delete(names)  # type: ignore[arg-type]

    storage = Racing()
    for name in (delta(SECOND, 3), snapshot(THIRD, 2), f"{spark_location(SECOND)}/metadata"):
        storage.write(name, b"")
    with pytest.raises(TidemillError, match="took over"):
        discard_job(storage, JOB)
    assert storage.list() == [manifest_name(1), manifest_name(2), delta(storage.raced, 1)]


# --- crashes around the first manifest are none


@pytest.mark.parametrize("point", ["lineage.before", "lineage.after", "state.loaded", "delta.after", "manifest.before"])
def test_a_crash_in_the_first_epoch_is_no_loss(point: str) -> None:
    def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
        return words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).uid("count")

    job = JobHarness(count, inputs=["words"], configuration={"state.inline-delta-size": "1 bytes"})
    with job:
        for _ in range(3):
            try:
                with injected(Fault(point)):
                    job.restart(crashed=True)
                    job.epoch(words=["a"])
            except InjectedFaultError:
                continue
        job.restart(crashed=True)
        job.epoch(words=["a"])
        assert job.output()[-1][0] == "a"


# --- other damaged heads that another start cannot mend


def test_a_head_of_a_newer_format_is_not_tried_again(job: Path) -> None:
    head = [*manifests(job)][-1]
    data = bytearray(head.read_bytes())
    data[8] = 99
    data[-32:] = hashlib.sha256(data[:-32]).digest()
    head.write_bytes(data)
    with pytest.raises(NewerFormatError, match="format version 99") as raised:
        run(job.parent)
    assert exit_code_of(raised.value) is ExitCode.UNFIT


def test_a_directory_in_the_place_of_a_head_is_not_tried_again(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    (tmp_path / manifest_name(1)).mkdir(parents=True)
    with pytest.raises(CorruptFileError, match="a directory is in its place"):
        ManifestLog(storage, JOB).open_lineage()
