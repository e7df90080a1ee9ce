"""Materialised input in a storage that is no directory: written in parts, read by ranges, and only what counts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.checkpoint.frame import pack
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.checkpoint.names import input_name, input_prefix
from tidemill.checkpoint.portable import portable
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, Storage
from tidemill.common import TimestampAssigner, Types, WatermarkStrategy
from tidemill.connectors.sources import Split
from tidemill.errors import CheckpointError, CorruptFileError
from tidemill.runtime.stored_input.input_index import INDEX, MAGIC, VERSION, InputPart, names_in, parts_of, write_index
from tidemill.runtime.stored_input.parquet_source import ParquetSource, materialise, remove_input
from tidemill.runtime.stored_input.write_input import write_part
from tidemill.spark.bounded.object_input import InputWriter

FOLDER = f"{input_prefix('rows')}token/"
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


class Watched(MemoryStorage):
    """Remembers the requested ranges, and fails when a test wants it to."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[int] = []
        self.failure: Exception | None = None

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        if self.failure is not None:
            raise self.failure
        self.ranges.append(length)
        return super().read_range(name, offset, length)


def batch(numbers: Iterable[int], width: int = 10) -> pa.RecordBatch:
    listed = list(numbers)
    # Texts that no compression makes small: the size says what is read.
    texts = [f"{(n + 1) * 0x9E3779B97F4A7C15 % (1 << 64):0{width}}" for n in listed]
    return pa.RecordBatch.from_arrays([pa.array(listed, pa.int64()), pa.array(texts)], schema=SCHEMA)


def stored(storage: Storage, *parts: Iterable[int], row_group: int = 1_000, size: int = 4_000) -> list[InputPart]:
    """Each part is written by a task, in batches of 100 rows; the index names all."""
    written = [
        write_part(
            storage,
            FOLDER,
            f"part-{number}",
            (batch(list(numbers)[start : start + 100]) for start in range(0, len(list(numbers)), 100)),
            row_group_bytes=row_group,
            object_bytes=size,
        )
        for number, numbers in enumerate(parts)
    ]
    write_index(storage, FOLDER, written)
    return written


def source(storage: Storage, **more: Any) -> ParquetSource:
    return ParquetSource(storage, FOLDER, Types.TUPLE([Types.LONG(), Types.STRING()]), **more)


def splits(source: ParquetSource, parallelism: int = 2, max_records: int = 10**9) -> list[Split]:
    dealt = source.create_enumerator(None).next_splits(parallelism, max_records)
    return [split for some in dealt for split in ([some] if isinstance(some, Split) else some)]


def numbers(source: ParquetSource, read: Iterable[Split]) -> list[int]:
    return [n for split in read for rows in source.read(split) for n in rows.column("n").to_pylist()]


def test_a_part_becomes_objects_of_row_groups_of_about_the_requested_sizes() -> None:
    storage = MemoryStorage()
    (part,) = stored(storage, range(1000))
    rows = [count for file in part.files for count in file.rows]
    assert sum(rows) == 1000
    assert set(rows) == {25}, "a row has some 30 bytes, and a row group at most 1000"
    assert len(part.files) > 3
    assert all(file.size >= 4_000 for file in part.files[:-1])
    assert len({len(file.rows) for file in part.files[:-1]}) == 1
    assert all(storage.size(f"{FOLDER}{file.name}") == file.size for file in part.files)
    assert numbers(source(storage), splits(source(storage))) == list(range(1000))


def test_nothing_is_written_of_no_rows_and_a_row_that_is_too_large_has_a_row_group_of_its_own() -> None:
    storage = MemoryStorage()
    assert write_part(storage, FOLDER, "none", [batch([]), batch([])]).files == ()
    assert storage.list() == []
    large = [batch([]), batch([1, 2], width=5_000), batch([3])]
    (file,) = write_part(storage, FOLDER, "large", large, row_group_bytes=1_000).files
    assert file.rows == (1, 1, 1)


