"""The list of jobs: a table that fits a terminal, filters, what is forgotten. Completion, and the style of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tidemill.ops.cli import jobs
from tidemill.ops.cli.arguments import known_jobs, recorded_jobs
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.drivers.records import DriverJob, drivers, recorded

IDS = ["0123456789abcdef0123456789abcdef", "orders-of-the-northern-shops", "orders-of-the-northern-coast"]


@pytest.fixture
def ended(tmp_path: Path) -> None:
    """Three jobs of a driver that has ended."""
    with recorded("job.py", None) as record:
        for number, job in enumerate(IDS):
            status = "FAILED" if number == 0 else "FINISHED"
            record.put(DriverJob(job, "a rather long name of a job", str(tmp_path / job), status))


@pytest.mark.usefixtures("ended")
def test_a_terminal_gets_a_table_of_at_most_80_columns(tidemill: Tidemill) -> None:
    lines = [
        jobs._JobLine(job, "a rather long name of a job", "RESTARTING", 123_456, 0, 1023 << 20, "/checkpoints")
        for job in IDS[:2]
    ]
    now = 999 * 86_400_000
    widths = [max(len(str(jobs._narrow(line, IDS[:2], now)[column])) for line in lines) for column in range(6)]
    assert sum(widths) + 2 * 5 <= 80
    assert jobs._narrow(lines[0], IDS, now)[0] == IDS[0][:16]
    assert jobs._narrow(lines[1], IDS, now)[0] == IDS[1], "the beginning would name two jobs"
    assert IDS[1] in tidemill("list").stdout, "a pipe gets all of it"
    assert str(Path(IDS[1])) in tidemill("list", "--wide").stdout


@pytest.mark.usefixtures("ended")
def test_filters_and_prune(tidemill: Tidemill) -> None:
    def ids(*options: str) -> list[str]:
        return [one["id"] for one in json.loads(tidemill("list", "--json", *options).stdout)]

    assert sorted(ids()) == sorted(IDS)
    assert ids("--status", "failed") == IDS[:1]
    assert ids("--running") == []
    with recorded("other.py", None) as record:
        record.put(DriverJob("alive", "alive"))
        assert ids("--running") == ["alive"]
        assert known_jobs() == ["alive"]
        assert sorted(recorded_jobs()) == sorted(IDS), "those that have a directory"
        assert ids("--prune") == ["alive"]
    assert len(drivers()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "error: missing argument 'PROGRAM'; see 'tidemill run -h'\n"),
        (("nothing",), "error: no such command 'nothing'; see 'tidemill -h'\n"),
        (("state", "nothing"), "error: no such command 'nothing'; see 'tidemill state -h'\n"),
        (("list", "--xyz"), "error: no such option: --xyz; see 'tidemill list -h'\n"),
    ],
)
def test_usage_errors_look_like_other_errors(tidemill: Tidemill, arguments: tuple[str, ...], message: str) -> None:
    result = tidemill(*arguments)
    assert result.exit_code == CommandExit.USAGE
    assert result.stderr == message


def test_help_without_a_command(tidemill: Tidemill) -> None:
    assert "Commands:" in tidemill("state").output
