"""Types that functions, triggers and assigners may be given in brackets, as in PyFlink programs.

Nothing depends on them but what a type checker tells a reader: ``class Top(ProcessWindowFunction[tuple, tuple, str,
TimeWindow])`` and ``class Top(ProcessWindowFunction)`` do the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["CONTEXT_WINDOW", "IN", "IN1", "IN2", "KEY", "OUT", "WINDOW"]

if TYPE_CHECKING:
    from typing_extensions import (
        TypeVar,  # with defaults, which Python 3.13 is the first to have: brackets are optional
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
