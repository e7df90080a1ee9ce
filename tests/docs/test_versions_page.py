"""The page on versions: what is deprecated, and until when."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import tidemill
from tests.docs.test_pages import DOCS, tables_of

SOURCE = Path(tidemill.__file__).parent


class Deprecated(NamedTuple):
    name: str
    instead: str
    removed_in: str


def deprecated() -> Iterator[Deprecated]:
    """The modules that announce their removal."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "deprecated_module(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "deprecated_module":
                name = ".".join(("tidemill", *path.relative_to(SOURCE).with_suffix("").parts))
                yield Deprecated(name, ast.literal_eval(node.args[1]), ast.literal_eval(node.keywords[0].value))


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_the_page_lists_what_is_deprecated() -> None:
    rows = tables_of(DOCS / "versions.md", "Deprecation")[0][2:]
    assert sorted(Deprecated(*(cell.strip("`") for cell in row)) for row in rows) == sorted(deprecated())


def test_what_is_due_is_gone() -> None:
    due = [one.name for one in deprecated() if numbers(one.removed_in) <= numbers(tidemill.__version__)]
    assert not due, "this version is to be without them: remove them, and their rows in docs/versions.md"
