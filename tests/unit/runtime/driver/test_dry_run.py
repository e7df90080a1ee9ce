"""A dry run: what a program would find of a savepoint or checkpoint, told without starting it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Types
from tidemill.common.configuration import Configuration
from tidemill.common.reports.upgrade_report import Outcome
from tidemill.datastream import StreamExecutionEnvironment, ValueStateDescriptor
from tidemill.datastream.functions.process import KeyedProcessFunction
from tidemill.errors import CheckpointError, ConfigurationError, StateMigrationError
from tidemill.testing import JobHarness


class Count(KeyedProcessFunction):
    def __init__(self, type_info: Any) -> None:
        self._type = type_info

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", self._type))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        yield value, self._count.value()


def program(directory: Path, type_info: Any = None, **settings: str) -> StreamExecutionEnvironment:
    """A job that counts numbers, in a directory of its own."""
    configuration = {
        "execution.target": "local",
        "execution.checkpointing.dir": str(directory),
        "execution.job-id": "counting",
        **settings,
    }
    env = StreamExecutionEnvironment(Configuration.from_dict(configuration))
    numbers = env.from_sequence(1, 5).uid("numbers")
    counted = numbers.key_by(lambda n: n % 2, Types.LONG()).process(Count(type_info or Types.LONG())).uid("count")
    counted.print().uid("out")
    return env


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """The directory of a job that has run."""
    program(tmp_path).execute()
    return tmp_path


def files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_job_is_compared_with_its_own_last_epoch(committed: Path) -> None:
    before = files(committed)
    report = program(committed, Types.DOUBLE()).check_upgrade()
    assert [(c.operator, c.state, c.outcome, c.stored, c.declared) for c in report.changes] == [
        ("numbers", "", Outcome.RESTORED, "position", "position"),
        ("count", "count", Outcome.REFUSED, "value(Long)", "value(Double)"),
    ]
    assert (report.job_id, report.epoch) == ("counting", 1)
    with pytest.raises(StateMigrationError, match=r"stored:   Long\n    declared: Double"):
        report.check()
    assert files(committed) == before


def test_a_program_that_fits_is_reported_as_compatible(committed: Path) -> None:
    report = program(committed).check_upgrade()
    assert report.refused == []
    report.check()
    assert str(report).splitlines() == [
        "From epoch 1 of job counting:",
        "",
        "operator                 uid      state  outcome   stored       declared",
        "-----------------------  -------  -----  --------  -----------  -----------",
        "Source: Sequence Source  numbers         restored  position     position",
        "KEYED PROCESS            count    count  restored  value(Long)  value(Long)",
    ]


def test_a_path_names_another_job_or_one_of_its_checkpoints(committed: Path) -> None:
    elsewhere = program(committed / "elsewhere", Types.BIG_INT())
    for path in (committed / "counting", committed / "counting" / "chk-1"):
        (change,) = elsewhere.check_upgrade(str(path)).of(Outcome.MIGRATED)
        assert (change.stored, change.declared) == ("value(Long)", "value(BigInteger)")
    with pytest.raises(CheckpointError, match="epoch 7 of job counting is not retained"):
        elsewhere.check_upgrade(str(committed / "counting" / "chk-7"))
    with pytest.raises(CheckpointError, match="neither a savepoint nor the directory of a job"):
        elsewhere.check_upgrade(str(committed / "nothing"))
    without_directory = StreamExecutionEnvironment(Configuration())
    without_directory.from_sequence(1, 5).print()
    with pytest.raises(ConfigurationError, match="the program has no state to start from"):
        without_directory.check_upgrade()
    assert not (committed / "nothing").exists()


def test_a_savepoint_is_compared_by_its_path(tmp_path: Path) -> None:
    def counting(env: Any, numbers: Any) -> Any:
        return numbers.key_by(lambda n: n, Types.LONG()).process(Count(Types.LONG())).uid("count")

    with JobHarness(counting, inputs=["numbers"]) as job:
        job.epoch(numbers=[1, 2, 3])
        path = job.savepoint(tmp_path)
    env = program(tmp_path / "new", Types.STRING(), **{"execution.state-recovery.path": path})
    report = env.check_upgrade()
    outcomes = {(c.operator, c.state): c.outcome for c in report.changes}
    assert outcomes == {("count", "count"): Outcome.REFUSED, ("input-numbers", ""): Outcome.REFUSED}
    assert not (tmp_path / "new").exists()


def test_a_program_can_be_run_dry(committed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dry = {"execution.state-recovery.dry-run": "true"}
    before = files(committed)
    capsys.readouterr()
    program(committed, **dry).execute()
    assert "restored  value(Long)" in capsys.readouterr().out
    with pytest.raises(StateMigrationError, match="Long cannot become String"):
        program(committed, Types.STRING(), **dry).execute()
    assert "refused   value(Long)  value(String)" in capsys.readouterr().out
    assert files(committed) == before
