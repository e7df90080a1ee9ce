"""Every kind of file a job leaves on disk, damaged in every way: noticed, named, never loaded; an older one starts."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidemill.checkpoint import restore
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.manifest import read_piece
from tidemill.checkpoint.model import Manifest, Piece
from tidemill.checkpoint.names import manifest_name, parse_manifest, parse_snapshot, snapshot_index_name
from tidemill.checkpoint.restore import PieceReader, committed_pieces, run_name
from tidemill.checkpoint.savepoint import METADATA, read_savepoint
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage
from tidemill.common.configuration import Configuration
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import CheckpointError, CorruptFileError, TidemillError
from tidemill.state.files.state_file import decode_sections
from tidemill.state.keys.key_groups import KeyGroup
from tidemill.testing import JobHarness
from tidemill.testing.recording_sink import Recording, RecordingSink

JOB = "damaged"
WORDS = [f"word {number % 7}" for number in range(60)]
#: The kinds of files, in the words of their names.
KINDS = ("takeover", "manifest", "delta", "index", "snapshot")


def run_job(directory: Path, job_id: str = JOB, start_from: str | None = None) -> list[tuple[str, int]]:
    """Count words, ten in each epoch, with all state in files, merged every three epochs; what it puts out."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.job-id": job_id,
        "execution.checkpointing.dir": str(directory),
        "execution.checkpointing.num-retained": "3",
        "execution.epoch.max-records": "10",
        "execution.epoch.snapshot-interval": "3",
        "state.inline-delta-size": "1 bytes",
        "parallelism.default": "2",
        "pipeline.max-parallelism": "8",
        "restart-strategy.type": "none",
    }.items():
        configuration.set_string(key, value)
    if start_from is not None:
        configuration.set_string("execution.state-recovery.path", start_from)
        configuration.set_string("execution.state-recovery.allow-pickle", "true")  # what the recording has yet to get
    recording = Recording()
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    words = env.from_collection(WORDS).uid("words")
    counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).uid("count")
    counts.sink_to(RecordingSink(recording)).uid("sink")
    env.execute("counting")
    return recording.values()


def counted(since: int) -> list[tuple[str, int]]:
    """What the job puts out for the words from ``since`` on."""
    return [(word, WORDS[: number + 1].count(word)) for number, word in enumerate(WORDS)][since:]


