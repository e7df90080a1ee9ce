"""The records that drivers leave: who lives, who has ended, how long they are remembered."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from pathlib import Path

import psutil
import pytest

from tidemill.errors import ConfigurationError
from tidemill.ops.drivers import records
from tidemill.ops.drivers.records import DriverJob, DriverRecord, RestAddress, driver_of, drivers, new_log, recorded
from tidemill.ops.errors import NotThereError


def test_a_driver_is_alive_while_it_runs_and_remembered_afterwards(home: Path) -> None:
    def program() -> None:
        with recorded("job.py", None) as record:
            looked_at(record)
            raise SystemExit(4)

    def looked_at(record: DriverRecord) -> None:
        record.put(DriverJob("a1", "first"), RestAddress("http://127.0.0.1:8081", "env:TOKEN"))
        (driver,) = drivers()
        assert (driver.alive, driver.rest) == (True, RestAddress("http://127.0.0.1:8081", "env:TOKEN"))
        record.put(DriverJob("a1", "first", status="FINISHED", savepoint="/s"))

    with pytest.raises(SystemExit):
        program()
    (driver,) = drivers()
    assert (driver.alive, driver.exit_code) == (False, 4)
    assert driver.jobs == (DriverJob("a1", "first", status="FINISHED", savepoint="/s"),)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in home.iterdir())
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_job_is_named_by_the_beginning_of_its_id_if_that_is_one(home: Path) -> None:
    with recorded("job.py", None) as record:
        record.put(DriverJob("abc-1", "one"))
        record.put(DriverJob("abc-2", "two"))
        record.put(DriverJob("abc", "three"))
        assert driver_of("abc-1")[1].name == "one"
        assert driver_of("abc")[1].name == "three"  # the very id, though others begin so
        with pytest.raises(NotThereError, match="the ids of several jobs start with 'ab': abc, abc-1, abc-2"):
            driver_of("ab")
        with pytest.raises(NotThereError, match="tidemill list"):
            driver_of("")


def test_of_two_drivers_of_a_job_the_one_that_lives_counts(home: Path) -> None:
    with recorded("living.py", None) as living:
        living.put(DriverJob("job", "job"))
        (path,) = home.glob("driver-*.json")
        newer = json.loads(path.read_text()) | {"program": "dead.py", "exit_code": 1}
        path.with_name("driver-999999999999999-1.json").write_text(json.dumps(newer))
        assert [driver.program for driver in drivers()] == ["dead.py", "living.py"]
        assert driver_of("job")[0].program == "living.py"


def test_two_records_of_one_moment_are_two(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000_000)
    with recorded("first.py", None), recorded("second.py", None):
        assert [(driver.program, driver.alive) for driver in drivers()] == [("second.py", True), ("first.py", True)]


def test_records_that_cannot_be_read_are_passed_over(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "driver-1-1.json").write_text("{")
    (home / "driver-2-2.json").write_text('{"version": 99}')
    assert drivers() == []


def test_the_oldest_of_many_ended_drivers_are_forgotten_with_their_logs(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_ENDED", 2)
    own = tmp_path / "mine.log"
    own.touch()
    logs = [own, *(new_log("job.py", "")[0] for _ in range(3))]
    for number, log in enumerate(logs):
        monkeypatch.setattr(time, "time_ns", lambda number=number: (number + 1) * 1_000_000)
        with recorded(f"{number}.py", str(log)):
            pass
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(home.parent))
    monkeypatch.setattr(records, "MOST_ENDED", 2)
    with recorded("now.py", None):
        assert [driver.program for driver in drivers()] == ["now.py", "3.py", "2.py"]
    assert [log.exists() for log in logs] == [True, False, True, True]


def test_a_job_does_not_end_because_it_cannot_be_noted(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with recorded("job.py", None) as record:
        with monkeypatch.context() as full:
            full.setattr(json, "dump", no_room)
            record.put(DriverJob("one", "one"))
        assert "may not find this driver's jobs" in caplog.text
        assert drivers()[0].jobs == ()
        record.put(DriverJob("two", "two"))
        assert [job.id for job in drivers()[0].jobs] == ["one", "two"], "when there is room again"


def no_room(*args: object, **options: object) -> None:
    if isinstance(args[0], int):
        os.close(args[0])  # a file that was opened to be written
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_where_there_is_no_room_nothing_begins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdopen", no_room)
    with pytest.raises(ConfigurationError, match=rf"to {home}: No space left on device. Set XDG_STATE_HOME"):
        new_log("job.py", "a: b")
    assert list(home.iterdir()) == [], "no log without a driver"
    with pytest.raises(ConfigurationError, match="No space left on device"), recorded("job.py", None):
        pass
    assert list(home.iterdir()) == [], "neither a lock nor half of a record"
    assert not [file for file in psutil.Process().open_files() if file.path.startswith(str(home))]


def test_without_a_place_for_records_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="Set XDG_STATE_HOME"):
        drivers()
