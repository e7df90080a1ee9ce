"""A sink of your own with two phases, for a system that can keep prepared work and commit it from another process.

Here the system is a directory. A subtask prepares a file under a hidden name; when the epoch is committed, the
committer renames it. Readers see whole epochs, each once. What attempts prepared that never counted is removed.

python -m examples.connectors.custom_two_phase_sink                   # on Spark
python -m examples.connectors.custom_two_phase_sink --target local    # in this process, without Spark
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidemill.common import Configuration
from tidemill.connectors.sinks import Committed, Committer, SinkWriter, WriterContext
from tidemill.connectors.two_phase_commit import TwoPhaseCommittingSink
from tidemill.datastream import StreamExecutionEnvironment


class ReportsSink(TwoPhaseCommittingSink):
    """One JSON file per subtask and epoch. Holds only what can be sent to workers."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return HiddenFiles(self.directory)

    def create_committer(self) -> Committer:
        return Renames(self.directory)


class HiddenFiles(SinkWriter):
    """Phase one, in the subtask: what is written must be durable, and nobody may see it."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def begin_epoch(self, context: WriterContext) -> None:
        # The history keeps apart jobs that begin again at epoch 1; the attempt, tasks that Spark runs twice.
        self.final = f"{context.history}-{context.epoch:06d}-{context.subtask}.json"
        self.hidden = f".{self.final}~{context.lineage}~{context.attempt}"
        self.records: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.records += values

    def prepare_commit(self) -> Sequence[bytes]:
        if not self.records:
            return ()
        with (self.directory / self.hidden).open("w", encoding="utf-8") as file:
            json.dump(self.records, file)
            file.flush()
            os.fsync(file.fileno())
        return [json.dumps([self.hidden, self.final]).encode()]


class Renames(Committer):
    """Phase two, on the driver, once the epoch counts; again after a crash, and perhaps late."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in committed:
            for committable in part.committables:
                hidden, final = json.loads(committable)
                if (self.directory / hidden).exists():  # else it has been renamed before
                    (self.directory / hidden).replace(self.directory / final)

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        keep = {json.loads(committable)[0] for committable in names_in_use}
        for path in self.directory.glob(".*~*~*"):
            if path.name not in keep and path.name.split("~")[1] <= lineage:
                path.unlink(missing_ok=True)


def reports(directory: Path) -> list[Any]:
    """What a reader of the directory finds."""
    return [record for path in directory.glob("[!.]*.json") for record in json.loads(path.read_text(encoding="utf-8"))]


def main(arguments: Sequence[str] | None = None) -> list[Any]:
    """Run the program; returns what a reader of the directory finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    configuration = Configuration().set_string("execution.target", options.target)
    configuration.set_string("execution.epoch.max-records", "4")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    with tempfile.TemporaryDirectory() as directory:
        env.from_sequence(1, 10).map(lambda number: number * number).sink_to(ReportsSink(directory)).uid("reports")
        env.execute("reports")
        return sorted(reports(Path(directory)))


if __name__ == "__main__":
    print(*main())
