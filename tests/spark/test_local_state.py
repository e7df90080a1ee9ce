"""State on the local disk of Spark's workers: what is damaged there while a job runs is built again."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.spark.committed import committed_state
from tests.spark.jobs import durable, environment
from tests.spark.test_shapes import files, written
from tidemill.common import Types
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor

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


def test_damage_is_told_and_the_state_built_again_from_the_checkpoint(tmp_path: Path) -> None:
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
    assert "is damaged and will be built again from the checkpoint" in (tmp_path / "log").read_text()
    assert written(tmp_path / "out") == {f"{key} {times}": 1 for key in range(KEYS) for times in (1, 2)}
    counts = committed_state(tmp_path / "checkpoints" / "job")["count", "seen"]
    assert {key: seen[-1] for key, seen in counts.items()} == dict.fromkeys(range(KEYS), 2)
