"""A custom two-phase commit sink, for a system that can prepare a write and commit it from another process.

Here the system is a directory. A subtask prepares a file under a hidden name. When the epoch is committed, the
committer renames it. Readers see complete epochs, each exactly once. Files of attempts that were never committed are
removed.

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
    """Writes one JSON file per subtask and epoch. Contains only attributes that can be sent to workers."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return HiddenFiles(self.directory)

    def create_committer(self) -> Committer:
        return Renames(self.directory)


class HiddenFiles(SinkWriter):
    """Phase one, in the subtask: the data must be durable, but not yet visible to readers."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def begin_epoch(self, context: WriterContext) -> None:
        # The history distinguishes jobs that start again at epoch 1, and the attempt tasks that Spark runs twice.
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
    """Phase two, on the driver, once the epoch is committed. Repeated after a crash, possibly much later."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in committed:
            for committable in part.committables:
                hidden, final = json.loads(committable)
                if (self.directory / hidden).exists():  # otherwise it was already renamed
                    (self.directory / hidden).replace(self.directory / final)

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        keep = {json.loads(committable)[0] for committable in names_in_use}
        for path in self.directory.glob(".*~*~*"):
            if path.name not in keep and path.name.split("~")[1] <= lineage:
                path.unlink(missing_ok=True)


def reports(directory: Path) -> list[Any]:
    """The records that a reader of the directory sees."""
    return [record for path in directory.glob("[!.]*.json") for record in json.loads(path.read_text(encoding="utf-8"))]


def main(arguments: Sequence[str] | None = None) -> list[Any]:
    """Run the program and return the records that a reader of the directory sees."""
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
