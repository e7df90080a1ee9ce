"""The log of files that were read is part of the manifests' chain: a crash at any point loses and repeats none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.plans import launch
from tidemill import state_processor
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch
from tidemill.checkpoint.storage.storages import MemoryStorage, Storage, storage_for
from tidemill.connectors.file_system.listing import FileListing, FoundFile
from tidemill.errors import LostInputError
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.local.engine import LocalEngine
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.file_enumerator import FileBounds, FileEnumerator
from tidemill.runtime.driver.files_read import files_begun, files_read, files_section
from tidemill.runtime.driver.snapshots import Snapshots

UID = "files"


class Names(FileListing):
    """A directory of so many files, which lists them at once."""

    def __init__(self, count: int) -> None:
        self.names = [f"/data/in/part-{number:08d}.json" for number in range(count)]

    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        return [FoundFile(name, 1, 0.0) for name in self.names if not is_known(name)]

    def present(self, paths: Iterable[str]) -> dict[str, FoundFile]:
        there = set(self.names)
        return {path: FoundFile(path, 1, 0.0) for path in paths if path in there}


class Counting(MemoryStorage):
    """Counts what is written and read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.reads = 0

    def create(self, name: str, data: bytes) -> None:
        super().create(name, data)
        self.written += len(data)

    def write(self, name: str, data: bytes) -> None:
        super().write(name, data)
        self.written += len(data)

    def read(self, name: str) -> bytes:
        self.reads += 1
        return super().read(name)


def program(env: Any) -> Any:
    return env.from_collection([1]).uid(UID)


class Driver:
    """A driver of a job whose source takes files, as that of Spark does; what it would read, nobody does here."""

    def __init__(self, storage: Storage, listing: FileListing, **options: Any) -> None:
        self.launch = launch(program)
        bundle = self.launch.bundle(storage)
        self.coordinator = Coordinator(
            bundle,
            LocalEngine(bundle, workers=1),
            self.launch.parallelism(1),
            self.launch.committers(),
            snapshots=Snapshots(storage, background=False, fan_in=4, form=bundle.form),
        )
        self.coordinator.open()
        head = self.coordinator.head
        self.read = files_read(storage, self.coordinator.manifests, head, UID)
        begun = list(files_begun(storage, head, UID))
        self.files = FileEnumerator(listing, self.read, begun, where="the source", **options)
        self.files._add(listing.new_files(self.files._is_known))  # not in the background: no time must pass here
        self.files._next = float("inf")
        #: What each epoch took.
        self.taken: dict[int, list[str]] = {}

    def epoch(self, bounds: FileBounds) -> int:
        """Run an epoch; returns how many files it took."""
        paths = [file.path for file in self.files.take(bounds)]
        self.taken[self.coordinator.head.epoch + 1] = paths
        state = {UID: files_section(UID, paths, Epoch(self.coordinator.head.epoch + 1))} if paths else {}
        self.coordinator.run_epoch(EpochInput(state=state, positions={UID: {"kind": "files"}}))
        return len(paths)

    def close(self) -> None:
        self.files.close()
        self.coordinator.close()


def committed(storage: MemoryStorage) -> list[str]:
    """All paths in the committed state."""
    log = ManifestLog(storage, "unit")
    head = log.read_head()
    assert head is not None
    return sorted(files_read(storage, log, head, UID))


@pytest.mark.parametrize(
    "point", ["files.begun", "offsets.logged", "acks.collected", "manifest.before", "manifest.after", "epoch.done"]
)
@pytest.mark.parametrize("skip", [0, 1, 5])
def test_a_crash_at_any_point_loses_and_repeats_no_file(point: str, skip: int) -> None:
    storage, listing = MemoryStorage(), Names(20)
    driver = Driver(storage, listing)
    with injected(Fault(point, skip=skip)):
        for _ in range(skip):
            driver.epoch(FileBounds(files=2))
        with pytest.raises(InjectedFaultError):
            driver.epoch(FileBounds(files=2))
    driver.files.close()
    crashed, driver = driver, Driver(storage, listing)
    counts = driver.coordinator.head.epoch
    assert counts in (skip, skip + 1)
    while driver.epoch(FileBounds(files=3)):
        pass
    driver.close()
    assert committed(storage) == listing.names
    read = [path for epoch, paths in crashed.taken.items() if epoch <= counts for path in paths]
    assert sorted(read + [path for paths in driver.taken.values() for path in paths]) == listing.names


def test_files_of_a_started_epoch_are_missed() -> None:
    storage, listing = MemoryStorage(), Names(6)
    driver = Driver(storage, listing)
    driver.epoch(FileBounds(files=2))
    with injected(Fault("manifest.before")), pytest.raises(InjectedFaultError):
        driver.epoch(FileBounds(files=2))
    driver.files.close()
    gone = listing.names.pop(2)
    for _ in range(2):  # it stays so until someone decides
        with pytest.raises(LostInputError, match=gone):
            Driver(storage, listing)
    driver = Driver(storage, listing, missing="skip")
    assert driver.files.skipped == 1
    assert driver.epoch(FileBounds(files=1)) == 1
    driver.files.close()
    driver = Driver(storage, listing)  # an epoch is committed without it
    while driver.epoch(FileBounds()):
        pass
    driver.close()
    assert committed(storage) == listing.names


def test_an_epoch_costs_what_it_reads_however_much_was_read_before() -> None:
    """50 000 files: what an epoch writes, and what a start reads, does not grow with their number."""
    storage, listing = Counting(), Names(50_000)
    driver = Driver(storage, listing)
    per_epoch = []
    merged = 0
    for _ in range(100):
        before, merges = storage.written, len(storage.list("snapshots/"))
        assert driver.epoch(FileBounds(files=500)) == 500
        if len(storage.list("snapshots/")) == merges:
            per_epoch.append(storage.written - before)
        else:
            merged += storage.written - before
    names = sum(map(len, listing.names))
    assert max(per_epoch) < 500 * 80 + 8192, "the names of an epoch, and a manifest"
    assert max(per_epoch[-5:]) < 1.2 * max(per_epoch[:5])
    assert merged < 12 * names, "a name is merged as often as there are levels of merges"
    files = storage.list("state/") + storage.list("snapshots/")
    assert len(files) < 40
    assert sum(storage.size(name) for name in files) < 4 * names
    driver.close()

    storage.reads = 0
    driver = Driver(storage, listing)
    assert len(driver.read) == 50_000
    assert storage.reads < 100
    assert driver.epoch(FileBounds()) == 0
    driver.close()
    assert committed(storage) == listing.names


def test_what_was_read_is_state_that_can_be_read(tmp_path: Path) -> None:
    listing = Names(3)
    driver = Driver(storage_for(str(tmp_path / "unit")), listing)
    driver.epoch(FileBounds(files=1))
    driver.epoch(FileBounds())
    driver.close()
    table = state_processor.read(str(tmp_path / "unit")).operator_state(UID, "__files")
    assert sorted(zip(table["path"].to_pylist(), table["epoch"].to_pylist(), strict=True)) == [
        (listing.names[0], 1),
        (listing.names[1], 2),
        (listing.names[2], 2),
    ]
