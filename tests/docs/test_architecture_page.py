"""The walks through the architecture name functions that exist, and each step names one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`(?P<path>[\w/]+\.py): (?P<name>[\w.]+)`")
WALKS = ("A record's way", "A checkpoint's way", "A restore")


@cache
def names_in(path: Path) -> frozenset[str]:
    """The functions and classes of a module, and the methods of its classes."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return frozenset(found)


def missing_in(page: str) -> list[str]:
    """The places that a page names and that do not exist."""
    missing = []
    for place in PLACE.finditer(page):
        path = ROOT / "src" / "tidemill" / place["path"]
        if not path.is_file() or place["name"] not in names_in(path):
            missing.append(place[0])
    return missing


def steps_of(heading: str) -> list[str]:
    """The numbered steps below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. .*(?:\n +.*)*", section, re.MULTILINE)


def test_every_named_function_exists() -> None:
    assert missing_in(PAGE) == []


@pytest.mark.parametrize("heading", WALKS)
def test_every_step_names_a_function(heading: str) -> None:
    steps = steps_of(heading)
    assert [step.partition(".")[0] for step in steps] == [str(number + 1) for number in range(len(steps))]
    assert len(steps) >= 8
    assert [step for step in steps if not PLACE.search(step)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "`runtime/no_such_file.py: run`",
        "`runtime/epoch.py: no_such_function`",
        "`runtime/epoch.py: Layout.no_such_method`",
    ],
)
def test_a_place_that_does_not_exist_is_found(wrong: str) -> None:
    assert missing_in(f"It runs: {wrong}.") == [wrong]


def test_the_glossary_is_sorted() -> None:
    glossary = PAGE.partition("\n## Glossary\n")[2]
    words = [row.split("|")[1].strip() for row in glossary.splitlines() if row.startswith("|")][2:]
    assert words == sorted(set(words))
