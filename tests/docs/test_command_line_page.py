"""`docs/command-line.md` has the reference of the command line as it is, and its exit codes."""

from __future__ import annotations

from tests.docs.command_line_reference import PAGE, reference, written
from tests.docs.test_pages import tables_of
from tidemill.common.reports.exit_codes import ExitCode
from tidemill.ops.cli.failures import CommandExit


def test_the_reference_is_the_one_of_the_command_line() -> None:
    assert written() == reference().strip(), "write it with: python -m tests.docs.command_line_reference"


def test_every_exit_code_is_documented() -> None:
    told = [int(row[0]) for row in tables_of(PAGE, "Exit codes")[0][2:]]
    assert told == sorted({*map(int, ExitCode), *map(int, CommandExit)})
