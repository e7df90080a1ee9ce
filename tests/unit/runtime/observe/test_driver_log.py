"""The end of a driver's log: how much of it is read, and how it is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.runtime.observe import driver_log
from tidemill.runtime.observe.driver_log import LOG_VARIABLE, LogPart, log_of_this_process, read_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "driver.log"
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


def test_the_last_lines_are_read_and_it_is_said_whether_there_are_others(log: Path) -> None:
    assert read_log(log, 2) == LogPart(["two", "three"], skipped=True, end=14)
    assert read_log(log, 3) == LogPart(["one", "two", "three"], skipped=False, end=14)
    assert read_log(log, 0).lines == []


def test_it_is_followed_by_whole_lines(log: Path) -> None:
    end = read_log(log, 10).end
    with log.open("ab") as file:
        file.write(b"four\nfi")
    assert read_log(log, 10, end) == LogPart(["four"], skipped=False, end=19)
    assert read_log(log, 10, 19) == LogPart([], skipped=False, end=19), "it is not finished"
    assert read_log(log, 10).lines[-1] == "fi", "who does not follow sees it"
    with log.open("ab") as file:
        file.write(b"ve\n")
    assert read_log(log, 10, 19).lines == ["five"]


def test_a_log_that_was_started_again_is_read_from_its_beginning(log: Path) -> None:
    log.write_bytes(b"anew\n")
    assert read_log(log, 10, after=14) == LogPart(["anew"], skipped=False, end=5)


def test_of_a_long_log_only_the_end_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_log, "MOST_BYTES", 8)
    assert read_log(log, 10) == LogPart(["three"], skipped=True, end=14), "the rest of 'two' is no line"


def test_progress_bars_and_foreign_bytes_do_no_harm(log: Path) -> None:
    log.write_bytes(b"[Stage 0:>  ]\r[Stage 0:=> ]\r\r\n\xff\n")
    assert read_log(log, 10).lines == ["[Stage 0:=> ]", "\N{REPLACEMENT CHARACTER}"]


def test_the_log_of_this_process_is_the_file_that_the_environment_names(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOG_VARIABLE, str(log))
    assert log_of_this_process() == log
    for other in ("", str(log.parent), str(log.parent / "none")):
        monkeypatch.setenv(LOG_VARIABLE, other)
        assert log_of_this_process() is None
