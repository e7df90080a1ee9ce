"""Local directories: private, chosen as asked, removed when nobody needs them."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.state.rocksdb.stores import place
from tidemill.errors import LocalStateError
from tidemill.state.rocksdb import directories
from tidemill.state.rocksdb.directories import LocalDirectory, directory_for


def roots(tmp_path: Path, count: int) -> tuple[str, ...]:
    return tuple(str(tmp_path / f"disk-{number}") for number in range(count))


def disk_of(directory: LocalDirectory, tmp_path: Path) -> str:
    return directory.path.relative_to(tmp_path).parts[0]


def test_only_the_owner_can_look(tmp_path: Path) -> None:
    directory, found = directory_for(place(), roots(tmp_path, 1), "RANDOM")
    assert not found
    path = directory.path
    while path.name != "disk-0":
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
        path = path.parent
    directory.close(remove=True)
    assert [child for child in tmp_path.rglob("*") if child.is_file()] == []


def test_a_directory_that_others_could_look_into_is_made_private(tmp_path: Path) -> None:
    base = tmp_path / f"tidemill-rocksdb-{os.getuid()}"
    base.mkdir(mode=0o755)
    directory, _ = directory_for(place(), (str(tmp_path),), "RANDOM")
    assert stat.S_IMODE(base.stat().st_mode) == 0o700
    directory.close(remove=True)


def test_a_link_put_there_by_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"tidemill-rocksdb-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LocalStateError, match="belongs to another user"):
        directory_for(place(), (str(tmp_path),), "RANDOM")


def test_round_robin_goes_by_subtask(tmp_path: Path) -> None:
    made = [directory_for(place(subtask, parallelism=4), roots(tmp_path, 3), "ROUND_ROBIN")[0] for subtask in range(4)]
    assert [disk_of(directory, tmp_path) for directory in made] == ["disk-0", "disk-1", "disk-2", "disk-0"]


def test_random_uses_all(tmp_path: Path) -> None:
    made = [directory_for(place(job_id=f"job-{n}"), roots(tmp_path, 2), "RANDOM")[0] for n in range(30)]
    assert {disk_of(directory, tmp_path) for directory in made} == {"disk-0", "disk-1"}


def test_least_used_takes_the_disk_with_the_most_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        def __init__(self, free: int) -> None:
            self.free = free

    free = {"disk-0": 5, "disk-1": 7, "disk-2": 6}
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(free[Path(path).name]))
    directory, _ = directory_for(place(), roots(tmp_path, 3), "LEAST_USED")
    assert disk_of(directory, tmp_path) == "disk-1"


def test_a_disk_that_cannot_be_used_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "disk-0").write_text("a file")
    directory, _ = directory_for(place(), roots(tmp_path, 2), "ROUND_ROBIN")
    assert disk_of(directory, tmp_path) == "disk-1"


def test_no_disk_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "disk-0").write_text("a file")
    with pytest.raises(LocalStateError, match=r"disk-0: .*state\.backend\.rocksdb\.localdir"):
        directory_for(place(), roots(tmp_path, 1), "RANDOM")


def test_another_worker_may_be_first_to_lock_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tempfile.mkdtemp
    others: list[LocalDirectory | None] = []

    def taken_by_another(*arguments: str, **options: Any) -> str:
        path = made(*arguments, **options)
        if len(others) < 2:
            others.append(directories._take(Path(path), create=True))
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", taken_by_another)
    directory, left = directory_for(place(), roots(tmp_path, 1), "ROUND_ROBIN")
    assert not left
    assert directory.path not in [other.path for other in others if other is not None]


def test_the_next_worker_finds_what_is_left_on_any_disk(tmp_path: Path) -> None:
    directory, _ = directory_for(place(), roots(tmp_path, 3), "RANDOM")
    path = directory.path
    directory.close(remove=False)
    again, found = directory_for(place(), roots(tmp_path, 3), "LEAST_USED")
    assert (again.path, found) == (path, True)


def test_other_key_groups_or_another_subtask_find_nothing(tmp_path: Path) -> None:
    directory, _ = directory_for(place(0, parallelism=2), (str(tmp_path),), "RANDOM")
    directory.close(remove=False)
    for other in (place(1, parallelism=2), place(0, parallelism=1), place(0, parallelism=2, job_id="other")):
        assert directory_for(other, (str(tmp_path),), "RANDOM")[1] is False


def test_what_had_no_owner_for_an_hour_is_removed_whatever_its_job(tmp_path: Path) -> None:
    held, _ = directory_for(place(job_id="running"), (str(tmp_path),), "RANDOM")
    dead, _ = directory_for(place(job_id="dead"), (str(tmp_path),), "RANDOM")
    recent, _ = directory_for(place(job_id="recent"), (str(tmp_path),), "RANDOM")
    dead.close(remove=False)
    recent.close(remove=False)
    for directory in (held, dead):
        os.utime(directory.path / "owner.lock", (0, time.time() - 4000))
    directory_for(place(job_id="new"), (str(tmp_path),), "RANDOM")
    assert (held.path.exists(), dead.path.exists(), recent.path.exists()) == (True, False, True)
    assert not dead.path.parent.exists()
