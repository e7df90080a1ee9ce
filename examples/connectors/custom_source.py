"""A source of your own: files of readings that grow, read in parallel, from where the last committed epoch ended.

What a source must do is little: say which part of the input an epoch reads, give those parts out to subtasks, and read
them. A part of a file that has been written does not change, so the source can be read again: nothing is lost or read
twice, whatever fails.

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
    """Lines of JSON in the files of a directory; a position is the number of bytes read of each file."""

    bounded = True
    replayable = True
    type_info = Types.TUPLE([Types.STRING(), Types.LONG()])

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def create_enumerator(self, position: dict[str, int] | None) -> SplitEnumerator:
        """On the driver: what is there to read, from a position on."""
        return ReadingsEnumerator(self.directory, position or {})

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """On a worker: the readings between two places in a file."""
        name, start, end = split.payload
        with (self.directory / name).open("rb") as file:
            file.seek(start)
            readings = [json.loads(line) for line in file.read(end - start).splitlines()]
        yield RecordBatch(
            [(reading["sensor"], reading["value"]) for reading in readings], [reading["at"] for reading in readings]
        )


class ReadingsEnumerator(SplitEnumerator):
    """Gives each subtask a part of some files, whole lines only. The name of the file is a split's partition: each
    file has event time of its own, and the slowest one counts."""

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
        """The files with something to read."""
        return sorted(
            path.name for path in self.directory.glob("*.jsonl") if path.stat().st_size > self.read.get(path.name, 0)
        )


def write_readings(directory: Path) -> None:
    """Three files of eight readings."""
    for number, place in enumerate(["cellar", "kitchen", "roof"]):
        lines = (
            json.dumps({"sensor": place, "value": 10 * number + hour, "at": 3_600_000 * hour}) for hour in range(8)
        )
        (directory / f"{place}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> list[Any]:
    """Run the program; returns the highest reading of each place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    configuration = Configuration().set_string("execution.target", options.target)
    configuration.set_string("execution.epoch.max-records", "6")  # several epochs, to have positions in between
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    with tempfile.TemporaryDirectory() as directory:
        write_readings(Path(directory))
        readings = env.from_source(ReadingsSource(Path(directory)), None, "readings")
        highest = dict(readings.key_by(0).max(1).uid("highest").execute_and_collect("highest readings"))
    return sorted(highest.items())


if __name__ == "__main__":
    for sensor, value in main():
        print(f"{sensor}: {value}")