def test_a_worker_reads_the_footer_once_and_each_row_group_by_one_range() -> None:
    storage = Watched()
    (part,) = stored(storage, range(30_000), row_group=100_000, size=1 << 30)
    (file,) = part.files
    assert len(file.rows) > 5
    rows = source(storage)
    (split,) = splits(rows, 1)
    assert storage.ranges == [], "the index tells all that the driver needs"
    mine = Split(split.payload[2:4], 0)
    assert numbers(rows, [mine]) == list(range(sum(file.rows[:2]), sum(file.rows[:4])))
    footer, *groups = storage.ranges
    assert footer <= 64 << 10
    assert len(groups) == 2
    assert sum(groups) < file.size / len(file.rows) * 2.5


def test_what_a_lost_attempt_of_a_task_has_stored_does_not_count() -> None:
    storage = MemoryStorage()
    parts = stored(storage, range(100), range(100, 200))
    write_part(storage, FOLDER, "part-1-again", [batch(range(100, 200))])
    assert sorted(numbers(source(storage), splits(source(storage)))) == list(range(200))
    assert names_in(storage, FOLDER) < set(storage.list())
    assert parts_of(storage, FOLDER) == parts


def test_the_objects_of_a_part_are_one_partition_with_one_event_time() -> None:
    storage = MemoryStorage()
    parts = stored(storage, range(300), range(300, 600))
    assert all(len(part.files) > 1 for part in parts)
    timed = source(storage, has_time=True)
    enumerator = timed.create_enumerator(None)
    seen, last = [], []
    while not enumerator.finished:
        for share in enumerator.next_splits(1, 100):
            for split in [share] if isinstance(share, Split) else share:
                seen.append(split.partition)
                last += [split.partition] if split.last else []
    assert set(seen) == {"part-0", "part-1", "unread"}
    assert last.count("part-0") == 1
    assert timed.create_enumerator(enumerator.position()).finished


@pytest.mark.parametrize(("width", "told"), [(10, True), (10_000, False)])
def test_how_row_groups_begin_is_in_the_footer_unless_that_is_long(width: int, told: bool) -> None:
    storage = Watched()
    batches = [batch(range(start, start + 50), width) for start in range(0, 1_000, 50)]
    late, early = batches[10:], batches[:10]
    parts = [
        write_part(storage, FOLDER, name, some, row_group_bytes=50 * width)
        for name, some in (("late", late), ("early", early))
    ]
    write_index(storage, FOLDER, parts)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
    enumerator = source(storage, has_time=True, strategy=strategy).create_enumerator(None)
    dealt = [split for _ in range(3) for share in enumerator.next_splits(1, 100) for split in share]  # type: ignore[union-attr]
    assert [split.partition for split in dealt if split.payload] == ["early"] * 3
    assert [split.watermark for split in dealt if split.partition == "unread"] == [499] * 3
    assert (len(storage.ranges) == 2) == told, "one look is enough for a file"


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def test_what_a_task_sends_on_is_named_by_its_partition_and_never_twice_by_one_name() -> None:
    storage = MemoryStorage()
    sent = pa.schema([("n", pa.int64()), ("text", pa.large_string())])
    columns = [pa.array([1, 2]), pa.array(["a", "b"], pa.large_string())]
    item = pa.RecordBatch.from_arrays(columns, schema=sent).serialize().to_pybytes()
    write = InputWriter(storage, FOLDER, sent, SCHEMA)
    ((first, one),) = write(3, [b"", item])
    ((second, two),) = write(3, [item])
    assert (first, second) == (3, 3)
    assert one.name != two.name
    assert list(write(4, [])) == []
    write_index(storage, FOLDER, [two])
    (rows,) = (rows for split in splits(source(storage)) for rows in source(storage).read(split))
    assert rows.schema == SCHEMA, "the types are the frame's, in whatever form Spark sends them"


def test_the_words_of_the_storage_come_through_if_it_fails() -> None:
    storage = Watched()
    stored(storage, range(100))
    read = splits(source(storage))
    storage.failure = CheckpointError("cannot read it: the store refused access")
    with pytest.raises(CheckpointError, match="the store refused access"):
        numbers(source(storage), read)


def test_a_damaged_index_is_reported_and_never_read_as_less_input() -> None:
    storage = MemoryStorage()
    stored(storage, range(100))
    name = f"{FOLDER}{INDEX}"
    good = storage.read(name)
    storage.write(name, good[:-40] + b"?" + good[-39:])
    with pytest.raises(CorruptFileError, match="corrupt"):
        parts_of(storage, FOLDER)


