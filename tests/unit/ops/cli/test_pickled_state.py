"""State of no declared type is pickled: the command line shows it, and runs nothing of it unless it is allowed to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction
from tidemill.datastream.state import ValueStateDescriptor

LOADED: list[str] = []


def loaded(name: str) -> Opaque:
    LOADED.append(name)
    return Opaque(name)


class Opaque:
    """Only its pickle knows what it is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return loaded, (self.name,)


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):  # type: ignore[no-untyped-def]
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        self.kept.update(Opaque(value[1]))
        yield value


@pytest.fixture
def job(tmp_path: Path) -> Path:
    settings = {
        "execution.target": "local",
        "execution.checkpointing.dir": str(tmp_path / "jobs"),
        "execution.job-id": "pickled",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    rows = env.from_collection([(("ann", 1), "x"), (("bob", 2), "y")]).uid("rows")
    list(rows.key_by(lambda row: row[0]).process(Keep()).uid("keep").execute_and_collect())
    LOADED.clear()
    return tmp_path / "jobs" / "pickled"


def test_nothing_is_unpickled_unless_allowed(tidemill: Tidemill, job: Path) -> None:
    arguments = ("state", "get", job, "keep", "kept", '["ann", 1]', "--json")
    (entry,) = json.loads(tidemill(*arguments).stdout)["entries"]
    assert entry["key"] == ["ann", 1]
    assert list(entry["value"]) == ["$pickle"]
    assert tidemill("state", "scan", job, "keep", "kept").exit_code == 0
    assert not LOADED
    tidemill(*arguments, "--allow-pickle")
    assert LOADED
