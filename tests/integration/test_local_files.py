"""A job without Spark that watches a directory: killed, continued, and operated from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from tests.waiting import eventually
from tidemill.ops.cli.app import app

PROGRAM = """
import sys

from tidemill.common import Encoder, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy

folder = sys.argv[1]
env = StreamExecutionEnvironment.get_execution_environment()
rows = env.read_json(folder + "/in", "word STRING", {"maxFilesPerTrigger": "1"}, watch=True).uid("files")
pairs = rows.map(lambda row: (row.word, 1), Types.TUPLE([Types.STRING(), Types.LONG()])).uid("pairs")
counts = pairs.key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("counts")
lines = counts.map(lambda pair: f"{pair[0]}:{pair[1]}", Types.STRING()).uid("lines")
sink = FileSink.for_row_format(folder + "/out", Encoder.simple_string_encoder())
sink.with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
lines.sink_to(sink.build()).uid("sink")
env.execute("words")
"""


@pytest.fixture
def tidemill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))  # so this engine is the default

    def call(*arguments: str | os.PathLike[str]) -> Result:
        return CliRunner().invoke(app, list(map(str, arguments)), prog_name="tidemill")

    return call


def seen(folder: Path) -> Counter[str]:
    parts = [part for part in (folder / "out").rglob("*") if part.is_file() and not part.name.startswith(".")]
    return Counter(line for part in parts for line in part.read_text().splitlines())


def give(folder: Path, number: int) -> None:
    """Put a whole file into the directory."""
    hidden = folder / "in" / f".{number}"
    hidden.write_text("".join(json.dumps({"word": f"word{index % 3}"}) + "\n" for index in range(30)))
    hidden.rename(folder / "in" / str(number))


@pytest.mark.timeout(900)
def test_a_killed_driver_goes_on_exactly_once_and_obeys_the_command_line(
    tidemill: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "words.py").write_text(PROGRAM)
    settings = {
        "execution.job-id": "words",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.checkpointing.savepoint-dir": tmp_path / "savepoints",
    }
    defined = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]

    def start() -> psutil.Process:
        started = tidemill("run", "-d", *defined, tmp_path / "words.py", str(tmp_path))
        assert started.exit_code == 0, started.output
        found = re.search(r"in process (\d+)", started.stdout)
        assert found, started.stdout
        return psutil.Process(int(found[1]))

    expected: Counter[str] = Counter()
    for turn in range(3):
        for number in range(10):
            give(tmp_path, 10 * turn + number)
        expected.update(f"word{word}:{100 * turn + count}" for word in range(3) for count in range(1, 101))
        process = start()
        try:
            wanted = 300 * turn + (30 if turn < 2 else 300)
            eventually(lambda wanted=wanted: seen(tmp_path).total() >= wanted, 120)  # type: ignore[misc]
        finally:
            if turn < 2:
                process.send_signal(signal.SIGKILL)
                eventually(lambda process=process: not process.is_running())  # type: ignore[misc]
    assert seen(tmp_path) == expected

    listed = json.loads(tidemill("list", "--json").stdout)
    assert ("words", "RUNNING") in [(one["id"], one["status"]) for one in listed]
    state = tidemill("state", "get", "words", "counts", "_reduce_state", "word1", "--json")
    assert state.exit_code == 0, state.output
    assert "300" in state.stdout
    assert "is complete" in tidemill("savepoint", "words").stdout
    stopped = tidemill("stop", "words")
    assert stopped.exit_code == 0, stopped.output
    assert len(list((tmp_path / "savepoints").iterdir())) == 2