@pytest.mark.parametrize("wrong", [["../../x", 1, [2]], ["x", -1, [2]], ["x", 1, ["2"]], ["x", 1]])
def test_an_index_that_names_what_it_must_not_is_refused(wrong: list[Any]) -> None:
    storage = MemoryStorage()
    storage.write(f"{FOLDER}{INDEX}", pack(MAGIC, VERSION, {"parts": [["part", [wrong]]]}, ()))
    with pytest.raises(CorruptFileError):
        parts_of(storage, FOLDER)


def test_savepoints_carry_input_from_a_store_to_a_directory_and_back(tmp_path: Path) -> None:
    store, directory, other = MemoryStorage(), LocalStorage(tmp_path / "job"), MemoryStorage()
    stored(store, range(300), range(300, 400))
    store.write(input_name("rows", "chosen"), b"token")
    manifest = Manifest("epoch", "job", Lineage("a"), Slot(8), Epoch(3), sources={"rows": 2})
    for here, there in ((store, directory), (directory, other)):
        portable(here, ManifestLog(here, "job"), manifest, "beef", "the savepoint").copy_into(there)
        assert sorted(numbers(source(there), splits(source(there)))) == list(range(400))
        assert there.read(input_name("rows", "chosen")) == b"token"


def test_files_of_spark_are_read_in_a_store_too_by_their_names() -> None:
    storage = Watched()
    for name, values in (("part-00001-a.parquet", range(50, 90)), ("part-00000-a.parquet", range(50))):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([batch(values)]), sink, row_group_size=20)
        storage.write(f"{FOLDER}{name}", sink.getvalue().to_pybytes())
    storage.write(f"{FOLDER}_SUCCESS", b"")
    assert [(part.name, part.files[0].rows) for part in parts_of(storage, FOLDER)] == [
        ("part-00000-a.parquet", (20, 20, 10)),
        ("part-00001-a.parquet", (20, 20)),
    ]
    assert numbers(source(storage), splits(source(storage))) == list(range(90))


def test_input_that_is_gone_is_reported_and_never_taken_for_no_rows() -> None:
    storage = MemoryStorage()
    with pytest.raises(CorruptFileError, match=f"{FOLDER} in the job's directory is missing or empty"):
        source(storage).create_enumerator(None)
    write_index(storage, FOLDER, [])
    assert source(storage).create_enumerator(None).finished, "a frame of no rows"


def test_a_driver_that_wakes_up_late_removes_nothing_of_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pausing(MemoryStorage):
        """Another driver discards the job, and begins anew, when the first one has seen that its input counts."""

        created = False
        anew = ""

        def create(self, name: str, data: bytes) -> None:
            super().create(name, data)
            self.created = True

        def read(self, name: str) -> bytes:
            data = super().read(name)
            if self.created and not self.anew and name.endswith("/chosen"):
                self.anew = "soon"
                self.delete(self.list())
                self.anew = materialise(partial(write_one, "anew", self), self, "rows")
            return data

    def write_one(frame: str, storage: Storage, folder: str) -> None:
        write_index(storage, folder, [write_part(storage, folder, frame, [batch([1])])])

    storage = Pausing()
    storage.write(input_name("rows", "lost/part.parquet"), b"of an earlier start")
    materialise(partial(write_one, "late", storage), storage, "rows")
    assert storage.list() == sorted([input_name("rows", "chosen"), *names_in(storage, storage.anew)])


def test_markers_are_removed_before_what_they_stand_for(caplog: pytest.LogCaptureFixture) -> None:
    class Careful(MemoryStorage):
        def delete(self, names: Iterable[str]) -> None:
            listed = list(names)
            assert listed[0].endswith("/chosen")
            super().delete(listed[:1])
            raise CheckpointError("cannot delete: the store does not answer")

    storage = Careful()
    stored(storage, range(10))
    storage.write(input_name("rows", "chosen"), b"token")
    remove_input(storage)
    assert not storage.exists(input_name("rows", "chosen"))
    assert "the store does not answer" in caplog.text
