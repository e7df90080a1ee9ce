"""From a manifest to its pieces: in order, checked, and no more than is needed."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.unit.checkpoint.examples import JOB, ack, piece
from tidemill.checkpoint import restore
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch, Manifest, Piece, RunRef, SectionInfo, Slot
from tidemill.checkpoint.names import manifest_name, snapshot_file_name, snapshot_id, snapshot_index_name
from tidemill.checkpoint.protocol import Publish, apply_compaction, build_manifest
from tidemill.checkpoint.restore import PieceCache, PieceReader, committed_pieces, pieces_for
from tidemill.checkpoint.snapshot_index import SnapshotIndex, encode_snapshot_index, write_snapshot_index
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.errors import CorruptFileError
from tidemill.state.files.state_file import RangeReader, Section, decode_sections, encode_sections
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP, KeyGroup

NO_RUNS: tuple[RunRef, ...] = ()


class CountingStorage(MemoryStorage):
    """Memory storage that remembers what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, name: str) -> bytes:
        self.reads.append(name)
        return super().read(name)


@pytest.fixture
def storage() -> CountingStorage:
    return CountingStorage()


def commit(log: ManifestLog, *pieces: Piece, runs: tuple[RunRef, ...] | None = None) -> Manifest:
    epoch = Epoch(log.head.epoch + 1)
    publish = Publish(epoch, 0, {"count": 1}, (ack("count", 0, epoch=epoch, pieces=pieces),))
    log.publish(build_manifest(log.head, publish, clock=0, runs=runs))
    return log.head


@pytest.fixture
def log(storage: CountingStorage) -> ManifestLog:
    """Three epochs, the first two merged into a snapshot; the third has an inline piece and one in a file."""
    log = ManifestLog(storage, JOB)
    log.open_lineage()
    commit(log, piece(b"one"))
    commit(log)
    commit(log, piece(b"two"))
    snapshot = snapshot_id(log.head.lineage, 3, "a")
    storage.write(snapshot_file_name(snapshot, 0), b"one+two")
    merged = log.head.runs
    file_piece = piece(b"one+two", file=snapshot_file_name(snapshot, 0))
    run = write_snapshot_index(storage, SnapshotIndex(snapshot, Epoch(3), (file_piece,)))
    storage.write("state/x", b"four")
    commit(log, piece(b"three"), piece(b"four", file="state/x"), runs=apply_compaction(merged, merged, run))
    return log


def test_runs_are_loaded_in_order(storage: CountingStorage, log: ManifestLog) -> None:
    runs = committed_pieces(storage, log, log.head)
    assert [run.through for run, _ in runs] == [3, 4]
    loaded = pieces_for(storage, runs, {"count"}, FIRST_GROUP, LAST_GROUP)
    assert [reader.read() for _, reader in loaded] == [b"one+two", b"three", b"four"]
    assert all(reader.piece is part for part, reader in loaded)


def test_a_takeover_alone_is_enough(storage: CountingStorage, log: ManifestLog) -> None:
    before = committed_pieces(storage, log, log.head)
    successor = ManifestLog(storage, JOB)
    successor.open_lineage()
    assert committed_pieces(storage, ManifestLog(storage, JOB), successor.head) == before


def test_a_cache_spares_what_was_read(storage: CountingStorage, log: ManifestLog) -> None:
    cache = PieceCache()
    committed_pieces(storage, log, log.head, cache)
    commit(log, piece(b"five"))
    storage.reads.clear()
    first = committed_pieces(storage, ManifestLog(storage, JOB), log.head, cache)
    assert storage.reads == []  # the head is at hand, the rest is cached
    assert first == committed_pieces(storage, log, log.head)
    small = PieceCache(capacity=1)
    committed_pieces(storage, log, log.head, small)
    assert small.get(manifest_name(log.head.slot)) is not None
    assert small.get(manifest_name(log.head.slot - 1)) is None


def test_only_the_requested_groups_and_operators() -> None:
    def part(operator: str, first: int, last: int) -> Piece:
        return replace(
            piece(operator.encode()), sections=(SectionInfo(operator, "s", KeyGroup(first), KeyGroup(last), 1),)
        )

    parts = [part("a", 0, 63), part("a", 64, 127), part("b", 0, 127), part("a", -1, -1), replace(piece(), sections=())]
    runs = [(RunRef(Epoch(1), slot=Slot(2)), parts)]
    storage = MemoryStorage()

    def chosen(operators: set[str], first: int, last: int) -> list[int]:
        return [
            parts.index(found) for found, _ in pieces_for(storage, runs, operators, KeyGroup(first), KeyGroup(last))
        ]

    assert chosen({"a"}, 0, 127) == [0, 1, 3]
    assert chosen({"a"}, 0, 63) == [0, 3]
    assert chosen({"a"}, 63, 64) == [0, 1, 3]
    assert chosen({"a"}, 100, 100) == [1, 3]
    assert chosen({"a", "b"}, 100, 100) == [1, 2, 3]
    assert chosen({"c"}, 0, 127) == []


