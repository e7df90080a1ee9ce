"""What a savepoint is on disk: whole or not there, checked byte by byte, movable, and removed only if it is one."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidemill.checkpoint import portable
from tidemill.checkpoint.frame import pack
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.manifest import encode_manifest
from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.checkpoint.portable import PortableFile, PortableState
from tidemill.checkpoint.restore import committed_pieces
from tidemill.checkpoint.savepoint import (
    MAGIC,
    METADATA,
    UNFINISHED,
    SavepointFiles,
    dispose_savepoint,
    encode_metadata,
    open_state,
    read_savepoint,
)
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, storage_for
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import CheckpointError, CorruptFileError, TidemillError
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.testing import JobHarness

#: No delta is small enough to stay in a manifest.
FILES = {"state.inline-delta-size": "0b"}


def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    return words.map(lambda word: (word, 1)).key_by(0).sum(1).uid("count")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[JobHarness]:
    """A job of three epochs whose state is in files."""
    storage = LocalStorage(tmp_path / "job", durable=False)
    with JobHarness(count, inputs=["words"], configuration=FILES, storage=storage) as harness:
        for words in (["a", "b"], ["b", "c"], ["a"]):
            harness.epoch(words=words)
        yield harness


def started(job: JobHarness, path: str, **options: str) -> dict[str, int]:
    """The counts that a new job has which starts at ``path``."""
    options = {"execution.state-recovery.allow-pickle": "true", **options}  # output of the last epoch may be pending
    configuration = {"execution.state-recovery.path": path, **options}
    with JobHarness(count, inputs=job.inputs, configuration=configuration) as other:
        return {word: n for word, (_, n) in other.state("count", "_reduce_state").items()}


COUNTS = {"a": 2, "b": 2, "c": 1}


def test_a_savepoint_is_a_directory_with_files_and_metadata(job: JobHarness, tmp_path: Path) -> None:
    path = Path(job.savepoint(tmp_path))
    assert path.parent == tmp_path
    assert path.name.startswith("savepoint-job-ha-")
    names = storage_for(str(path)).list()
    assert METADATA in names
    assert UNFINISHED not in names
    assert sum(name.endswith(".tms") for name in names) >= 3
    state = read_savepoint(storage_for(str(path)), "here")
    assert {file.name for file in state.files} == set(names) - {METADATA}
    assert (state.manifest.epoch, state.manifest.job_id) == (3, "job-harness")
    assert state.manifest.operators["count"]["keyed"]


@pytest.mark.parametrize("inline", [True, False])
def test_it_can_be_moved_and_its_job_be_gone(job: JobHarness, tmp_path: Path, inline: bool) -> None:
    job.restart(configuration={"state.inline-delta-size": "64kb" if inline else "0b"})
    job.epoch(words=["d"])
    path = job.savepoint(tmp_path / "saved")
    shutil.copytree(path, tmp_path / "elsewhere" / "moved")
    shutil.rmtree(tmp_path / "saved")
    shutil.rmtree(tmp_path / "job")
    assert started(job, str(tmp_path / "elsewhere" / "moved")) == {**COUNTS, "d": 1}
    assert started(job, f"file://{tmp_path}/elsewhere/moved/_metadata") == {**COUNTS, "d": 1}


def test_a_job_that_never_ran_an_epoch_has_a_savepoint_too(tmp_path: Path) -> None:
    with JobHarness(count, inputs=["words"]) as job:
        path = job.savepoint(tmp_path)
        job.epoch(words=["a"])
        assert started(job, path) == {}


def test_a_job_starts_from_another_jobs_directory_or_one_of_its_epochs(job: JobHarness, tmp_path: Path) -> None:
    directory = str(tmp_path / "job")
    before = {path: path.read_bytes() for path in (tmp_path / "job").rglob("*") if path.is_file()}
    assert started(job, directory) == COUNTS
    assert started(job, f"{directory}/chk-3") == COUNTS
    assert started(job, f"{directory}/chk-2/", **{"execution.state-recovery.claim-mode": "CLAIM"}) == {
        "a": 1,
        "b": 2,
        "c": 1,
    }
    assert before == {path: path.read_bytes() for path in (tmp_path / "job").rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match="epoch 7 of job job-harness is not retained; the last one is 3"):
        open_state(f"{directory}/chk-7")


def test_what_is_neither_savepoint_nor_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere is neither a savepoint nor the directory of a job"):
        open_state(str(tmp_path / "nowhere"))
    storage_for(str(tmp_path / "half")).create(UNFINISHED, b"")
    with pytest.raises(CheckpointError, match=r"half is not a savepoint: it was never finished"):
        open_state(str(tmp_path / "half"))
    with pytest.raises(CheckpointError, match=r"there is no _metadata in it"):
        read_savepoint(MemoryStorage(), "memory")


# --- copies


class Bucket(ObjectStorage):
    """Stands for an object store: notes what is written, in which order; the first four writes wait for each other."""

    __slots__ = ("calls", "meeting", "names")

    def __init__(self) -> None:
        super().__init__("s3://bucket/there")
        self.calls = itertools.count()
        self.meeting = threading.Barrier(4)
        self.names: list[str] = []

    def write(self, name: str, data: bytes) -> None:
        if name == "snapshots/bad.tms":
            raise CheckpointError("no more")
        if next(self.calls) < 4:
            self.meeting.wait(60)
        time.sleep(0.002)
        self.names.append(name)


def portable_files(*names: str) -> PortableState:
    files = tuple(PortableFile(name, data=name.encode()) for name in names)
    return PortableState("here", MemoryStorage(), Manifest("epoch", "job", Lineage("l"), Slot(1), Epoch(1)), files)


def test_several_files_are_on_their_way_to_an_object_store_and_what_makes_others_count_comes_last() -> None:
    names = ["input/a/1", "input/a/chosen", *(f"snapshots/{number}.tms" for number in range(20))]
    bucket = Bucket()
    copied = portable_files(*names).copy_into(bucket)
    assert bucket.names[-1] == "input/a/chosen"
    assert sorted(bucket.names) == sorted(file.name for file in copied) == sorted(names)
    assert {file.length for file in copied if file.name == "input/a/1"} == {9}


def test_a_copy_that_fails_ends_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"snapshots/{number:03}.tms" for number in range(200)]
    over = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            over.set()
            super().shutdown(wait, cancel_futures=cancel_futures)

    class SlowBucket(Bucket):
        """Takes the later ones when the failure has been seen, however long that takes."""

        def write(self, name: str, data: bytes) -> None:
            if name in names[20:]:
                assert over.wait(60)
            super().write(name, data)

    monkeypatch.setattr(portable, "ThreadPoolExecutor", Pool)
    bucket = SlowBucket()
    with pytest.raises(CheckpointError, match="no more"):
        portable_files(*names[:8], "snapshots/bad.tms", *names[8:], "input/a/chosen").copy_into(bucket)
    assert len(bucket.names) < 200
    assert "input/a/chosen" not in bucket.names


# --- damage


def test_every_damaged_byte_of_the_metadata_is_found(job: JobHarness, tmp_path: Path) -> None:
    path = Path(job.savepoint(tmp_path)) / METADATA
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(CheckpointError):
            open_state(str(path.parent))
    for length in (0, 8, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFileError, match="_metadata is corrupt"):
            open_state(str(path.parent))


@pytest.mark.parametrize("harm", ["flipped", "truncated", "longer", "missing", "swapped"])
def test_a_damaged_file_is_found_before_the_job_has_a_lineage(job: JobHarness, tmp_path: Path, harm: str) -> None:
    path = Path(job.savepoint(tmp_path / "saved"))
    first, second = sorted(path.rglob("*.tms"))[:2]
    data = first.read_bytes()
    if harm == "missing":
        first.unlink()
    elif harm == "swapped":
        first.write_bytes(second.read_bytes())
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 64]) + data[middle + 1 :]
        first.write_bytes({"flipped": flipped, "truncated": data[:-1], "longer": data + b"x"}[harm])
    storage = MemoryStorage()
    with pytest.raises(CorruptFileError, match=first.name):
        JobHarness(
            count,
            inputs=job.inputs,
            storage=storage,
            configuration={"execution.state-recovery.path": str(path)},
        )
    assert ManifestLog(storage, "job-harness").last_slot() is None


def test_metadata_cannot_name_what_is_outside_or_leave_state_out() -> None:
    manifest = Manifest("epoch", "job", Lineage("000000000000-ab"), Slot(0), Epoch(3))

    def refuses(files: tuple[PortableFile, ...] = (), manifest: Manifest = manifest) -> None:
        storage = MemoryStorage()
        storage.create(METADATA, encode_metadata(manifest, files, 0))
        with pytest.raises(CorruptFileError):
            read_savepoint(storage, "it")

    for name in ("../etc/passwd", "/etc/passwd", "manifests/1.tm", "_metadata", "snapshots/../x", ""):
        refuses((PortableFile(name, 1, "0" * 64),))
    refuses((PortableFile("snapshots/x", -1, "0" * 64),))
    refuses((PortableFile("snapshots/x", 1, "no checksum"),))
    with JobHarness(count, inputs=["words"]) as job:
        job.epoch(words=["a"])
        refuses(manifest=job.head)


def test_a_newer_format_is_distinguished_from_a_damaged_file(tmp_path: Path) -> None:
    manifest = encode_manifest(Manifest("epoch", "job", Lineage("000000000000-ab"), Slot(0), Epoch(3)))
    storage_for(str(tmp_path)).create(METADATA, pack(MAGIC, 2, {"files": [], "created": 0, "new": 1}, [manifest]))
    with pytest.raises(CheckpointError, match="format version 2; this version of Tidemill reads up to 1"):
        open_state(str(tmp_path))


# --- failures while it is written


@pytest.mark.parametrize("point", ["savepoint.begun", "savepoint.copied"])
def test_what_fails_leaves_nothing_behind_and_the_job_running(job: JobHarness, tmp_path: Path, point: str) -> None:
    with injected(Fault(point)), pytest.raises(InjectedFaultError):
        job.savepoint(tmp_path / "saved")
    assert list((tmp_path / "saved").iterdir()) == []
    job.epoch(words=["a"])
    assert started(job, job.savepoint(tmp_path / "saved")) == {**COUNTS, "a": 3}


def test_a_file_of_the_job_that_is_damaged_is_not_copied(job: JobHarness, tmp_path: Path) -> None:
    piece = next((tmp_path / "job" / "state").rglob("*.tms"))
    piece.write_bytes(piece.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptFileError, match=f"{piece.name} of epoch 3 of job job-harness is corrupt"):
        job.savepoint(tmp_path / "saved")
    assert list((tmp_path / "saved").iterdir()) == []


def test_a_place_that_cannot_be_written(job: JobHarness, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", Path("/proc/savepoints")):
        with pytest.raises(CheckpointError):
            job.savepoint(place)
    with pytest.raises(TidemillError, match="nope"):
        job.savepoint("nope://bucket/saved")
    job.epoch(words=["a"])


class FullDisk(LocalStorage):
    """A disk on which nothing can be changed any more after so many changes."""

    changes_left = 0

    def _change(self, name: str) -> None:
        FullDisk.changes_left -= 1
        if FullDisk.changes_left < 0:
            raise CheckpointError(f"cannot write {name}: No space left on device")

    def create(self, name: str, data: bytes) -> None:
        self._change(name)
        super().create(name, data)

    def write(self, name: str, data: bytes) -> None:
        self._change(name)
        super().write(name, data)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._change(name)
            super().delete([name])


def whole_or_nothing(path: Path) -> bool:
    """Whether there is a savepoint; if so all of it must be there, if not it must be removable."""
    try:
        state = open_state(str(path))
    except CheckpointError:
        dispose_savepoint(str(path))
        assert not path.exists()
        return False
    state.copy_into(MemoryStorage())
    return True


def test_a_disk_that_is_full_at_any_moment(job: JobHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.checkpoint.savepoint.storage_for", lambda path, **_: FullDisk(path, durable=False))
    outcomes: list[str] = []
    while outcomes[-2:] != ["saved", "saved"]:
        FullDisk.changes_left = len(outcomes)
        try:
            job.savepoint(tmp_path / "saved")
        except CheckpointError as error:
            outcomes.append(str(error).rpartition(": ")[2])
        else:
            outcomes.append("saved")
        FullDisk.changes_left = 1000
        for path in (tmp_path / "saved").glob("*"):
            if whole_or_nothing(path):
                assert outcomes[-1] == "saved"
                dispose_savepoint(str(path))
    assert outcomes[:-2] == ["No space left on device"] * (len(outcomes) - 2)
    assert len(outcomes) > 8
    job.epoch(words=["a"])


# --- disposing


def test_disposing_removes_the_directory_and_nothing_else(job: JobHarness, tmp_path: Path) -> None:
    one, other = job.savepoint(tmp_path / "saved"), job.savepoint(tmp_path / "saved")
    dispose_savepoint(f"{one}/")
    assert [str(path) for path in (tmp_path / "saved").iterdir()] == [other]
    (Path(other) / "notes.txt").write_text("mine")
    dispose_savepoint(other)
    assert [path.name for path in Path(other).rglob("*")] == ["notes.txt"]
    with pytest.raises(CheckpointError, match="is not a savepoint: nothing was deleted"):
        dispose_savepoint(other)


def test_a_savepoint_that_is_removed_in_part_is_none(
    job: JobHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = job.savepoint(tmp_path / "saved")
    monkeypatch.setattr("tidemill.checkpoint.savepoint.storage_for", lambda path, **_: FullDisk(path, durable=False))
    kept = []
    for changes in range(12):
        path = tmp_path / str(changes)
        shutil.copytree(saved, path)
        FullDisk.changes_left = changes
        with contextlib.suppress(CheckpointError):
            dispose_savepoint(str(path))
        FullDisk.changes_left = 1000
        if path.exists() and whole_or_nothing(path):
            kept.append(changes)
    assert kept == [0, 1]


def test_a_job_is_no_savepoint_and_a_forged_one_neither(job: JobHarness, tmp_path: Path) -> None:
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged" / METADATA).write_text("hello")
    for place in ("job", "forged", "nowhere"):
        with pytest.raises(CheckpointError, match="nothing was deleted"):
            dispose_savepoint(str(tmp_path / place))
    assert committed_pieces(job.storage, ManifestLog(job.storage, "job-harness"), job.head)


def test_what_a_killed_driver_left_can_be_removed(job: JobHarness, tmp_path: Path) -> None:
    path = Path(job.savepoint(tmp_path / "saved"))
    writer = SavepointFiles(str(tmp_path / "saved"), "job")
    shutil.copytree(path / "snapshots", Path(writer.path) / "snapshots")
    (Path(writer.path) / ".tmp" / "part").write_text("half a file")
    dispose_savepoint(writer.path)
    assert list((tmp_path / "saved").iterdir()) == [path]
    # A savepoint of which the metadata is gone already, too: it was being removed.
    storage_for(str(path)).create(UNFINISHED, b"")
    (path / METADATA).unlink()
    dispose_savepoint(str(path))
    assert list((tmp_path / "saved").iterdir()) == []
