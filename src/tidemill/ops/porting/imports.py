"""Rewrites imports of PyFlink to imports of Tidemill, by the positions of names in the syntax tree.

Text in strings and comments is unchanged, and so are layout, line ends and the encoding of the file.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["FROM", "TO", "PortedSource", "is_pyflink", "ported"]

FROM: Final = "pyflink"
TO: Final = "tidemill"

#: What is between ``from`` and the name of the module: white space, also continued on the next line.
_FROM: Final = re.compile(r"from(?:\s|\\\r?\n?)+")
#: A text that is the name of a module of PyFlink, as for ``importlib.import_module``.
_MODULE: Final = re.compile(rf"{FROM}(\.\w+)+")
#: Statements with names of their own.
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class PortedSource:
    """A program with its imports rewritten.

    ``lines`` are the lines that changed. ``strings`` are those with a text that names a module of PyFlink, which is not
    changed: only the program knows what it does with it.
    """

    text: str
    encoding: str
    tree: ast.Module
    lines: tuple[int, ...]
    strings: tuple[int, ...]

    @property
    def content(self) -> bytes:
        """The program as it is stored in a file."""
        return self.text.encode(self.encoding)


def is_pyflink(module: str | None) -> bool:
    """Whether a name is that of a module of PyFlink.

    >>> [is_pyflink(name) for name in ("pyflink", "pyflink.common", "pyflinks", None)]
    [True, True, False, False]
    """
    return module is not None and module.partition(".")[0] == FROM


def ported(content: bytes, name: str) -> PortedSource:
    """Rewrite the imports of a program. ``name`` is its file, for errors.

    Raises :class:`SyntaxError` if it is not a program of this version of Python.

    >>> print(ported(b"from pyflink.common import Types  # of pyflink", "job.py").text)
    from tidemill.common import Types  # of pyflink
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise SyntaxError(f"{name} is not encoded as {encoding}: {error.reason} at byte {error.start}") from error
    tree = ast.parse(text, name)
    source = _Source(text)
    places = sorted(set(_places(tree, source)), reverse=True)
    for place in places:
        text = text[:place] + TO + text[place + len(FROM) :]
    return PortedSource(
        text,
        encoding,
        ast.parse(text, name) if places else tree,
        tuple(sorted({source.line_at(place) for place in places})),
        tuple(sorted(set(_strings(tree)))),
    )


class _Source:
    """Converts positions of the syntax tree, which are bytes within a line, to positions in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = list(io.StringIO(text, newline=""))
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def place(self, line: int, column: int) -> int:
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def line_at(self, place: int) -> int:
        return bisect_right(self._starts, place)


def _places(tree: ast.Module, source: _Source) -> Iterator[int]:
    """The positions of the name of the package, where it is one."""
    binds = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and is_pyflink(node.module):
            start = source.place(node.lineno, node.col_offset)
            if (found := _FROM.match(source.text, start)) is not None:
                yield found.end()
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if is_pyflink(alias.name):
                    yield source.place(alias.lineno, alias.col_offset)
                    binds |= alias.asname is None
    if binds:
        for name in _uses(tree):
            yield source.place(name.lineno, name.col_offset)


def _uses(node: ast.AST) -> Iterator[ast.Name]:
    """Uses of the name that ``import pyflink`` binds, except in functions where it is a name of their own."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Name) and inner.id == FROM:
            yield inner
        if not (isinstance(inner, _SCOPES) and _binds_otherwise(inner)):
            yield from _uses(inner)


def _binds_otherwise(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    inside = list(ast.walk(function))
    return any(isinstance(node, ast.arg) and node.arg == FROM for node in inside) or any(
        isinstance(node, ast.Name) and node.id == FROM and isinstance(node.ctx, ast.Store) for node in inside
    )


def _strings(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            yield node.lineno
