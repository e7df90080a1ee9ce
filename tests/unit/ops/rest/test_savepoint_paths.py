"""Paths that clients name for savepoints: none of them leaves the directories that were configured."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.common import Configuration
from tidemill.errors import TidemillError
from tidemill.ops.rest.errors import BadRequestError, ForbiddenError, RestError
from tidemill.ops.rest.savepoint_paths import checked_path, roots_of


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paths") / "root"
    (root / "inside").mkdir(parents=True)
    (root.parent / "root-of-others").mkdir()
    (root / "way-out").symlink_to(root.parent)
    (root / "way-in").symlink_to(root / "inside")
    return root


@pytest.mark.parametrize("tail", ["", "/", "/inside", "/not/yet/there", "/inside/../inside", "/./inside", "/way-in/x"])
def test_paths_below_a_root_are_taken(root: Path, tail: str) -> None:
    assert Path(checked_path(f"{root}{tail}", [str(root)])).is_relative_to(root.resolve())
    assert checked_path(f"file://{root}{tail}", [str(root)]) == checked_path(f"{root}{tail}", [f"file://{root}"])


CORPUS = [
    "/etc",
    "/",
    "",
    ".",
    "relative",
    "../..",
    "ROOT/..",
    "ROOT/../root-of-others",
    "ROOT-of-others",
    "ROOT/inside/../../root-of-others",
    "ROOT/way-out",
    "ROOT/way-out/root-of-others",
    "ROOT/inside/%2e%2e/%2e%2e/x",
    "ROOT/%252e%252e/x",
    "ROOT/..%2f..%2fetc",
    "ROOT/inside\\..\\..\\x",
    "ROOT/\x00/../..",
    "ROOT/line\nbreak",
    "file:///etc",
    "file://ROOT/../root-of-others",
    "file://elsewhere/ROOT",
    "file:/etc",
    "FILE:///etc",
    "//server/share",
    "\\\\server\\share",
    "C:\\Windows",
    "http://ROOT",
    "ftp://x/ROOT",
    "s3://bucket/savepoints",
    "~/x",
    "$HOME",
    "ROOT/*",
    "ROOT" + "/x" * 1000,
]


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: quote(path)[:60] or "empty")
def test_other_paths_are_refused(root: Path, path: str) -> None:
    with pytest.raises((BadRequestError, ForbiddenError)):
        checked_path(path.replace("ROOT", str(root)), [str(root)])


@given(parts=st.lists(st.sampled_from(["..", ".", "", "inside", "way-out", "way-in", "x", "%2e%2e", "root-of-others"])))
def test_whatever_is_put_together_stays_inside(root: Path, parts: list[str]) -> None:
    try:
        found = checked_path("/".join([str(root), *parts]), [str(root)])
    except RestError:
        return
    assert Path(found).resolve().is_relative_to(root.resolve())
    assert Path(found).resolve() == Path(found), "what was checked is what is used"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("s3://bucket/savepoints/a", True),
        ("S3://bucket/savepoints", True),
        ("s3://bucket/savepoints-of-others", False),
        ("s3://bucket/savepoints/../x", False),
        ("s3://bucket/savepoints//x", False),
        ("s3://other/savepoints", False),
        ("s3://bucket@evil/savepoints/x", False),
        ("s3:///savepoints", False),
        ("gs://bucket/savepoints", False),
    ],
)
def test_object_stores_have_roots_too(path: str, allowed: bool) -> None:
    try:
        assert checked_path(path, ["s3://bucket/savepoints/"]).startswith("s3://bucket/savepoints")
        assert allowed
    except TidemillError:
        assert not allowed


def test_roots_are_those_of_the_configuration() -> None:
    configuration = Configuration()
    assert roots_of(configuration) == []
    configuration.set_string("execution.checkpointing.savepoint-dir", "/a")
    configuration.set_string("rest.savepoint-dirs", "/b;s3://c/d")
    assert roots_of(configuration) == ["/a", "/b", "s3://c/d"]
