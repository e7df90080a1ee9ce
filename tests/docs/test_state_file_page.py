"""docs/state-file-format.md is complete: a stranger's reader, taken from the page, reads what a job left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown_blocks import blocks_of
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import Types
from tidemill.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.state.codecs.base import ColumnCodec
from tidemill.state.codecs.tagged_reader import _READERS
from tidemill.testing import JobHarness

PAGE = (Path(__file__).parents[2] / "docs" / "state-file-format.md").read_text(encoding="utf-8")
(READER,) = [block.text for block in blocks_of(PAGE) if "def container" in block.text]

# What a reader does with the rows is the page's table of operations, for each kind.
REPLAY = """
import sys
from pathlib import Path

import duckdb

directory = Path(sys.argv[1])

def replay(state):
    found = {}
    for row in rows(directory, "op", state).to_pylist():
        key, op, value = row["key"], row["op"], row["value"]
        if state == "map":
            entries = found.setdefault(key, {})
            if op == 3:
                entries.clear()
            elif op == 1:
                entries.pop(row["user_key"], None)
            else:
                entries[row["user_key"]] = value
            if not entries:
                del found[key]
        elif op == 1:
            found.pop(key, None)
        elif op == 2:
            found[key] = found.get(key, []) + value
        else:
            found[key] = value
    return found

written = rows(directory, "op", "value")
last = '''
    select key, value from written
    qualify row_number() over (partition by key order by written desc) = 1 and op = 0
'''
print(json.dumps([{state: replay(state) for state in ("value", "list", "map")}, dict(duckdb.sql(last).fetchall())]))
"""


class Store(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, n = value
        if n % 7 == 0:
            self.value.clear()
            self.list.clear()
            self.map.clear()
        else:
            self.value.update(n)
            self.list.add(n)
            self.map.put(f"m{n % 3}", n)
            if n % 5 == 0:
                self.map.remove("m1")
        yield value


def build(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
    return records.key_by(lambda record: record[0], Types.STRING()).process(Store()).uid("op")


@pytest.mark.parametrize("inline", ["64kb", "0"])
def test_a_strangers_reader(tmp_path: Path, inline: str) -> None:
    job_directory = tmp_path / "job"
    storage = LocalStorage(job_directory, durable=False)
    settings = {"state.inline-delta-size": inline}
    with JobHarness(build, inputs=["records"], storage=storage, merge_after=4, configuration=settings) as job:
        for epoch in range(11):
            job.epoch(records=[(f"k{n % 13}", n) for n in range(epoch * 20, epoch * 20 + 20)])
        expected = {state: job.state("op", state) for state in ("value", "list", "map")}
    kinds = {path.suffix for path in job_directory.rglob("*") if path.is_file() and path.parent.name != "manifests"}
    assert ".tm" in kinds  # there is a snapshot, and with nothing inline there are files of state
    assert (".tms" in kinds) == (inline == "0")
    script = tmp_path / "reader.py"
    script.write_text("import sys\nsys.modules['tidemill'] = None\n" + READER + REPLAY, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-I", str(script), str(job_directory)], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    replayed, queried = json.loads(result.stdout)
    assert replayed == expected
    assert queried == expected["value"]


def test_the_reader_is_short_and_needs_no_tidemill() -> None:
    assert "tidemill" not in READER
    assert len([line for line in READER.splitlines() if line.strip()]) <= 50


def test_the_page_names_every_codec() -> None:
    table = PAGE.split("### Encodings")[1].split("A **tagged** value")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    named = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    missing = ColumnCodec._codecs.keys() - named - {"any"}  # what AnyCodec chooses has another name
    assert not missing


def test_the_page_names_every_tag() -> None:
    table = PAGE.split("A **tagged** value")[1].split("`P` occurs only")[0]
    assert {tag.decode() for tag in _READERS} <= set(re.findall(r"`(\w)`", table))
