"""Which files an epoch takes: each path once, in order, within bounds; what is gone is named or skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.waiting import eventually
from tidemill.connectors.file_system.listing import FileListing, FoundFile
from tidemill.errors import ConnectorError, LostInputError
from tidemill.runtime.driver.file_enumerator import FileBounds, FileEnumerator


class Shelf(FileListing):
    """A directory that tests can change: the files by path, with their size and date."""

    interval = 0.0

    def __init__(self, **files: tuple[int, float]) -> None:
        self.files = dict(files)
        self.listings = 0
        self.failure: Exception | None = None

    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        self.listings += 1
        if self.failure is not None:
            raise self.failure
        return [FoundFile(path, *about) for path, about in self.files.items() if not is_known(path)]

    def present(self, paths: Iterable[str]) -> dict[str, FoundFile]:
        return {path: FoundFile(path, *self.files[path]) for path in paths if path in self.files}


def of(shelf: Shelf, read: Iterable[str] = (), begun: Iterable[str] = (), **options: Any) -> FileEnumerator:
    return FileEnumerator(shelf, set(read), begun, where="the source", **options)


def take(files: FileEnumerator, bounds: FileBounds | None = None) -> list[str]:
    """What an epoch takes, once a listing that begins now has ended."""
    shelf = files._listing
    assert isinstance(shelf, Shelf)
    before = shelf.listings + 1  # one may be running
    eventually(lambda: (files.available(), shelf.listings > before)[1])
    return [file.path for file in files.take(bounds or FileBounds())]


def test_each_path_is_taken_once_whatever_its_dates_are() -> None:
    shelf = Shelf(new=(1, 1e12), old=(1, 0.0))
    files = of(shelf, read=["read"])
    shelf.files["read"] = (1, 5.0)
    assert take(files) == ["old", "new"]
    shelf.files.update(new=(1, 2e12), older=(1, -5.0), read=(1, 3e12))
    assert take(files) == ["older"]
    assert take(files) == []
    files.close()


def test_an_epoch_takes_so_many_files_or_bytes_but_at_least_one() -> None:
    shelf = Shelf(a=(50, 1.0), b=(60, 2.0), c=(10, 3.0), d=(10, 4.0), e=(10, 5.0))
    files = of(shelf)
    assert take(files, FileBounds(bytes=100)) == ["a"]
    assert files.pending_files == 4
    assert take(files, FileBounds(bytes=5)) == ["b"]
    assert take(files, FileBounds(files=2, bytes=100)) == ["c", "d"]
    assert take(files, FileBounds().at_most(5)) == ["e"]
    assert not files.available()
    files.close()


def test_the_latest_first_or_by_name_only() -> None:
    shelf = Shelf(**{"x/a": (1, 1.0), "x/b": (1, 2.0)})
    files = of(shelf, read=["z/old"], latest_first=True, by_name=True)
    assert take(files, FileBounds(files=1)) == ["x/b"]
    shelf.files.update({"y/c": (1, 3.0), "y/a": (1, 4.0), "y/old": (1, 5.0)})
    assert take(files) == ["y/c", "x/a"]
    files.close()


def test_what_was_started_comes_first_and_as_a_whole() -> None:
    shelf = Shelf(a=(1, 1.0), b=(1, 2.0), c=(1, 3.0))
    files = of(shelf, read=["a"], begun=["c", "a", "b"])
    assert files.available()
    assert take(files, FileBounds(files=1)) == ["c", "b"]
    assert take(files) == []
    files.close()


@pytest.mark.parametrize("begun", [True, False])
def test_a_file_that_is_gone_is_named_or_skipped(begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    def run(missing: str) -> tuple[FileEnumerator, list[str]]:
        shelf = Shelf(a=(1, 1.0), b=(1, 2.0))
        if begun:
            del shelf.files["a"]
        files = of(shelf, begun=["a", "b"] if begun else (), missing=missing)
        eventually(files.available)
        shelf.files.pop("a", None)
        return files, [file.path for file in files.take(FileBounds())]

    with pytest.raises(
        LostInputError, match=r"the source: files of the watched path were .* gone.*: a\. Put them back"
    ):
        run("fail")
    with caplog.at_level(logging.WARNING):
        files, taken = run("skip")
    assert taken == ["b"]
    assert files.skipped == 1
    assert ": a" in caplog.text


def test_a_skipped_file_that_comes_back_is_read() -> None:
    shelf = Shelf(b=(1, 1.0))
    files = of(shelf, begun=["a"], missing="skip")
    shelf.files["a"] = (1, 2.0)
    assert take(files) == ["b", "a"]
    files.close()


def test_a_listing_that_fails_fails_the_job() -> None:
    shelf = Shelf()
    shelf.failure = ConnectorError("the disk is gone")
    files = of(shelf)
    with pytest.raises(ConnectorError, match="the disk is gone"):
        eventually(files.available)
    files.close()


class Slow(Shelf):
    """A directory whose listing takes a while, by a clock that tests set."""

    now = 0.0
    takes = 0.0

    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        self.now += self.takes
        return super().new_files(is_known)


def test_listing_takes_a_tenth_of_the_time_at_most() -> None:
    shelf = Slow(a=(1, 1.0))
    shelf.takes = 30.0
    files = of(shelf, interval=1.0, clock=lambda: shelf.now)
    eventually(files.available)
    shelf.now = 329.0
    files.available()
    assert files._listed is None
    shelf.now = 331.0
    files.available()
    eventually(lambda: shelf.listings == 2)
    files.close()


def test_an_epoch_that_runs_meanwhile_is_no_time_of_listing() -> None:
    """A listing was taken to last as long as the epoch before which it began: new files waited ten times as long."""
    shelf = Slow(a=(1, 1.0))
    files = of(shelf, interval=1.0, clock=lambda: shelf.now)
    files.available()
    eventually(lambda: shelf.listings == 1)
    shelf.now = 30.0  # the epoch
    eventually(files.available)
    shelf.now = 32.0
    files.available()
    eventually(lambda: shelf.listings == 2)
    files.close()
