"""Spark's checkpoint locations where a job's storage is no directory: what one driver stores, and another finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.checkpoint.names import SPARK, lineage_id, spark_location
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, NotFoundError
from tidemill.errors import CheckpointError
from tidemill.runtime.start.spark_positions import SourceNumbers
from tidemill.spark.locations.job_locations import MirroredLocations, SparkLocations, open_locations
from tidemill.spark.locations.locations import take_over
from tidemill.spark.locations.spark_checksums import checksum_of, checksum_path

FIRST, SECOND, THIRD, LATER = (lineage_id(slot, "abc") for slot in (1, 5, 9, 12))
NUMBERS: SourceNumbers = {"files": [[0, 0, "FileSource"]]}
QUERY = '{"id": "query"}'
CUT = 'v1\n{}\n{"logOffset":0}'


class DiedError(Exception):
    """The process ends at this request."""


class Watched(MemoryStorage):
    """Notes the requests that change something; the ``fatal``-th of all is the last, done or not done."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[str] = []
        self.requests = 0
        self.fatal: int | None = None
        self.done = False
        self.failing: set[str] = set()

    def write(self, name: str, data: bytes) -> None:
        with self._request():
            if name in self.failing:
                raise CheckpointError(f"no way to {name}")
            self.changes.append(f"write {name}")
            super().write(name, data)

    def read(self, name: str) -> bytes:
        with self._request():
            if name in self.failing:
                raise CheckpointError(f"no way to {name}")
            return super().read(name)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._request():
                self.changes.append(f"delete {name}")
                super().delete([name])

    @contextmanager
    def _request(self) -> Iterator[None]:
        self.requests += 1
        dies = self.fatal is not None and self.requests >= self.fatal
        if dies and not self.done:
            raise DiedError
        yield
        if dies:
            raise DiedError


@contextmanager
def process(storage: Watched) -> Iterator[MirroredLocations]:
    """A driver's locations; what it had on its disk is gone with it."""
    locations = MirroredLocations(storage)
    try:
        yield locations
    finally:
        locations.close()


def write(locations: SparkLocations, lineage: str, **files: str) -> None:
    """What Spark writes; ``sources_0_7`` stands for ``sources/0/7``."""
    for name, text in files.items():
        path = locations.directory / spark_location(lineage) / name.replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        checksum_path(path).write_bytes(checksum_of(text.encode()))


def names(storage: MemoryStorage, lineage: str) -> list[str]:
    return [name.removeprefix(f"{spark_location(lineage)}/") for name in storage.list(f"{spark_location(lineage)}/")]


def found(locations: SparkLocations, lineage: str) -> dict[str, str]:
    place = locations.directory / spark_location(lineage)
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(place)): path.read_text() for path in files}


def head(lineage: str, batch: int = 4) -> Manifest:
    spark = {"batch_id": batch, "offsets": f"v1\n{{}}\n{batch}", "lineage": lineage, "sources": NUMBERS}
    return Manifest("epoch", "job", Lineage(lineage), Slot(8), Epoch(3), spark=spark)


def test_where_the_storage_is_a_directory_spark_works_in_it(tmp_path: Path) -> None:
    locations = open_locations(LocalStorage(tmp_path), tmp_path)
    assert locations.directory == tmp_path
    write(locations, FIRST, sources_0_0="began")
    locations.bring(SECOND, head(FIRST))
    locations.keep(FIRST, begun=True)
    locations.forget_superseded()
    locations.close()
    assert found(locations, FIRST)["sources/0/0"] == "began"


def test_elsewhere_it_works_in_a_directory_that_is_gone_with_the_job() -> None:
    locations = open_locations(MemoryStorage(), None)
    assert locations.directory.is_dir()
    locations.close()
    assert not locations.directory.exists()


def test_an_epoch_stores_what_sources_have_logged_since_the_last_one() -> None:
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, metadata="{}", offsets_0="zero", commits_0="zero", sources_0_0="a", sources_1_0="b")
        locations.keep(FIRST, begun=True)
        assert names(storage, FIRST) == ["sources/0/0", "sources/1/0"]
        storage.changes.clear()
        locations.keep(FIRST, begun=True)
        locations.forget_superseded()
        assert storage.changes == [], "a topic logs once"
        write(locations, FIRST, sources_0_1="c")
        locations.keep(FIRST, begun=True)
        assert storage.changes == [f"write {spark_location(FIRST)}/sources/0/1"]
        write(locations, FIRST, sources_0_1="c, and more")
        locations.keep(FIRST, begun=True)
        assert storage.read(f"{spark_location(FIRST)}/sources/0/1") == b"c, and more", "not every source only adds"


