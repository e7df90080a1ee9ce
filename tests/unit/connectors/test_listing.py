"""Which files a watched path has, whatever their names and dates are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.memory_objects import URI, MemoryObjects
from tidemill.connectors.file_system.listing import LocalListing, ObjectListing, glob_pattern, local_root
from tidemill.errors import ConfigurationError, ConnectorError


def found(root: Path | str, *, recursive: bool = False, known: tuple[str, ...] = ()) -> list[str]:
    listing = LocalListing(str(root), recursive=recursive)
    return sorted(file.path for file in listing.new_files(lambda path: path.rpartition("/")[2] in known))


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_count_whatever_their_names_and_dates_are(tmp_path: Path) -> None:
    names = ["a", "12:30", "a b", "a%20b", "a#?[*]{}\\", "a\nb", "=", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"]
    for number, name in enumerate(names):
        os.utime(write(tmp_path / name), (number * 1e9, number * 1e9))
    assert found(tmp_path) == sorted(str(tmp_path / name) for name in names)
    (file,) = LocalListing(str(tmp_path / "a"), recursive=False).new_files(lambda path: False)
    assert file == (str(tmp_path / "a"), 1, 0.0)
    assert found(tmp_path, known=("a", "=")) == sorted(str(tmp_path / name) for name in names if name not in ("a", "="))


def test_hidden_names_and_what_is_no_file_are_left_out(tmp_path: Path) -> None:
    for name in (".a", "_a", "a._COPYING_", ".b/c", "_b/c"):
        write(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    assert found(tmp_path, recursive=True) == []


def test_directories_below_count_if_they_name_columns_or_are_requested(tmp_path: Path) -> None:
    inside = write(tmp_path / "day=1" / "hour=2" / "a")
    plain = write(tmp_path / "b" / "c" / "d")
    (tmp_path / "b" / "back").symlink_to(tmp_path)
    assert found(tmp_path) == [str(inside)]
    assert found(tmp_path, recursive=True) == [str(plain), str(inside)]


def test_a_path_may_be_a_pattern_unless_it_exists(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a1" / "in" / "x"), write(tmp_path / "b[2]" / "in" / "y")
    assert found(tmp_path / "{a,b}*" / "in") == [str(one), str(two)]
    assert found(tmp_path / "b[2]" / "in") == [str(two)]
    assert found(tmp_path / "z*") == []


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="does not exist"):
        found(tmp_path / "nowhere")


def test_a_name_that_is_no_text_is_an_error_that_names_it(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")).write_text("x")
    with pytest.raises(ConnectorError, match=r"a\\udcff' .* is not UTF-8"):
        found(tmp_path)


def test_names_are_filtered(tmp_path: Path) -> None:
    write(tmp_path / "a.json")
    write(tmp_path / "a.tmp")
    accepts = glob_pattern("*.{json,csv}").fullmatch
    listing = LocalListing(str(tmp_path), recursive=False, accepts=lambda name: accepts(name) is not None)
    assert [file.path for file in listing.new_files(lambda path: False)] == [str(tmp_path / "a.json")]


def test_patterns_are_hadoops() -> None:
    for pattern, fits, does_not in (
        ("a[^b]c", "axc", "abc"),
        ("a\\*", "a*", "ab"),
        ("[!a-c]", "d", "b"),
        ("{a,b{c,d}}", "bd", "ad"),
        ("a,b", "a,b", "a"),
    ):
        assert glob_pattern(pattern).fullmatch(fits)
        assert not glob_pattern(pattern).fullmatch(does_not)


def test_only_paths_of_this_machine_are_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_root("in/a%20b/") == f"{tmp_path}/in/a%20b"
    assert local_root("file:/a/./b") == "/a/b"
    assert local_root("a:b") == f"{tmp_path}/a:b"
    assert local_root("s3a://a/b") is None


def test_objects_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = MemoryObjects(monkeypatch)
    listing = ObjectListing(URI, {}, recursive=False)
    for name in ("a:b", "a b", "day=1/c", "other/d", "_hidden", ".hidden/e"):
        objects.put(objects._store, name, b"xyz")
    files = listing.new_files(lambda path: path.endswith("a b"))
    assert sorted((file.path, file.size) for file in files) == [(f"{URI}/a:b", 3), (f"{URI}/day=1/c", 3)]
    assert listing.present([f"{URI}/a:b", f"{URI}/gone"]).keys() == {f"{URI}/a:b"}
    assert listing.read(f"{URI}/a:b") == b"xyz"
    everything = ObjectListing(URI, {}, recursive=True).new_files(lambda path: False)
    assert len(everything) == 4
    with pytest.raises(ConfigurationError, match="pattern"):
        ObjectListing("s3://bucket/*", {}, recursive=False)
