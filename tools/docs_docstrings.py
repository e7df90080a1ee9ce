"""Docstrings as Markdown, for the API reference: an extension of griffe, which reads the source for mkdocstrings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

#: ``:class:`JobHarness```, ``:mod:`~tidemill.faults```: only the name is shown.
ROLE = re.compile(r":[a-z]+:`~?(?P<name>[^`]+)`")


def markdown_of(docstring: str) -> str:
    """A docstring whose roles are plain code, whose doctests are fenced, and without its notes for contributors."""
    paragraphs = re.split(r"\n{2,}", docstring)
    shown = "\n\n".join(text for text in paragraphs if not text.startswith(("For contributors:", "Start with ")))
    return "\n".join(_fenced(ROLE.sub(r"`\g<name>`", shown).splitlines()))


def _fenced(lines: list[str]) -> Iterator[str]:
    """Puts each doctest, which ends with an empty line, into a fence of its own."""
    fence = ""
    for line in lines:
        if not fence and line.lstrip().startswith(">>>"):
            indentation = line[: len(line) - len(line.lstrip())]
            fence = indentation + "```"
            yield from ("", fence + "pycon")
        elif fence and not line.strip():
            yield fence
            fence = ""
        yield line[:-2] + ":" if line.endswith("::") else line
    if fence:
        yield fence


class Docstrings(griffe.Extension):
    """Rewrites each docstring when its object has been read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        del kwargs
        if obj.docstring:
            obj.docstring.value = markdown_of(obj.docstring.value)
