"""What is printed can be read by people and by programs, and the shell knows the verbs."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from typer.testing import CliRunner

from tests.unit.ops.cli.conftest import Tidemill
from tidemill.ops.cli import jobs
from tidemill.ops.cli.app import app
from tidemill.ops.cli.output import is_attended, print_table, progress, waiting
from tidemill.ops.drivers.records import DriverJob, recorded


def test_a_piped_table_is_neither_cut_nor_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count"), [("x" * 500, 1), ("[bold]not markup[/bold]", 100), (None, None)])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.splitlines()[1] == "x" * 500 + "      1"
    assert printed.splitlines()[2].split("]")[0] == "[bold"


def test_no_cell_steers_the_terminal_or_breaks_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("key", "count"), [("a\x1b]0;mine\x07\n\x9b2J\u202eé", 1)])
    assert capsys.readouterr().out.splitlines()[1].split() == [r"a\x1b]0;mine\x07\n\x9b2J\u202eé", "1"]


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("rows", 3) as done, waiting("for nothing"):
        done(3)
    assert capsys.readouterr() == ("", "")


def set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """A terminal that this process reads from, of 80 columns; its session is another than that of process 1."""
    person, process = pty.openpty()
    set_size(process, 24, 80)
    monkeypatch.setattr(os, "getsid", lambda pid: 4711)
    with os.fdopen(process, "w") as written, os.fdopen(os.dup(process)) as read:
        monkeypatch.setattr(sys, "stdin", read)
        yield written
    os.close(person)


def test_a_terminal_with_a_person_before_it_is_attended(terminal: TextIO) -> None:
    assert is_attended(terminal)


def test_the_terminal_of_a_container_is_its_log(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getsid", lambda pid: 1)
    assert not is_attended(terminal)


def test_a_terminal_without_a_size_has_no_user(terminal: TextIO) -> None:
    set_size(terminal.fileno(), 0, 0)
    assert not is_attended(terminal)


def test_what_reads_from_elsewhere_is_not_attended(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nothing:
        for other in (nothing, None):
            monkeypatch.setattr(sys, "stdin", other)
            assert not is_attended(terminal)


def test_a_pipe_is_not_attended(terminal: TextIO, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        assert not is_attended(log)


def test_a_full_disk_is_reported_in_one_line(tidemill: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/data/x.csv")

    monkeypatch.setattr(jobs, "print_json", full)
    result = tidemill("list", "--json")
    assert (result.exit_code, result.stderr) == (1, "error: /data/x.csv: No space left on device\n")


def test_no_arguments_ask_for_help(tidemill: Tidemill) -> None:
    assert "Commands:" in tidemill().output
    assert "Run a program" in tidemill("run", "--help").output


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("tidemill can", ["cancel"]), ("tidemill state ex", ["export"]), ("tidemill stop jo", ["job-1", "job-2"])],
)
def test_the_shell_completes_verbs_and_running_jobs(typed: str, offered: list[str]) -> None:
    with recorded("job.py", None) as record:
        record.put(DriverJob("job-1", "one"))
        record.put(DriverJob("job-2", "two"))
        record.put(DriverJob("other", "three"))
        asked = {"_TIDEMILL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        result = CliRunner().invoke(app, [], env=asked, prog_name="tidemill")
    assert result.stdout.split() == offered
