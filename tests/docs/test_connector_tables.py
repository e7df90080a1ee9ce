"""The tables of sources and sinks name all there are, with what the classes themselves say."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

from tidemill import connectors
from tidemill.connectors import sources
from tidemill.connectors.sinks import Sink
from tidemill.connectors.sources import Source

PAGE = Path(__file__).parents[2] / "docs" / "connectors" / "README.md"
GUARANTEES = ("exactly-once", "effectively-once", "at-least-once", "none")


def public(kind: type) -> dict[str, Any]:
    """The classes of a kind that connectors offer, and the building blocks, by name."""
    modules = [
        importlib.import_module(f"{connectors.__name__}.{module.name}")
        for module in pkgutil.iter_modules(connectors.__path__)
    ]
    found = {}
    for module in modules:
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, type) and issubclass(value, kind) and value not in (Sink, Source):
                found[name] = value
    return found


def rows(heading: str) -> dict[str, list[str]]:
    """The cells of a table by the classes that its first cell names."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = [line[1:-1].split("|") for line in section.splitlines() if line.startswith("|")][2:]
    return {name: [cell.strip() for cell in row] for row in table for name in re.findall(r"`(\w+)`", row[0])}


def test_every_source_is_listed_with_whether_it_can_be_read_again() -> None:
    told = rows("Sources")
    there = public(Source)
    assert set(told) >= set(there)
    for name, cells in told.items():
        source: Any = there.get(name) or getattr(sources, name)
        if name != "SplitSource":
            assert cells[-1].startswith("yes" if source.replayable else "no"), name


def test_every_sink_is_listed_with_its_guarantee() -> None:
    told = rows("Sinks")
    there = public(Sink)
    assert set(told) >= set(there)
    for name, cells in told.items():
        assert cells[-1].startswith(there[name].guarantee), name
        assert any(word in cells[-1] for word in GUARANTEES)


def test_the_page_leads_to_every_other_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [page.name for page in sorted(PAGE.parent.glob("*.md")) if f"({page.name}" not in text] == ["README.md"]
