"""A power failure at every moment of a streaming query: each file is read once, or the start is refused."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.power_failure import Recorder, different, lay_out
from tests.thorough import THOROUGH
from tests.unit.spark.query_model import Query
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.lost_manifests import read_head
from tidemill.checkpoint.model import Epoch, Manifest, Slot
from tidemill.checkpoint.names import spark_location
from tidemill.checkpoint.protocol import should_skip
from tidemill.checkpoint.spark_logs import with_logs
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.runtime.start.spark_positions import SourceNumbers
from tidemill.spark.locations.job_locations import SparkLocations, open_locations
from tidemill.spark.locations.locations import take_over

JOB = "job"
FILES = [f"file-{number}" for number in range(7)]
NUMBERS: SourceNumbers = {"files": [[0, 0, "FileSource"]]}


class Driver:
    """A driver whose epochs put the files of a batch into its state, which is in the manifest."""

    def __init__(self, root: Path, recorder: Recorder | None = None, *, durable: bool = True) -> None:
        storage = LocalStorage(root / JOB, durable=durable)
        self._recorder = recorder
        self._log = ManifestLog(storage, JOB)
        read_head(storage, self._log)
        self.lineage, restored = self._log.open_lineage()
        self._locations: SparkLocations = open_locations(storage, root / JOB)
        self._locations.bring(self.lineage, restored)
        self.positions = take_over(
            root / JOB, self.lineage, restored, NUMBERS, allow_non_restored=False, durable=durable
        )
        self.query = Query(root / JOB / spark_location(self.lineage))
        self.dies = False

    @property
    def head(self) -> Manifest:
        return self._log.head

    @property
    def done(self) -> list[str]:
        """The files that are committed."""
        return [*self.head.sources.get("done", [])]

    def run(self, batches: int | None = None) -> None:
        """Run some batches, or until there is nothing left to read."""
        for _ in itertools.count() if batches is None else range(batches):
            self._locations.keep(self.lineage, begun=self.positions is not None)
            if not self.query.step(FILES, self._process):
                break

    def run_without_input(self) -> None:
        """An epoch between two batches."""
        self._publish(self.done)

    def _process(self, batch: int, offsets: str, paths: list[str]) -> None:
        if should_skip(replace(self.head, spark=self.positions), batch, offsets):
            return
        if self.dies:
            raise KeyboardInterrupt
        self.positions = {"batch_id": batch, "offsets": offsets, "lineage": self.lineage, "sources": NUMBERS}
        self._publish([*self.done, *paths])

    def _publish(self, done: list[str]) -> None:
        logs = self._locations.keep(self.lineage, begun=self.positions is not None)
        spark = None if self.positions is None else with_logs(self.positions, self.lineage, logs)
        head = self.head
        slot, epoch = Slot(head.slot + 1), Epoch(head.epoch + 1)
        self._log.publish(replace(head, kind="epoch", slot=slot, epoch=epoch, sources={"done": done}, spark=spark))
        if self._recorder is not None:
            self._recorder.acknowledge(len(done))


def recorded(root: Path, forgotten: str | None = None) -> Recorder:
    """Three drivers, of which two die in the midst of a batch."""
    recorder = Recorder(root, forgotten)
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        for batches in (2, 3):
            driver = Driver(root, recorder)
            driver.run_without_input()
            driver.run(batches)
            driver.dies = True
            with pytest.raises(KeyboardInterrupt):
                driver.run(1)
        last = Driver(root, recorder)
        last.run()
    assert last.done == FILES
    return recorder


def wrong(root: Path, files: dict[str, bytes], acknowledged: int) -> str:
    """What is wrong with a job that resumes from what a power failure has left, or nothing."""
    lay_out(files, root)
    try:
        driver = Driver(root, durable=False)
        if len(driver.done) < acknowledged:
            return f"{acknowledged} files were acknowledged, and {len(driver.done)} are left"
        driver.run()
    except Exception as error:
        return repr(error)
    return "" if driver.done == FILES else f"{driver.done} were read"


def tried(recorder: Recorder, root: Path, mixtures: int = 0) -> Iterator[str]:
    """What is wrong after each power failure, or nothing."""
    for number, (moment, kind, files) in enumerate(different(recorder.moments, mixtures)):
        place = root / str(number)
        problem = wrong(place, files, max(moment.acknowledged, default=0))
        yield problem and f"{kind} before {moment.operation} ({number}): {problem}"
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_whatever_a_power_failure_leaves_each_file_is_read_once(tmp_path: Path) -> None:
    outcomes = [*tried(recorded(tmp_path / "recorded"), tmp_path, mixtures=8 if THOROUGH else 0)]
    assert not [problem for problem in outcomes if problem]
    assert len(outcomes) > 200


def test_logs_that_are_not_synced_are_noticed(tmp_path: Path) -> None:
    assert any(tried(recorded(tmp_path / "recorded", forgotten=f"{JOB}/spark"), tmp_path))
