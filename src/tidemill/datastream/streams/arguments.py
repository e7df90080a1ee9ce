"""Checks of what programs hand to the methods of streams."""

from __future__ import annotations

from typing import Any

__all__ = ["kind_of", "require"]


def require(func: Any, kind: type, what: str) -> None:
    """Raise a :class:`TypeError` unless ``func`` is of a kind of function, or can be called."""
    if not isinstance(func, kind) and not callable(func):
        raise TypeError(f"{what}() needs a {kind.__name__} or a callable, not {kind_of(func)}")


def kind_of(value: Any) -> str:
    """What a value is, for an error that says what it should have been.

    >>> kind_of(3), kind_of(int)
    ('int', 'int (a class: make an instance of it)')
    """
    return value.__name__ + " (a class: make an instance of it)" if isinstance(value, type) else type(value).__name__