def copy_of(files: dict[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage()
    storage._files.update(files)
    return storage


@dataclass(frozen=True)
class Job:
    """The files of a job that has run to its end, was started again, and was killed before it ran anything."""

    directory: Path
    files: dict[str, bytes]
    head: Manifest

    def of_kind(self, kind: str) -> list[str]:
        """The names of a kind that some kept manifest needs, oldest first."""
        return [name for name in sorted(self.files) if self.kind(name) == kind]

    def kind(self, name: str) -> str:
        if (slot := parse_manifest(name)) is not None:
            return "takeover" if ManifestLog(copy_of(self.files), JOB).read(slot).kind == "takeover" else "manifest"
        if parse_snapshot(name) is not None:
            return "index" if name.endswith(".tm") else "snapshot"
        return "delta"

    def reader(self, name: str) -> Callable[[MemoryStorage], object]:
        """What reads this one file, as a restore does."""
        if (slot := parse_manifest(name)) is not None:
            return lambda storage: ManifestLog(storage, JOB).read(slot)
        if name.endswith(".tm"):
            return lambda storage: read_snapshot_index(storage, parse_snapshot(name) or "")
        piece, by = self.pieces()[name]
        return lambda storage: read_piece(storage, piece, by)

    def pieces(self) -> dict[str, tuple[Piece, str]]:
        """All pieces that have a file, with who names them."""
        storage, found = copy_of(self.files), {}
        log = ManifestLog(storage, JOB)
        for slot in filter(None, map(parse_manifest, self.files)):
            manifest = log.read(slot)
            found.update({piece.file: (piece, manifest_name(slot)) for piece in manifest.pieces if piece.file})
        for name in self.files:
            if (snapshot := parse_snapshot(name)) is not None:
                index = read_snapshot_index(storage, snapshot)
                by = snapshot_index_name(snapshot)
                found.update({piece.file: (piece, by) for piece in index.pieces if piece.file})
        return found


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    directory = tmp_path_factory.mktemp("job")
    run_job(directory)
    storage = LocalStorage(directory / JOB, durable=False)
    log = ManifestLog(storage, JOB)
    log.open_lineage()
    pieces = {piece.file for _, found in committed_pieces(storage, log, log.head) for piece in found}
    assert all(pieces), "all state is in files"
    return Job(directory, {name: storage.read(name) for name in storage.list()}, log.head)


def load(storage: MemoryStorage, manifest: Manifest) -> list[bytes]:
    """All state at a manifest, as a restore reads it."""
    log = ManifestLog(storage, JOB)
    runs = committed_pieces(storage, log, manifest)
    return [read_piece(storage, piece, run_name(run)) for run, pieces in runs for piece in pieces]


def lengths(size: int) -> Iterator[int]:
    """Where a file may be torn: nothing left, inside the magic, the prefix, the header, in the middle, at the end."""
    yield from sorted({0, 1, 7, 8, 20, 24, 25, size // 2, size - 33, size - 32, size - 8, size - 1} & {*range(size)})


@pytest.mark.parametrize("kind", KINDS)
class TestEachKindOfFile:
    def test_there_is_one_that_can_be_read(self, job: Job, kind: str) -> None:
        assert job.of_kind(kind)
        for name in job.of_kind(kind):
            job.reader(name)(copy_of(job.files))

    def test_a_torn_one_is_named(self, job: Job, kind: str) -> None:
        for name in job.of_kind(kind):
            read = job.reader(name)
            for length in lengths(len(job.files[name])):
                with pytest.raises(CorruptFileError, match=name):
                    read(copy_of({**job.files, name: job.files[name][:length]}))

    def test_one_with_something_behind_its_end_is_named(self, job: Job, kind: str) -> None:
        for name in job.of_kind(kind):
            with pytest.raises(CorruptFileError, match=name):
                job.reader(name)(copy_of({**job.files, name: job.files[name] + b"\0"}))

    def test_any_flipped_bit_is_noticed(self, job: Job, kind: str) -> None:
        dice = random.Random(kind)
        for name in job.of_kind(kind)[-2:]:
            read, data = job.reader(name), job.files[name]
            storage = copy_of(job.files)
            for position in range(len(data)):
                damaged = bytearray(data)
                damaged[position] ^= 1 << dice.randrange(8)
                storage.write(name, bytes(damaged))
                with pytest.raises(CorruptFileError, match=name):
                    read(storage)

    def test_a_missing_one_is_named(self, job: Job, kind: str) -> None:
        for name in job.of_kind(kind):
            storage = copy_of(job.files)
            storage.delete([name])
            with pytest.raises(CheckpointError, match=name):
                job.reader(name)(storage)

    def test_an_older_one_in_its_place_is_not_taken_for_it(self, job: Job, kind: str) -> None:
        names = job.of_kind(kind)
        assert len(names) > 1
        for older, name in itertools.pairwise(names):
            with pytest.raises(CorruptFileError, match=name):
                job.reader(name)(copy_of({**job.files, name: job.files[older]}))


def test_a_restore_reads_nothing_of_a_damaged_file(job: Job) -> None:
    whole = load(copy_of(job.files), job.head)
    needed = {name for name in job.files if job.kind(name) in ("index", "snapshot", "delta", "manifest")}
    noticed = []
    for name in sorted(needed):
        damaged = bytearray(job.files[name])
        damaged[len(damaged) // 2] ^= 16
        try:
            assert load(copy_of({**job.files, name: bytes(damaged)}), job.head) == whole  # it is another epoch's
        except CorruptFileError as error:
            noticed.append(name in str(error))
    assert len(noticed) > 1
    assert all(noticed)


def test_a_part_that_is_read_alone_has_a_checksum_of_its_own(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rescaled subtask reads ranges of a large file: not the whole, whose checksum the manifest has."""
    monkeypatch.setattr(restore, "_READ_WHOLE", 0)
    for kind in ("delta", "snapshot"):
        name = job.of_kind(kind)[-1]
        piece, by = job.pieces()[name]
        first, last = piece.sections[0].first_group, piece.sections[0].last_group
        half: dict[str, tuple[KeyGroup, KeyGroup]] = {
            piece.sections[0].operator: (first, KeyGroup((first + last) // 2))
        }

        def part(
            data: bytes,
            name: str = name,
            piece: Piece = piece,
            by: str = by,
            half: dict[str, tuple[KeyGroup, KeyGroup]] = half,
        ) -> list[str]:
            reader = PieceReader(copy_of({**job.files, name: data}), piece, by)
            (operator, (low, high)) = next(iter(half.items()))
            found = decode_sections(reader.for_groups(half), name, {operator}, low, high)
            return [repr(section) for section in found]

        data = job.files[name]
        whole = part(data)
        noticed = []
        for position in range(0, len(data), 2):
            damaged = bytearray(data)
            damaged[position] ^= 4
            try:
                assert part(bytes(damaged)) == whole  # it is in a part that nobody requested
            except CorruptFileError as error:
                noticed.append(name in str(error))
        assert len(noticed) > len(data) // 8
        assert all(noticed)


class TestStartingFromWhatIsWhole:
    """The job does not start from a damaged head, says where it can, and does so if it is configured."""

    @pytest.fixture
    def damaged(self, job: Job, tmp_path: Path) -> Path:
        """The directory of the same job as it was when its last epoch had been committed."""
        for name, data in job.files.items():
            if job.kind(name) != "takeover" or parse_manifest(name) == 1:
                path = tmp_path / JOB / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        return tmp_path

    @pytest.mark.parametrize("kind", ["manifest", "delta"])
    @pytest.mark.parametrize("how", ["torn", "flipped", "missing"])
    def test_a_damaged_head_stops_the_job_and_the_one_before_starts_it(
        self, job: Job, damaged: Path, kind: str, how: str
    ) -> None:
        name = max(job.of_kind(kind), key=lambda name: name.rpartition("/")[2])
        path = damaged / JOB / name
        if how == "missing":
            path.unlink()
        else:
            data = path.read_bytes()
            path.write_bytes(data[: len(data) // 2] if how == "torn" else bytes([data[0] ^ 1]) + data[1:])
        before = job.head.epoch - 1
        done = 10 * before
        if (kind, how) == ("manifest", "missing"):
            done -= 10  # the one before it is the head, and nobody knows whether its results were committed
        else:
            with pytest.raises(TidemillError, match=name):
                _start_and_load(damaged)
        found = run_job(damaged / "again", "again", f"{damaged / JOB}/chk-{before}")
        assert sorted(found) == sorted(counted(done))


def _start_and_load(directory: Path) -> None:
    storage = LocalStorage(directory / JOB, durable=False)
    log = ManifestLog(storage, JOB)
    head = log.read_head()
    assert head is not None
    for run, pieces in committed_pieces(storage, log, head):
        for piece in pieces:
            read_piece(storage, piece, run_name(run))


class TestSavepoint:
    @pytest.fixture(scope="class")
    @classmethod
    def savepoints(cls, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        """Two savepoints of one job, the older one first."""

        def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
            return words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).uid("count")

        directory = tmp_path_factory.mktemp("savepoints")
        with JobHarness(count, inputs=["words"], configuration={"state.inline-delta-size": "1 bytes"}) as job:
            job.epoch(words=WORDS[:10])
            first = Path(job.savepoint(directory))
            job.epoch(words=WORDS[10:30])
            return first, Path(job.savepoint(directory))

    @pytest.fixture
    def files(self, savepoints: tuple[Path, Path]) -> dict[str, bytes]:
        storage = LocalStorage(savepoints[1], durable=False)
        return {name: storage.read(name) for name in storage.list()}

    def read(self, files: dict[str, bytes]) -> None:
        """All of it, as a job that starts from it does."""
        read_savepoint(copy_of(files), "it").copy_into(MemoryStorage())

    def test_any_flipped_bit_is_noticed(self, files: dict[str, bytes]) -> None:
        self.read(files)
        dice = random.Random(0)
        for name, data in files.items():
            for position in range(0, len(data), 1 if name == METADATA else 7):
                damaged = bytearray(data)
                damaged[position] ^= 1 << dice.randrange(8)
                with pytest.raises(CorruptFileError, match=name):
                    self.read({**files, name: bytes(damaged)})

    def test_a_torn_or_missing_file_is_named(self, files: dict[str, bytes]) -> None:
        for name, data in files.items():
            for length in lengths(len(data)):
                with pytest.raises(CorruptFileError, match=name):
                    self.read({**files, name: data[:length]})
            with pytest.raises(CheckpointError, match=name):
                self.read({other: data for other, data in files.items() if other != name})

    def test_the_metadata_of_an_older_one_does_not_fit(
        self, savepoints: tuple[Path, Path], files: dict[str, bytes]
    ) -> None:
        older = (savepoints[0] / METADATA).read_bytes()
        assert hashlib.sha256(older).digest() != hashlib.sha256(files[METADATA]).digest()
        with pytest.raises(CorruptFileError):
            self.read({**files, METADATA: older})
