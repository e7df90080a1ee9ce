"""A driver in a process of its own: counts its epochs, with a savepoint after each. Made to be killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tidemill import faults
from tidemill.checkpoint.storage.storages import storage_for
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.testing import JobHarness

EPOCHS: Final = 4
#: What the harness calls every job: two of them are two directories.
JOB_ID: Final = "job-harness"


def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    return words.map(lambda word: (word, 1)).key_by(0).sum(1).uid("count")


def harness(folder: Path, name: str, start_from: str) -> JobHarness:
    """The job of this name, which resumes from its directory or starts from a savepoint."""
    configuration = {"state.inline-delta-size": "0b"}
    if start_from:
        configuration["execution.state-recovery.path"] = start_from
    storage = storage_for(str(folder / "checkpoints" / name))
    job = JobHarness(count, inputs=["words"], configuration=configuration, storage=storage)
    for _ in range(EPOCHS):
        job.inputs["words"].add(["epoch"])
    return job


def counted(folder: Path, name: str, start_from: str) -> int:
    """Run the job to its end, with a savepoint after each epoch; how many epochs it has counted."""
    with harness(folder, name, start_from) as job:
        while job.head.epoch < EPOCHS:
            job.epoch()
            job.savepoint(folder / "saved")
        _, epochs = job.state("count", "_reduce_state")["epoch"]
        return int(epochs)


if __name__ == "__main__":
    faults.install_from_environment()
    counted(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
