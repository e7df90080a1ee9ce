"""What the log of Spark's own file source says was read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemill.errors import CorruptFileError
from tidemill.spark.locations.file_source_log import logged_files


def entry(folder: Path, name: str, files: dict[str, int]) -> None:
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": batch}) for path, batch in files.items()]
    (folder / name).write_text("\n".join(["v1", *lines]))


def offset(number: int) -> str:
    return json.dumps({"logOffset": number})


def test_entries_up_to_the_position_were_read_and_later_ones_started(tmp_path: Path) -> None:
    entry(tmp_path, "1.compact", {"file:///in/a%20b": 0, "file:/in/c": 1})
    entry(tmp_path, "1", {"file:/in/c": 1})
    entry(tmp_path, "2", {"file:///in/d": 2, "file:///in/%25": 2})
    entry(
        tmp_path,
        "3.compact",
        {"file:///in/a%20b": 0, "file:/in/c": 1, "file:///in/d": 2, "file:///in/%25": 2, "file:///in/e": 3},
    )
    entry(tmp_path, "3", {"file:///in/e": 3})
    (tmp_path / ".3.crc").write_bytes(b"crc")
    found = logged_files(tmp_path, offset(2))
    assert found.read == {"/in/a b", "/in/c", "/in/d", "/in/%"}
    assert found.begun == ["/in/e"]
    entry(tmp_path, "4", {"s3a://bucket/f": 4})
    found = logged_files(tmp_path, offset(4))
    assert found.read == {"/in/a b", "/in/c", "/in/d", "/in/%", "/in/e", "s3a://bucket/f"}
    assert found.begun == []


def test_what_a_later_entry_replaces_may_be_gone(tmp_path: Path) -> None:
    entry(tmp_path, "2.compact", {"file:///in/a": 0, "file:///in/b": 1, "file:///in/c": 2})
    assert logged_files(tmp_path, offset(1)) == ({"/in/a", "/in/b"}, ["/in/c"])


def test_an_entry_that_is_missing_or_damaged_is_refused(tmp_path: Path) -> None:
    entry(tmp_path, "0", {"file:///in/a": 0})
    entry(tmp_path, "2", {"file:///in/c": 2})
    with pytest.raises(CorruptFileError, match=r"entry 1 of .* is missing"):
        logged_files(tmp_path, offset(2))
    (tmp_path / "1").write_text("v1\n{cut off")
    with pytest.raises(CorruptFileError, match="/1, an entry in the log of files that were read, is corrupt"):
        logged_files(tmp_path, offset(2))
    with pytest.raises(CorruptFileError, match="is corrupt"):
        logged_files(tmp_path / "nowhere", offset(0))
    with pytest.raises(CorruptFileError, match="is corrupt"):
        logged_files(tmp_path, "7")
