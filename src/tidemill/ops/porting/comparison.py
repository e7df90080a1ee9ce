"""Compares what a program uses with what is here, and collects the findings."""

from __future__ import annotations

import ast
from typing import Final

from tidemill.datastream.functions.base import Function
from tidemill.ops.porting.differences import ATTRIBUTE, advice_for, differences_of
from tidemill.ops.porting.findings import Remark, Weight
from tidemill.ops.porting.imports import FROM, TO
from tidemill.ops.porting.lookup import Absent, Known, is_ours, refused_arguments

__all__ = ["Comparison", "path_of"]


#: How the docstring of a method begins that does not do what it does in PyFlink.
_DOCUMENTED: Final = {"Accepted": Weight.NOTE, "Rejected": Weight.MISSING}


class Comparison:
    """The findings about the uses of names."""

    def __init__(self) -> None:
        self.found: set[Remark] = set()

    def absent(self, line: int, name: str, absent: Absent) -> None:
        """A name that does not exist here."""
        name = f"{FROM}{name.removeprefix(TO)}" if name.partition(".")[0] == TO else name
        if absent.package is not None:
            self._add(line, name, Weight.NOTE, f"needs the package {absent.package}, which is not installed here")
        else:
            self._add(line, name, Weight.MISSING, advice_for(name))

    def used(self, line: int, found: Known, call: ast.Call | None) -> None:
        """An object that is used, by a call or otherwise."""
        for one in differences_of(found.names, call):
            self._add(line, one.name, Weight.DIFFERS, f"{one.text} ({one.page})")
        documentation = getattr(found.what, "__doc__", None) or ""
        kind = next((kind for word, kind in _DOCUMENTED.items() if documentation.startswith(word)), None)
        if call is not None and found.owner is not None and kind is not None:
            first_line = documentation.partition("\n")[0]
            self._add(line, path_of(found), kind, first_line.partition(". ")[0].rstrip("."))

    def called(self, call: ast.Call, function: Known) -> None:
        """A function or class that is called, with these arguments."""
        names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
        if len(names) < len(call.keywords) or any(isinstance(argument, ast.Starred) for argument in call.args):
            return
        if is_ours(function.what) and (reason := refused_arguments(function, len(call.args), names)) is not None:
            self._add(call.lineno, path_of(function), Weight.MISSING, f"does not take these arguments: {reason}")

    def attribute_set(self, line: int, name: str, base: Known | None) -> None:
        """An attribute that a method other than ``open`` sets on an object of a class with this base."""
        if base is not None and isinstance(base.what, type) and issubclass(base.what, Function):
            self._add(line, f"self.{name}", Weight.DIFFERS, ATTRIBUTE)

    def _add(self, line: int, name: str, kind: Weight, text: str) -> None:
        self.found.add(Remark(line, name, kind, text))


def path_of(value: Known) -> str:
    """The name of a value in reports: a module as it is imported, ``Class``, or ``Class.method``."""
    name: str = getattr(value.what, "__name__", "")
    return name if value.owner is None else f"{value.owner.__name__}.{name}"
