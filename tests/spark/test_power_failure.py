"""A power failure at every moment of a streaming job on Spark, whose logs the JVM writes and nobody else syncs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.power_failure import Recorder, different, lay_out
from tests.spark.jobs import add_file, durable, environment
from tests.thorough import WHEN_THOROUGH
from tests.unit.spark.query_model import Query, seen_files
from tests.waiting import eventually
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.lost_manifests import read_head
from tidemill.checkpoint.names import spark_location
from tidemill.checkpoint.protocol import should_skip
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.runtime.start.spark_positions import SourceNumbers
from tidemill.spark.locations.locations import take_over
from tidemill.testing.recording_sink import Recording, RecordingSink

pytestmark = [pytest.mark.usefixtures("spark"), WHEN_THOROUGH, pytest.mark.timeout(1800)]

SECONDS = 180.0
NUMBERS: SourceNumbers = {"lines": [[0, 0, "FileSource"]]}
LINES = [f"line-{number}" for number in range(8)]
#: Spark merges its log at every third entry, and deletes the others soon.
SETTINGS = {
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
    "spark.sql.streaming.minBatchesToRetain": "1",
}
#: Every so many of what power failures leave is also resumed by Spark itself; it takes seconds.
SAMPLE = 60


@pytest.fixture
def quick(spark: SparkSession) -> Any:
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    yield spark
    for key in SETTINGS:
        spark.conf.unset(key)


def run(session: SparkSession, root: Path, source: Path, recorder: Recorder | None, until: int) -> list[str]:
    """Run the job in ``root`` until it has shown so many lines; which."""
    recording = Recording()
    env = environment(durable(root, **{"restart-strategy.type": "none"}))
    reader = session.readStream.option("maxFilesPerTrigger", "1").schema("line STRING")
    stream = env.from_dataframe(reader.text(str(source))).uid("lines")
    stream.map(lambda row: row[0]).sink_to(RecordingSink(recording)).uid("sink")
    client = env.execute_async("recorded")
    shown = 0

    def enough() -> bool:
        nonlocal shown
        if recorder is not None and len(recording.values()) > shown:
            shown = len(recording.values())
            recorder.acknowledge(frozenset(recording.values()))
        if client.get_job_status().result().is_terminal_state():
            client.get_job_execution_result().result()
        return len(recording.values()) >= until

    try:
        eventually(enough, SECONDS)
    finally:
        client.cancel().result(SECONDS)
    return recording.values()


def line_of(path: str) -> str:
    return Path(path).stem


def wrong(root: Path, files: dict[str, bytes], promised: set[str], paths: dict[int, list[str]]) -> str:
    """What is wrong with a query that resumes from what a power failure has left, by the model of it, or nothing.

    ``paths`` are the files of each batch, as they really were.
    """
    lay_out(files, root)
    storage = LocalStorage(root / "job", durable=False)
    log = ManifestLog(storage, "job")
    try:
        head = read_head(storage, log)
        lineage, restored = log.open_lineage()
        positions = take_over(root / "job", lineage, restored, NUMBERS, allow_non_restored=False, durable=False)
        last = -1 if head is None or head.spark is None else int(head.spark["batch_id"])
        done = [path for batch in range(last + 1) for path in paths[batch]]
        if lost := promised - {line_of(path) for path in done}:
            return f"{sorted(lost)} were shown, and are not committed"
        query = Query(root / "job" / spark_location(lineage))

        def process(batch: int, offsets: str, found: list[str]) -> None:
            nonlocal positions
            if not should_skip(replace(log.head, spark=positions), batch, offsets):
                done.extend(found)
                positions = {"batch_id": batch, "offsets": offsets}

        while query.step([path for batch in sorted(paths) for path in paths[batch]], process):
            pass
    except Exception as error:
        return repr(error)
    every = sorted(path for found in paths.values() for path in found)
    return "" if sorted(done) == every else f"{sorted(done)} were read"


def test_whatever_a_power_failure_leaves_each_file_is_read_once(quick: SparkSession, tmp_path: Path) -> None:
    source, root = tmp_path / "in", tmp_path / "recorded"
    source.mkdir()
    recorder = Recorder(root)
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        for line in LINES[:5]:
            add_file(source / f"{line}.txt", f"{line}\n")
        run(quick, root, source, recorder, until=5)
        for line in LINES[5:]:
            add_file(source / f"{line}.txt", f"{line}\n")
        run(quick, root, source, recorder, until=4)  # the last batch is committed again
    last = ManifestLog(LocalStorage(root / "job"), "job").read_head()
    assert last is not None
    assert last.spark is not None
    # One file in each batch, so that the number of its entry is that of the batch.
    paths = seen_files(root / "job" / spark_location(last.spark["lineage"]) / "sources" / "0")
    assert sorted(line_of(path) for found in paths.values() for path in found) == LINES
    states = [*different(recorder.moments, mixtures=4)]
    assert len(states) > 200
    for number, (moment, kind, files) in enumerate(states):
        promised = {line for shown in moment.acknowledged for line in shown}
        problem = wrong(tmp_path / str(number), files, promised, paths)
        assert not problem, f"{kind} before {moment.operation} ({number}): {problem}"
    for number in range(SAMPLE // 2, len(states), max(SAMPLE, len(states) // 8)):
        files = states[number][2]
        place = tmp_path / f"again-{number}"
        lay_out(files, place)
        head = ManifestLog(LocalStorage(place / "job"), "job").read_head()
        spark = None if head is None else head.spark
        # What the head's epoch has shown is committed again; nothing before it, and all that comes after.
        since = 0 if spark is None else int(spark["batch_id"])
        expected = [line_of(path) for batch, found in paths.items() if batch >= since for path in found]
        assert sorted(run(quick, place, source, None, until=len(expected))) == sorted(expected)
