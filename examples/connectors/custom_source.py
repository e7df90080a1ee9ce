"""A custom source: reads growing files of sensor readings in parallel, and resumes where the last epoch ended.

A source has three tasks: determine which part of the input an epoch reads, assign those parts to subtasks, and read
them. Data that has been written to a file does not change, so the source is replayable: whatever fails, no record is
lost or read twice.

python -m examples.connectors.custom_source                   # on Spark
python -m examples.connectors.custom_source --target local    # in this process, without Spark
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tidemill.common import Configuration, Types
from tidemill.connectors.sources import RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment


class ReadingsSource(SplitSource):
    """Reads the JSON lines of all files in a directory. A position is the number of bytes read from each file."""

    bounded = True
    replayable = True
    type_info = Types.TUPLE([Types.STRING(), Types.LONG()])

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def create_enumerator(self, position: dict[str, int] | None) -> SplitEnumerator:
        """On the driver: enumerate the input from a position on."""
        return ReadingsEnumerator(self.directory, position or {})

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """On a worker: return the readings between two offsets of a file."""
        name, start, end = split.payload
        with (self.directory / name).open("rb") as file:
            file.seek(start)
            readings = [json.loads(line) for line in file.read(end - start).splitlines()]
        yield RecordBatch(
            [(reading["sensor"], reading["value"]) for reading in readings], [reading["at"] for reading in readings]
        )


class ReadingsEnumerator(SplitEnumerator):
    """Assigns parts of files to subtasks, in whole lines.

    The partition of a split is the name of its file: each file has its own event time, and the slowest file determines
    the watermark.
    """

    def __init__(self, directory: Path, position: dict[str, int]) -> None:
        self.directory = directory
        self.read = dict(position)

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Sequence[Split]]:
        dealt: list[list[Split]] = [[] for _ in range(parallelism)]
        waiting = self.waiting()
        most = max(1, max_records // max(1, len(waiting)))
        for number, name in enumerate(waiting):
            start = self.read.get(name, 0)
            with (self.directory / name).open("rb") as file:
                file.seek(start)
                lines = [line for line, _ in zip(file, range(most), strict=False) if line.endswith(b"\n")]
            self.read[name] = start + sum(map(len, lines))
            dealt[number % parallelism].append(Split((name, start, self.read[name]), len(lines), partition=name))
        return dealt

    def position(self) -> dict[str, int]:
        return dict(self.read)

    @property
    def finished(self) -> bool:
        return not self.waiting()

    def waiting(self) -> list[str]:
        """The files with unread data."""
        return sorted(
            path.name for path in self.directory.glob("*.jsonl") if path.stat().st_size > self.read.get(path.name, 0)
        )


def write_readings(directory: Path) -> None:
    """Write three files with eight readings each."""
    for number, place in enumerate(["cellar", "kitchen", "roof"]):
        lines = (
            json.dumps({"sensor": place, "value": 10 * number + hour, "at": 3_600_000 * hour}) for hour in range(8)
        )
        (directory / f"{place}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> list[Any]:
    """Run the program and return the highest reading of each place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    configuration = Configuration().set_string("execution.target", options.target)
    configuration.set_string("execution.epoch.max-records", "6")  # several epochs, with positions in between
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    with tempfile.TemporaryDirectory() as directory:
        write_readings(Path(directory))
        readings = env.from_source(ReadingsSource(Path(directory)), None, "readings")
        highest = dict(readings.key_by(0).max(1).uid("highest").execute_and_collect("highest readings"))
    return sorted(highest.items())


if __name__ == "__main__":
    for sensor, value in main():
        print(f"{sensor}: {value}")
