"""Spark's own logs on a real query: damage is noticed before anything is read again, what is torn is done anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.committed import committed_head
from tests.spark.jobs import add_file, durable, environment
from tests.waiting import eventually
from tidemill.checkpoint.names import spark_location
from tidemill.common import ExitCode, JobClient, exit_code_of
from tidemill.errors import CorruptFileError
from tidemill.testing.recording_sink import Recording, RecordingSink

pytestmark = pytest.mark.usefixtures("spark")

SECONDS = 180.0


class Job:
    """Copies the lines of the files of a streaming DataFrame, one file in each epoch."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self.recording = Recording()
        (folder / "in").mkdir()

    @property
    def location(self) -> Path:
        """Where the last committed batch has its logs."""
        head = committed_head(self._folder / "job")
        assert head.spark is not None
        return self._folder / "job" / spark_location(head.spark["lineage"])

    def add(self, *lines: str) -> None:
        for line in lines:
            add_file(self._folder / "in" / f"{line}.txt", f"{line}\n")

    def start(self) -> JobClient:
        more = {"execution.checkpointing.num-retained": "3", "restart-strategy.type": "none"}
        env = environment(durable(self._folder, **more))
        reader = self._session.readStream.option("maxFilesPerTrigger", "1").schema("line STRING")
        stream = env.from_dataframe(reader.text(str(self._folder / "in"))).uid("lines")
        stream.map(lambda row: row[0]).sink_to(RecordingSink(self.recording)).uid("sink")
        return env.execute_async("copied")

    def run_until(self, *lines: str) -> None:
        """Run it until it has shown these lines; each once, whatever happened before."""
        client = self.start()
        try:
            eventually(lambda: len(self.recording.values()) >= len(lines), SECONDS)
        finally:
            client.cancel().result(SECONDS)
        assert sorted(self.recording.values()) == sorted(lines)

    def refused(self, match: str) -> None:
        with pytest.raises(CorruptFileError, match=match) as raised:
            self.start().get_job_execution_result().result(SECONDS)
        assert exit_code_of(raised.value) is ExitCode.UNFIT


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    made = Job(spark, tmp_path)
    made.add("a", "b", "c")
    made.run_until("a", "b", "c")
    return made


def flip(path: Path) -> None:
    """One bit in the name of a file that was read."""
    data = bytearray(path.read_bytes())
    data[data.index(b".txt")] ^= 1
    path.write_bytes(data)


def flip_unnoticed(path: Path) -> None:
    flip(path)
    path.with_name(f".{path.name}.crc").unlink()


@pytest.mark.parametrize("damage", [flip, flip_unnoticed, Path.unlink])
def test_a_damaged_log_of_a_source_is_noticed(job: Job, damage: Callable[[Path], None]) -> None:
    damage(job.location / "sources" / "0" / "1")
    job.add("d")
    job.refused(r"sources/0/1 is (corrupt|missing).*execution.resume-mode: none")
    job.refused(r"sources/0/1 is (corrupt|missing)")  # and it stays so
    assert sorted(job.recording.values()) == ["a", "b", "c"]


def test_what_is_not_committed_is_done_anew_if_it_is_torn(job: Job) -> None:
    """A power failure: Spark had begun a batch, and the disk has nothing but names of it."""
    job.add("d")
    for name in ("sources/0/3", "offsets/3", "commits/2", "metadata"):
        (job.location / name).write_bytes(b"")
    job.run_until("a", "b", "c", "d")


def test_a_started_batch_keeps_its_boundaries(job: Job) -> None:
    (job.location / "commits" / "2").write_bytes(b"torn")  # it is replayed, as a batch of nothing
    job.add("d")
    job.run_until("a", "b", "c", "d")
    job.add("e")
    job.run_until("a", "b", "c", "d", "e")
