"""One name means one thing: no two modules define a public class or function of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

#: Names that stand for one thing in several modules.
SAME_THING = {
    "main": "what `python -m` runs",
    "run": "the verb of the command line, and what executes a program",
    "dispose": "the verb of the command line, and its REST path",
    "check_upgrade": "the method of the environment loads it by name from the runtime",
    "to_dataframe": "the method of a stream loads it by name from the Spark package",
}


def defined(source: str) -> set[str]:
    """The public classes and functions of a module."""
    nodes = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(source).body if isinstance(node, nodes) and not node.name.startswith("_")}


def repeated(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The names that more than one module defines, with these modules."""
    modules = defaultdict(list)
    for module, source in sources.items():
        for name in defined(source):
            modules[name].append(module)
    return {name: sorted(found) for name, found in modules.items() if len(found) > 1}


@cache
def repeated_here() -> dict[str, list[str]]:
    """The names that more than one module of the package defines."""
    paths = (SOURCE / "tidemill").rglob("*.py")
    return repeated({str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in paths})


def test_no_name_is_defined_twice() -> None:
    found = {name: modules for name, modules in repeated_here().items() if name not in SAME_THING}
    assert not found, f"give each its own name: {found}"


def test_no_exception_is_unused() -> None:
    assert repeated_here().keys() >= SAME_THING.keys()


def test_a_repeated_name_is_found() -> None:
    modules = {
        "a": "class Layout: ...\ndef _own(): ...",
        "b": "async def Layout(): ...\ndef _own(): ...",
        "c": "Layout = 1",
    }
    assert repeated(modules) == {"Layout": ["a", "b"]}
