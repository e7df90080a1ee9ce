"""Only who can write to the directory of records proves to be the owner, and only for the one target."""

from __future__ import annotations

from pathlib import Path

from tidemill.ops.drivers.owner_proof import is_proven, proven
from tidemill.ops.drivers.records import records_directory


def test_a_request_of_the_owner() -> None:
    with proven("/anywhere") as name:
        assert is_proven(name, "/anywhere")
        assert not is_proven(name, "/elsewhere")
        assert (records_directory() / f"request-{name}").stat().st_mode & 0o077 == 0
    assert not is_proven(name, "/anywhere"), "it is over"


def test_what_proves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "other"
    target.write_text("/anywhere")
    (records_directory() / f"request-{'a' * 32}").symlink_to(target)
    for name in (None, "", "../other", "a" * 32, "b" * 32):
        assert not is_proven(name, "/anywhere")
