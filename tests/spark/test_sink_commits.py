"""Commits of sinks on Spark's workers: beside each other, in the worker that wrote, within a deadline."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.spark.jobs import durable, environment
from tidemill.connectors.write_ahead_log import Delivery, Destination, WriteAheadLogSink
from tidemill.errors import JobExecutionError

pytestmark = pytest.mark.usefixtures("spark")


class FilesSink(WriteAheadLogSink):
    """One file per delivery, named by the process that made it."""

    def __init__(self, directory: Path, hang_in: int | None = None) -> None:
        self.directory = directory
        self.hang_in = hang_in

    def encode(self, values: list[Any], timestamps: list[int] | None) -> bytes:
        return "".join(f"{value}\n" for value in values).encode()

    def create_destination(self) -> Destination:
        return Files(self.directory, self.hang_in)


class Files(Destination):
    def __init__(self, directory: Path, hang_in: int | None) -> None:
        self.directory = directory
        self.hang_in = hang_in
        self.name = f"{os.getpid()}"

    def deliver(self, delivery: Delivery) -> None:
        if delivery.epoch == self.hang_in:
            time.sleep(600)
        name = f"{delivery.epoch}-{delivery.subtask}-{self.name}"
        temporary = self.directory / f".{name}"
        temporary.write_bytes(b"".join(delivery.batches()))
        temporary.rename(self.directory / name)


def written(directory: Path) -> dict[tuple[int, int], tuple[int, list[str]]]:
    found = {}
    for path in directory.iterdir():
        epoch, subtask, process = map(int, path.name.split("-"))
        found[epoch, subtask] = (process, path.read_text(encoding="utf-8").splitlines())
    return found


def run(directory: Path, tmp_path: Path, *, width: int, **options: Any) -> None:
    env = environment(
        durable(
            tmp_path / "job",
            **{"execution.epoch.max-records": "400", "execution.epoch.max-duration": "0 ms", **options},
        )
    )
    numbers = env.from_sequence(1, 1200).map(lambda n: str(n).zfill(width)).rebalance()
    numbers.sink_to(FilesSink(directory, hang_in=1 if "sink.committer.timeout" in options else None)).uid("out")
    env.execute("commits")


def test_large_epochs_are_committed_by_workers_and_small_ones_by_the_driver(tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.mkdir()
    small.mkdir()
    run(large, tmp_path / "1", width=2000)
    run(small, tmp_path / "2", width=5)
    for directory, width in ((large, 2000), (small, 5)):
        files = written(directory)
        assert sorted(int(line) for _, lines in files.values() for line in lines) == list(range(1, 1201))
        assert all(len(line) == width for _, lines in files.values() for line in lines)
        assert {epoch for epoch, _ in files} >= {1, 2, 3}
    assert os.getpid() not in {process for process, _ in written(large).values()}
    assert {process for process, _ in written(small).values()} == {os.getpid()}
    assert not list((tmp_path / "1").rglob("*.log"))


def test_a_commit_that_hangs_on_a_worker_ends_in_a_named_failure(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    began = time.monotonic()
    with pytest.raises(JobExecutionError, match=r"\(uid out\) did not commit, epoch 1, within 2 s"):
        run(directory, tmp_path, width=2000, **{"sink.committer.timeout": "2 s", "restart-strategy.type": "none"})
    assert time.monotonic() - began < 120
    assert written(directory) == {}
