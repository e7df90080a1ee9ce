"""Checks of the arguments of stream methods."""

from __future__ import annotations

from typing import Any

__all__ = ["require", "type_name"]


def require(func: Any, kind: type, what: str) -> None:
    """Raise a :class:`TypeError` unless ``func`` is an instance of ``kind`` or a callable."""
    if not isinstance(func, kind) and not callable(func):
        raise TypeError(
            f"The input must be a {kind.__name__} or a callable function: {what}() was called with {type_name(func)}"
        )


def type_name(value: Any) -> str:
    """The type of a value, for error messages.

    >>> type_name(3), type_name(int)
    ('int', 'int (a class: pass an instance of it)')
    """
    return value.__name__ + " (a class: pass an instance of it)" if isinstance(value, type) else type(value).__name__
