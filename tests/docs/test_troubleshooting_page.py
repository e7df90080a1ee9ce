"""The messages that docs/troubleshooting.md explains are messages of the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^### `(.*)`$", PAGE, re.MULTILINE)
ANY = "…"


@cache
def texts() -> tuple[str, ...]:
    """Every text in the source, with ANY for what is filled in."""
    return tuple(text for path in (ROOT / "src").rglob("*.py") for text in texts_of(path.read_text(encoding="utf-8")))


def texts_of(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else ANY for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_there_are_enough() -> None:
    assert len(MESSAGES) >= 20
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_in_the_source(message: str) -> None:
    pattern = re.compile(".*".join(re.escape(part) for part in message.split(ANY)), re.DOTALL)
    assert any(pattern.search(text) for text in texts())
