"""Type parameters of functions, triggers and assigners, as in PyFlink programs.

Only type checkers use them: ``class Top(ProcessWindowFunction[tuple, tuple, str, TimeWindow])`` and ``class
Top(ProcessWindowFunction)`` behave the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["CONTEXT_WINDOW", "IN", "IN1", "IN2", "KEY", "OUT", "WINDOW"]

if TYPE_CHECKING:
    from typing_extensions import (
        TypeVar,  # with defaults (new in Python 3.13), so that type parameters are optional
    )

    IN = TypeVar("IN", default=Any)
    IN1 = TypeVar("IN1", default=Any)
    IN2 = TypeVar("IN2", default=Any)
    OUT = TypeVar("OUT", default=Any)
    KEY = TypeVar("KEY", default=Any)
    WINDOW = TypeVar("WINDOW", default=Any)
    CONTEXT_WINDOW = TypeVar("CONTEXT_WINDOW", default=Any)
else:
    from typing import TypeVar

    IN, IN1, IN2 = TypeVar("IN"), TypeVar("IN1"), TypeVar("IN2")
    OUT, KEY = TypeVar("OUT"), TypeVar("KEY")
    WINDOW, CONTEXT_WINDOW = TypeVar("WINDOW"), TypeVar("CONTEXT_WINDOW")
