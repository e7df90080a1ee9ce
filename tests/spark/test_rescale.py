"""Another parallelism while a job runs on Spark: nothing is lost or repeated, and subtasks keep their lanes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.committed import committed_head, committed_state
from tests.spark.jobs import durable, environment
from tests.spark.test_shapes import files
from tests.waiting import eventually
from tidemill.common import Types
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.usefixtures("spark")


class Noted(KeyedProcessFunction):
    """Counts; leaves a line for each open() and close(), in a file named after parallelism, subtask and lane."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        place = runtime_context.get_number_of_parallel_subtasks(), runtime_context.get_index_of_this_subtask()
        self.name = f"{place[0]}-{place[1]}-{os.environ['TIDEMILL_LANE']}"
        self.note("open")

    def close(self) -> None:
        self.note("close")

    def note(self, what: str) -> None:
        with (Path(self.folder) / self.name).open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()} {count}"


def lines(folder: Path) -> Counter[str]:
    return Counter(line for path in folder.glob("[!.]*") for line in path.read_text().split("\n") if line)


def test_a_running_job_gets_wider_and_narrower(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    env = environment({**durable(tmp_path / "checkpoints"), "execution.epoch.max-records": "20"})
    numbers = env.from_sequence(1, 10_000_000).uid("numbers")  # more than it comes to before it is stopped
    counts = numbers.key_by(lambda n: n % 13).process(Noted(notes)).uid("noted")
    counts.sink_to(files(tmp_path / "out")).uid("sink")
    client = env.execute_async("rescaled")
    directory = tmp_path / "checkpoints" / "job"
    for width in (2, 1, 4, 3):
        client.rescale(width).result(timeout=60)
        head = committed_head(directory)
        assert (head.parallelism["numbers"], head.parallelism["noted"]) == (width, width)
        if width == 1:
            gone = (notes / "2-1-1").read_text().split()
            assert gone == ["open", "close"], "no task comes by any more where the second subtask was"
        eventually(lambda: committed_head(directory).epoch > head.epoch + 3)  # noqa: B023
    client.stop_with_savepoint(False, str(tmp_path / "saved")).result(timeout=60)

    last = sum(lines(tmp_path / "out").values())
    assert committed_head(directory).sources["numbers"] == last + 1
    per_key = {key: len(range(key or 13, last + 1, 13)) for key in range(13)}
    assert lines(tmp_path / "out") == Counter(f"{key} {n}" for key in per_key for n in range(1, per_key[key] + 1))
    assert committed_state(directory)["noted", "count"] == per_key
    # A subtask has the same lane at any parallelism, and it to itself: more subtasks than cores stay warm, too.
    assert {path.name: path.read_text().split() for path in notes.iterdir()} == {
        f"{width}-{subtask}-{subtask}": ["open", "close"] for width in (2, 1, 4, 3) for subtask in range(width)
    }


def test_a_streaming_query_is_rescaled_and_started_again_at_another_parallelism(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "in").mkdir()
    directory = tmp_path / "checkpoints" / "job"

    def write(number: int) -> None:
        rows = "".join(json.dumps({"k": f"k{n % 5}"}) + "\n" for n in range(20))
        (tmp_path / f"{number}.tmp").write_text(rows)
        (tmp_path / f"{number}.tmp").rename(tmp_path / "in" / f"{number}.json")

    def start(**more: str) -> Any:
        env = environment(durable(tmp_path / "checkpoints", **more))
        stream = env.read_json(str(tmp_path / "in"), "k STRING", {"maxFilesPerTrigger": "1"}, watch=True)
        counts = stream.key_by(lambda row: row.k, Types.STRING()).process(Noted(tmp_path / "notes")).uid("noted")
        counts.sink_to(files(tmp_path / "out")).uid("sink")
        return env.execute_async("rescaled stream")

    def counted() -> int:
        return sum(lines(tmp_path / "out").values())

    write(1)
    client = start()
    eventually(lambda: counted() == 20)
    client.rescale(3).result(timeout=60)  # needs no input
    assert committed_head(directory).parallelism["noted"] == 3
    write(2)
    eventually(lambda: counted() == 40)
    client.cancel().result(timeout=60)
    client = start(**{"parallelism.default": "1"})
    write(3)
    eventually(lambda: counted() == 60)
    assert committed_head(directory).parallelism["noted"] == 1
    client.cancel().result(timeout=60)
    assert lines(tmp_path / "out") == Counter(f"k{key} {n}" for key in range(5) for n in range(1, 13))
