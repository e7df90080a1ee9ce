"""One noun means one thing: no two modules define a public class of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def classes_of(source: str) -> set[str]:
    """The public classes of a module."""
    return {
        node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def repeated(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The classes that more than one module defines, with these modules."""
    modules = defaultdict(list)
    for module, source in sources.items():
        for name in classes_of(source):
            modules[name].append(module)
    return {name: sorted(found) for name, found in modules.items() if len(found) > 1}


def test_no_class_has_the_name_of_another() -> None:
    paths = (SOURCE / "tidemill").rglob("*.py")
    found = repeated({str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in paths})
    assert not found, f"give each its own name: {found}"


def test_a_repeated_name_is_found() -> None:
    modules = {"a": "class Layout: ...\nclass _Own: ...", "b": "class Layout: ...\nclass _Own: ...", "c": "Layout = 1"}
    assert repeated(modules) == {"Layout": ["a", "b"]}