def test_a_driver_on_another_host_continues_with_the_logs_of_the_lineage_that_committed() -> None:
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, sources_0_0="a", sources_0_1="b")
        locations.keep(FIRST, begun=True)
    with process(storage) as locations:
        locations.bring(SECOND, head(FIRST))
        positions = take_over(locations.directory, SECOND, head(FIRST), NUMBERS, allow_non_restored=False, sealed=True)
        assert positions is not None
        assert positions["lineage"] == SECOND
        built = found(locations, SECOND)
        assert built.pop("metadata")
        # The committed batch twice: Spark replays it as one of nothing.
        assert built == {
            **dict.fromkeys(["offsets/3", "offsets/4"], "v1\n{}\n4"),
            "sources/0/0": "a",
            "sources/0/1": "b",
        }
        assert names(storage, SECOND) == []
        locations.keep(SECOND, begun=True)
        assert names(storage, SECOND) == ["sources/0/0", "sources/0/1"]


def test_each_attempt_of_a_process_stores_all_that_its_own_lineage_needs() -> None:
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, sources_0_0="a", sources_0_1="b")
        storage.failing = {f"{spark_location(FIRST)}/sources/0/1"}
        with pytest.raises(CheckpointError, match="no way"):
            locations.keep(FIRST, begun=True)
        storage.failing = set()
        locations.keep(FIRST, begun=True)
        assert names(storage, FIRST) == ["sources/0/0", "sources/0/1"], "what failed is done again"
        locations.bring(SECOND, head(FIRST))
        take_over(locations.directory, SECOND, head(FIRST), NUMBERS, allow_non_restored=False, sealed=True)
        locations.keep(SECOND, begun=True)
        assert names(storage, SECOND) == ["sources/0/0", "sources/0/1"]


def test_before_the_first_committed_batch_it_is_stored_where_sources_began_and_how_the_batch_was_cut() -> None:
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, metadata=QUERY, sources_0_0="the end of the topic")
        locations.keep(FIRST, begun=False)  # nothing to read for a long time
        assert names(storage, FIRST) == ["metadata", "sources/0/0"]
        write(locations, FIRST, offsets_0=CUT)
        locations.keep(FIRST, begun=False)
    assert storage.changes == [
        f"write {spark_location(FIRST)}/{name}" for name in ("sources/0/0", "metadata", "offsets/0")
    ]
    with process(storage) as locations:
        locations.bring(SECOND, None)
        assert take_over(locations.directory, SECOND, None, NUMBERS, allow_non_restored=False, sealed=True) is None
        assert found(locations, SECOND) == {
            "metadata": QUERY,
            "offsets/0": CUT,
            "sources/0/0": "the end of the topic",
        }


def test_a_beginning_of_which_only_a_part_was_stored_does_not_count() -> None:
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, metadata=QUERY, offsets_0=CUT, sources_0_0="began")
        locations.keep(FIRST, begun=False)
    with process(storage) as locations:
        locations.bring(SECOND, None)
        take_over(locations.directory, SECOND, None, NUMBERS, allow_non_restored=False, sealed=True)
        storage.failing = {f"{spark_location(SECOND)}/offsets/0"}
        with pytest.raises(CheckpointError, match="no way"):
            locations.keep(SECOND, begun=False)
    assert names(storage, SECOND) == ["sources/0/0"]
    with process(storage) as locations:
        locations.bring(THIRD, None)
        assert found(locations, FIRST)["offsets/0"] == CUT
        assert names(storage, FIRST) == ["metadata", "offsets/0", "sources/0/0"]


