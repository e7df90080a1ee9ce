"""CONTRIBUTING shows the repository as it is: every room of the source, and every folder of tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
#: What stands before a name in the tree; four characters for each level.
BRANCH = re.compile(r"[│ ]*[├└]── ")


def paths_in(tree: str) -> Iterator[str]:
    """The files and folders that a tree names; several may share a line."""
    above: list[str] = []
    for line in tree.splitlines()[1:]:
        branch = BRANCH.match(line)
        assert branch, f"not a line of a tree: {line!r}"
        level = len(branch[0]) // 4
        names = re.split(r"\s{2,}", line[branch.end() :])[0].split(", ")
        for name in names:
            yield "/".join([*above[: level - 1], name.rstrip("/")])
        above[level - 1 :] = [names[0].rstrip("/")]


def rooms() -> set[str]:
    """The packages of the source, down to the second level."""
    source = ROOT / "src" / "tidemill"
    packages = {path.parent.relative_to(source) for path in source.rglob("__init__.py")} - {Path()}
    return {package.as_posix() for package in packages if len(package.parts) <= 2}


def modules() -> set[str]:
    """The modules beside the packages."""
    return {path.name for path in (ROOT / "src" / "tidemill").glob("*.py")} - {"__init__.py", "__main__.py"}


def test_the_tree_shows_every_room() -> None:
    (tree,) = re.findall(r"^```text\n(src/tidemill\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    named = list(paths_in(tree))
    assert sorted(named) == sorted(rooms() | modules())


def test_the_table_shows_every_folder_of_tests() -> None:
    folders = {path for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.*"))}
    named = re.findall(r"^\| `(tests/\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(named) == sorted(f"tests/{path.name}" for path in folders if path.name != "__pycache__")


def test_every_target_of_make_that_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", PAGE, re.MULTILINE))
    assert named
    assert named - targets == set()


def test_it_names_every_folder_of_python() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/*.py")}
    assert {name for name in folders if f"`{name}/" not in PAGE} == set()


def missing_in(section: str) -> list[str]:
    """The files and folders that a section names and that do not exist."""
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", section)
    assert named
    bases = (ROOT, ROOT / "src", ROOT / "src" / "tidemill")
    return [name for name in named if not any((base / name).exists() for base in bases)]


def test_every_file_to_change_exists() -> None:
    assert missing_in(PAGE.partition("\n## To add ...\n")[2].partition("\n## ")[0]) == []


def test_a_file_that_does_not_exist_is_seen() -> None:
    assert missing_in("`graph/plan.py`, `graph/`, `graph/no_such_file.py`") == ["graph/no_such_file.py"]


def test_a_tree_is_read() -> None:
    tree = (
        "src\n├── a.py, b.py    modules\n├── c/            one\n│   ├── d/, e/    two\n│   └── f.py\n└── g/\n    └── h/"
    )
    assert list(paths_in(tree)) == ["a.py", "b.py", "c", "c/d", "c/e", "c/f.py", "g", "g/h"]
