"""What a report says about a line of a program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Remark", "Weight"]


class Weight(Enum):
    """How much a remark matters."""

    #: The program cannot run before this is changed.
    MISSING = "missing"
    #: The program runs, and its results or its behaviour can differ from those in Flink.
    DIFFERS = "differs"
    #: The program runs, with the same results.
    NOTE = "note"


@dataclass(frozen=True)
class Remark:
    """A line of a program, the name that it uses, and what to know or do about it.

    ``file`` is empty if the line is in the program itself, and not in a module that it imports.
    """

    line: int
    name: str
    kind: Weight
    text: str
    file: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{place}: {self.name}: {self.text}"