def test_a_beginning_that_its_driver_completes_late_has_all_its_parts() -> None:
    """A driver that was taken over may wake up in the midst of storing, and what it has stored must still be there."""

    class Pausing(Watched):
        def write(self, name: str, data: bytes) -> None:
            if name == f"{spark_location(FIRST)}/offsets/0":
                with process(self) as second:
                    second.bring(SECOND, None)  # and dies
            super().write(name, data)

    storage = Pausing()
    with process(storage) as first:
        write(first, FIRST, metadata=QUERY, offsets_0=CUT, sources_0_0="began")
        first.keep(FIRST, begun=False)
    assert names(storage, FIRST) == ["metadata", "offsets/0", "sources/0/0"]
    with process(storage) as third:
        write(third, THIRD, metadata=QUERY)
        third.keep(THIRD, begun=False)
        third.bring(LATER, None)
    assert names(storage, FIRST) == [], "a newer one counts by now"


def test_no_cut_of_the_first_batch_is_stored_without_the_log_that_it_refers_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would take the files of that batch as read, and read none."""
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, metadata=QUERY)
        looking = locations._files

        def look(part: str) -> dict[str, tuple[int, int]]:
            seen = looking(part)
            if part == "sources/":
                write(locations, FIRST, sources_0_0="files", offsets_0=CUT)  # Spark continues meanwhile
            return seen

        monkeypatch.setattr(locations, "_files", look)
        locations.keep(FIRST, begun=False)
        assert names(storage, FIRST) == ["metadata"]
        locations.keep(FIRST, begun=False)
        assert names(storage, FIRST) == ["metadata", "offsets/0", "sources/0/0"]


def test_an_attempt_of_the_same_process_knows_more_than_what_is_stored() -> None:
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, metadata=QUERY, sources_0_0="began")
        locations.keep(FIRST, begun=False)
        write(locations, SECOND, metadata=QUERY, sources_0_0="began", offsets_0=CUT)
        storage.requests = 0
        locations.bring(THIRD, None)
        assert storage.requests == 0, "nothing is read"
        take_over(locations.directory, THIRD, None, NUMBERS, allow_non_restored=False, sealed=True)
        assert found(locations, THIRD)["offsets/0"] == CUT
        assert names(storage, FIRST) == ["metadata", "sources/0/0"], (
            "this process may still die before it stores its own"
        )


def test_only_what_no_start_goes_back_to_is_deleted() -> None:
    storage = Watched()
    for lineage in (FIRST, SECOND, LATER):
        for name in ("metadata", "sources/0/0", "sources/0/1"):
            storage.write(f"{spark_location(lineage)}/{name}", b"x")
    storage.write(f"{SPARK}notes/of-somebody", b"x")
    with process(storage) as locations:
        locations.bring(THIRD, head(FIRST))
    kept = {name.split("/")[1] for name in storage.list(SPARK)}
    assert kept == {FIRST, LATER, "notes"}, "the head's lineage, one of a driver that came later, what is not ours"


def test_a_start_that_fails_half_way_begins_anew() -> None:
    storage = Watched()
    for entry in range(20):
        storage.write(f"{spark_location(FIRST)}/sources/0/{entry}", b"x")
    storage.failing = {f"{spark_location(FIRST)}/sources/0/7"}
    with process(storage) as locations:
        with pytest.raises(CheckpointError, match="no way"):
            locations.bring(SECOND, head(FIRST))
        assert found(locations, FIRST) == {}
        storage.failing = set()
        locations.bring(SECOND, head(FIRST))
        assert len(found(locations, FIRST)) == 20


def test_an_entry_that_a_driver_deletes_meanwhile_is_not_missed() -> None:
    class Racing(Watched):
        def read(self, name: str) -> bytes:
            if name.endswith("/0"):
                raise NotFoundError(name)
            return super().read(name)

    storage = Racing()
    for entry in ("0", "9.compact"):
        storage.write(f"{spark_location(FIRST)}/sources/0/{entry}", b"x")
    with process(storage) as locations:
        locations.bring(SECOND, head(FIRST))
        assert list(found(locations, FIRST)) == ["sources/0/9.compact"]


def test_what_spark_has_compacted_is_deleted_a_few_at_a_time() -> None:
    storage = Watched()
    with process(storage) as locations:
        write(locations, FIRST, **{f"sources_0_{entry}": "x" for entry in range(9)})
        locations.keep(FIRST, begun=True)
        locations.forget_superseded()
        assert len(names(storage, FIRST)) == 9
        write(locations, FIRST, **{"sources_0_9.compact": "all"})
        for entry in range(9):
            (locations.directory / spark_location(FIRST) / "sources" / "0" / str(entry)).unlink()
        locations.keep(FIRST, begun=True)
        assert len(names(storage, FIRST)) == 10, "until the epoch is committed, its predecessor counts"
        locations.forget_superseded()
        assert len(names(storage, FIRST)) == 8
        for entry in range(10, 14):
            write(locations, FIRST, **{f"sources_0_{entry}": "x"})
            locations.keep(FIRST, begun=True)
            locations.forget_superseded()
        assert names(storage, FIRST) == [*(f"sources/0/{entry}" for entry in range(10, 14)), "sources/0/9.compact"]


def test_a_store_that_does_not_delete_does_not_stop_the_job(caplog: pytest.LogCaptureFixture) -> None:
    class Keeping(Watched):
        def delete(self, names: Iterable[str]) -> None:
            for name in names:
                raise CheckpointError(f"{name} stays")

    storage = Keeping()
    with process(storage) as locations:
        write(locations, FIRST, sources_0_0="x")
        locations.keep(FIRST, begun=True)
        (locations.directory / spark_location(FIRST) / "sources" / "0" / "0").unlink()
        locations.forget_superseded()
    assert "sources/0/0 stays" in caplog.text


# --- the process dies at every single request

BATCHES = 9
COMPACTED = 3


class FileJob:
    """A job that watches a directory: each batch is a new entry of its source's log, compacted as Spark does it."""

    def __init__(self, storage: Watched) -> None:
        self._storage = storage
        self._slot = 1
        self.head: Manifest | None = None
        self.starts = 0

    def run(self) -> None:
        """One process: resume from the head until all batches are committed."""
        self.starts += 1
        lineage = lineage_id(self._slot, "abc")
        self._slot += 1
        with process(self._storage) as locations:
            locations.bring(lineage, self.head)
            take_over(locations.directory, lineage, self.head, NUMBERS, allow_non_restored=False, sealed=True)
            log = locations.directory / spark_location(lineage) / "sources" / "0"
            done = -1 if self.head is None or self.head.spark is None else int(self.head.spark["batch_id"])
            assert self._logged(log) >= set(range(done + 1)), "a file that was read would be read again"
            for batch in range(done + 1, BATCHES):
                self._log(log, batch)
                locations.keep(lineage, begun=self.head is not None)
                self._slot += 1
                self.head = head(lineage, batch)
                locations.forget_superseded()

    def _log(self, log: Path, batch: int) -> None:
        """A batch's entry; the log may be ahead, if its last entries were never part of a batch."""
        if batch in self._logged(log):
            return
        log.mkdir(parents=True, exist_ok=True)
        if batch % COMPACTED != COMPACTED - 1:
            (log / str(batch)).write_text(str(batch))
            return
        every = sorted({*self._logged(log), batch})
        (log / f"{batch}.compact").write_text(" ".join(map(str, every)))
        for path in log.iterdir():
            if int(path.name.partition(".")[0]) < batch - COMPACTED:
                path.unlink()

    @staticmethod
    def _logged(log: Path) -> set[int]:
        """The files that a source has read by its log: of the last compaction, and all later entries without a gap."""
        if not log.exists():
            return set()
        entries = {int(path.name.partition(".")[0]): path for path in log.iterdir()}
        compactions = [number for number, path in entries.items() if path.name.endswith(".compact")]
        since = max(compactions, default=0)
        assert set(range(since, max(entries) + 1)) <= entries.keys(), (
            f"Spark refuses a log with a gap: {sorted(entries)}"
        )
        files: set[int] = set()
        for number in range(since, max(entries) + 1):
            files |= set(map(int, entries[number].read_text().split()))
        return files


@pytest.mark.parametrize("done", [False, True], ids=["before-it", "after-it"])
def test_a_process_that_dies_at_any_request_loses_no_entry_that_counts(done: bool) -> None:
    untroubled = Watched()
    FileJob(untroubled).run()
    for fatal in range(1, untroubled.requests + 1):
        storage = Watched()
        storage.done = done
        job = FileJob(storage)
        storage.fatal = fatal
        with pytest.raises(DiedError):
            job.run()
        # The next process dies as well, in the midst of taking over or soon after it.
        storage.requests, storage.fatal = 0, 1 + fatal % 5
        with pytest.raises(DiedError):
            job.run()
        storage.fatal = None
        job.run()
        assert job.head is not None
        assert job.head.spark is not None
        assert (job.starts, job.head.spark["batch_id"]) == (3, BATCHES - 1)
