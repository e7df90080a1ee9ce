"""A job on a disk that is full in its second epoch and has room again afterwards, in a process of its own.

    python -m tests.integration.full_disk checkpoints|rocksdb filled|limited directory

``filled``: the directory is a small file system of its own, which another file fills up. ``limited``: no file of this
process may become larger than it is. Prints the error of the epoch that failed, as the last line of a job that ended
well. Raises for anything that is lost.
"""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidemill.checkpoint.storage.storages import MemoryStorage, storage_for
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import TidemillError
from tidemill.testing import JobHarness

#: Of file systems and of files: enough for what a job writes at its start.
SMALL = 4 << 20
FILE_LIMIT = 64 << 10


@contextmanager
def filled(directory: Path) -> Iterator[None]:
    """Another file takes all the room that is left."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    yield
    filler.unlink()


@contextmanager
def limited(directory: Path) -> Iterator[None]:
    """The process may write no large files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def job_on(kind: str, directory: Path) -> JobHarness:
    def last(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        return records.key_by(lambda record: record[0]).map_with_state(keep).uid("last").name("last")

    def keep(record: tuple[int, bytes], before: bytes | None) -> tuple[Any, bytes]:
        return (record[0], len(record[1])), record[1]

    if kind == "checkpoints":
        return JobHarness(last, inputs=["records"], parallelism=1, storage=storage_for(str(directory / "job")))
    configuration = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(directory),
        "state.backend.rocksdb.writebuffer.size": "128kb",
    }
    return JobHarness(
        last, inputs=["records"], parallelism=1, workers=1, storage=MemoryStorage(), configuration=configuration
    )


def large(key: int) -> bytes:
    """Bytes that cannot be compressed."""
    return random.Random(key).randbytes(20_000)


def main(kind: str, way: str, directory: Path) -> str:
    fill = {"filled": filled, "limited": limited}[way]
    message = ""
    with job_on(kind, directory) as job:
        job.epoch(records=[(n, b"small") for n in range(10)])
        committed, state = job.head, job.state("last", "with-state")
        with fill(directory):
            try:
                for start in range(0, 1000, 50):
                    committed, state = job.head, job.state("last", "with-state")
                    job.epoch(records=[(n, large(n)) for n in range(start, start + 50)])
            except TidemillError as error:
                message = str(error)
            assert message, "there was room for everything"
        job.restart(crashed=True)
        assert job.head.runs == committed.runs, "an epoch was committed of which something is missing"
        assert job.state("last", "with-state") == state
        job.run()
        found = job.state("last", "with-state")
        assert set(found) >= set(range(50))
        assert all(len(value) == 20_000 for value in found.values())
        assert sorted({key for key, size in job.output() if size > 5}) == sorted(found)
    left = [path for path in directory.rglob(".tmp/*") if path.is_file()]
    assert not left, f"half a file is left: {left}"
    return message


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