def test_missing_and_stale_files_are_noticed(storage: CountingStorage, log: ManifestLog) -> None:
    head = log.head
    snapshot = head.runs[0].snapshot or ""
    name = snapshot_index_name(snapshot)
    good = storage.read(name)
    other = SnapshotIndex(snapshot + "x", Epoch(3), ())
    stale = SnapshotIndex(snapshot, Epoch(2), ())
    for index, message in [(other, "contains the index of snapshot"), (stale, "it is of epoch 2, but .* for epoch 3")]:
        storage.write(name, encode_snapshot_index(index))
        with pytest.raises(CorruptFileError, match=f"{name} is corrupt: .*{message}"):
            committed_pieces(storage, log, head)
    storage.delete([name])
    with pytest.raises(CorruptFileError, match=f"{name} is missing"):
        committed_pieces(storage, log, head)
    storage.write(name, good)
    commit(log)
    storage.delete([manifest_name(head.slot)])
    with pytest.raises(CorruptFileError, match=rf"{manifest_name(head.slot)} is missing, but .* refers to it"):
        committed_pieces(storage, log, log.head)


# --- a part of a large file


def large(storage: MemoryStorage) -> PieceReader:
    """A file of ten blocks: group g of operator a has the rows g * 100 to g * 100 + 99."""
    table = pa.table(
        {"key_group": pa.array([row // 100 for row in range(10_000)], pa.uint16()), "value": list(range(10_000))}
    )
    data, index = encode_sections([Section("a", "sum", "value", {}, table)], block_bytes=10_000)
    storage.write("state/large", data)
    infos = tuple(SectionInfo(e.operator, e.state, e.first_group, e.last_group, e.rows) for e in index)
    digest = hashlib.sha256(data).hexdigest()
    return PieceReader(storage, Piece(0, "a", len(data), digest, infos, file="state/large"), "manifests/1.tm")


def values(reader: PieceReader, first: int, last: int) -> list[int]:
    groups = KeyGroup(first), KeyGroup(last)
    data = reader.for_groups({"a": groups})
    return [
        value
        for part in decode_sections(data, "state/large", {"a"}, *groups)
        for value in part.table["value"].to_pylist()
    ]


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "_READ_WHOLE", 1000)


@pytest.mark.usefixtures("ranges")
def test_a_part_of_a_large_file_is_read_by_ranges(storage: CountingStorage) -> None:
    reader = large(storage)
    assert isinstance(reader.for_groups({"a": (KeyGroup(10), KeyGroup(19))}), RangeReader)
    assert values(reader, 10, 19) == list(range(1000, 2000))
    assert values(reader, 99, 200) == list(range(9900, 10_000))
    assert values(reader, 0, 99) == list(range(10_000))


@pytest.mark.usefixtures("ranges")
def test_what_is_needed_as_a_whole_is_checked_as_a_whole(storage: CountingStorage) -> None:
    reader = large(storage)
    assert isinstance(reader.for_groups({"a": (KeyGroup(0), KeyGroup(127))}), bytes)
    changed = bytearray(storage.read("state/large"))
    changed[200] ^= 1
    storage.write("state/large", bytes(changed))
    with pytest.raises(CorruptFileError, match="do not match their SHA-256"):
        reader.for_groups({"a": (KeyGroup(0), KeyGroup(127))})
    with pytest.raises(CorruptFileError, match="block at offset 16 does not match its checksum"):
        values(reader, 0, 5)
    assert values(reader, 50, 50) == list(range(5000, 5100)), "a damaged block is no concern of those who need others"


@pytest.mark.usefixtures("ranges")
def test_a_large_file_of_another_length_or_none_at_all(storage: CountingStorage) -> None:
    reader = large(storage)
    good = storage.read("state/large")
    for wrong in (good[:-1], good + b"x"):
        storage.write("state/large", wrong)
        with pytest.raises(CorruptFileError, match=rf"state/large \(named by manifests/1.tm\) .* not {len(good)}"):
            reader.for_groups({"a": (KeyGroup(3), KeyGroup(4))})
    storage.write("state/large", good)
    data = reader.for_groups({"a": (KeyGroup(3), KeyGroup(4))})
    storage.delete(["state/large"])
    with pytest.raises(CorruptFileError, match=r"state/large is missing, but manifests/1\.tm refers to it"):
        list(decode_sections(data, "state/large"))
    with pytest.raises(CorruptFileError, match="is missing"):
        reader.for_groups({"a": (KeyGroup(3), KeyGroup(4))})


def test_a_new_job_has_no_state(storage: CountingStorage) -> None:
    log = ManifestLog(storage, JOB)
    log.open_lineage()
    assert committed_pieces(storage, log, log.head) == []
