"""State on the local disk of Spark's workers: what is damaged there while a job runs is built again, and what killed
workers leave there is built upon only where it is known what it stands for."""

from __future__ import annotations

import json
import logging
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.spark.committed import committed_head, committed_state
from tests.spark.jobs import add_file, durable, environment
from tests.spark.test_rescale import lines
from tests.spark.test_shapes import files, written
from tests.waiting import eventually
from tidemill.common import Duration, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import EventTimeSessionWindows, ProcessWindowFunction
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.testing.simulation.disks import fast_directory

pytestmark = pytest.mark.usefixtures("spark")

KEYS = 1500
EPOCH = 500


class Damaging(KeyedProcessFunction):
    """Counts per key. At its first second record, ever, it overwrites all files of its store with zeros."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LIST(Types.LONG())))
        self.handler = logging.FileHandler(Path(self.folder) / "log")
        logging.getLogger("tidemill").addHandler(self.handler)

    def close(self) -> None:
        logging.getLogger("tidemill").removeHandler(self.handler)
        self.handler.close()

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        seen = self.seen.value() or [0] * 20
        seen[-1] += 1
        self.seen.update(seen)
        if value >= KEYS and not (Path(self.folder) / "damaged").exists():
            damaged = 0
            for path in Path(self.folder, "local").rglob("*.sst"):
                with suppress(FileNotFoundError), path.open("r+b") as file:  # the store may just have merged it
                    damaged += file.write(bytes(path.stat().st_size))
            (Path(self.folder) / "damaged").write_text(str(damaged))
        yield f"{value % KEYS} {seen[-1]}"


def test_damage_is_reported_and_the_state_built_again_from_the_checkpoint(tmp_path: Path) -> None:
    options = {
        "execution.epoch.max-records": str(EPOCH),
        "parallelism.default": "1",
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
        "state.backend.rocksdb.writebuffer.size": "64kb",
        "state.backend.rocksdb.cached-values": "0",
    }
    env = environment({**durable(tmp_path / "checkpoints"), **options})
    numbers = env.from_collection(list(range(2 * KEYS)))
    numbers.key_by(lambda n: n % KEYS).process(Damaging(tmp_path)).uid("count").sink_to(files(tmp_path / "out"))
    env.execute("damaged")
    assert int((tmp_path / "damaged").read_text()) > 0, "there was nothing on disk"
    assert "is damaged and will be rebuilt from the checkpoint" in (tmp_path / "log").read_text()
    assert written(tmp_path / "out") == {f"{key} {times}": 1 for key in range(KEYS) for times in (1, 2)}
    counts = committed_state(tmp_path / "checkpoints" / "job")["count", "seen"]
    assert {key: seen[-1] for key, seen in counts.items()} == dict.fromkeys(range(KEYS), 2)


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.at)


class Numbers(ProcessWindowFunction):
    """A window and what it holds."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        yield session(key, context.window().start, [row.n for row in elements])


def session(key: str, start: int, numbers: Iterable[int]) -> str:
    return f"{key} {start} {'+'.join(map(str, sorted(numbers)))}"


@pytest.fixture
def local() -> Iterator[Path]:
    """A local directory that is fast: RocksDB waits for the disk with each file that it writes."""
    with tempfile.TemporaryDirectory(prefix="local-state-", dir=fast_directory()) as folder:
        yield Path(folder)


def owners(folder: Path) -> set[int]:
    """The processes that have a store open below a folder."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(Path(file.path).is_relative_to(folder) for file in process.open_files()):
                found.add(process.pid)
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_killed_workers_left_does_not_come_back_after_rescales(tmp_path: Path, local: Path) -> None:
    """Workers that have loaded their state, and folded nothing into it, are killed: the rows on their disks stand for
    no committed version. Windows that they hold fire elsewhere, and merges forget them. Then the job comes back to
    where the dead workers were."""
    (tmp_path / "in").mkdir()
    directory, keys = tmp_path / "checkpoints" / "job", [f"k{number}" for number in range(30)]
    options = {
        "execution.epoch.snapshot-interval": "2",
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(local),
        # RocksDB writes to disk nearly all that it is given, as it does with a state that is larger than its memory.
        "state.backend.rocksdb.memory.fixed-per-slot": "16 kb",
        "state.backend.rocksdb.write-batch-size": "1 kb",
    }
    env = environment(durable(tmp_path / "checkpoints", **options))
    rows = env.read_json(
        str(tmp_path / "in"), "k STRING, at LONG, n LONG, more STRING", {"maxFilesPerTrigger": "1"}, watch=True
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    timed = rows.uid("rows").map(lambda row: row).set_parallelism(1)
    timed = timed.assign_timestamps_and_watermarks(times).set_parallelism(1)
    windows = timed.key_by(lambda row: row.k, Types.STRING()).window(
        EventTimeSessionWindows.with_gap(Duration.of_millis(90))
    )
    windows.process(Numbers()).uid("sessions").sink_to(files(tmp_path / "out")).uid("sink")
    client = env.execute_async("killed and rescaled")

    def add(batch: int) -> None:
        """A session for each key; those of the batch before have ended, and show."""
        made = [{"k": key, "at": 1000 * batch + 10 * n, "n": n, "more": 300 * "x"} for n in (0, 1) for key in keys]
        add_file(tmp_path / "in" / f"{batch}.json", "".join(json.dumps(row) + "\n" for row in made))
        shown = ended(batch - 1)
        eventually(lambda: lines(tmp_path / "out") >= shown, seconds=200, what=f"the sessions of batch {batch - 1}")

    def ended(batches: int) -> Counter[str]:
        return Counter(session(key, 1000 * batch, (0, 1)) for batch in range(1, batches + 1) for key in keys)

    def at_rest() -> bool:
        return committed_head(directory).parallelism["sessions"] == 3

    add(1)
    add(2)
    client.rescale(3).result(timeout=200)  # by an epoch without input; there is no other until there is input
    eventually(lambda: at_rest() and list(local.rglob("*.sst")), what="rows on disk")
    killed = owners(local)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    client.rescale(1).result(timeout=200)
    for batch in (3, 4, 5):
        add(batch)
    client.rescale(3).result(timeout=200)
    for batch in (6, 7):
        add(batch)
    client.cancel().result(timeout=200)
    assert lines(tmp_path / "out") == ended(6)
