"""Calls the user's window function, of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream.functions.window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from tidemill.errors import GraphError
from tidemill.runtime.operators.windowing.contexts import EvaluationContext

#: Accepts the key, the window and its elements; returns the records to emit.
Evaluate = Callable[[Any, Any, list[Any]], Iterable[Any] | None]
#: Accepts a window that was removed.
Forget = Callable[[Any], None]


def evaluation_of(function: Any, context: EvaluationContext) -> tuple[Evaluate, Forget | None]:
    """Return the functions that evaluate and clear a window. Without a user function, elements are emitted."""
    if function is None:
        return lambda key, window, elements: elements, None
    if isinstance(function, WindowFunction):
        return function.apply, None
    if isinstance(function, AllWindowFunction):
        apply = function.apply
        return lambda key, window, elements: apply(window, elements), None
    if isinstance(function, ProcessWindowFunction):
        process = function.process
        return (
            lambda key, window, elements: process(key, context.at(window), elements),
            lambda window: function.clear(context.at(window)),
        )
    if isinstance(function, ProcessAllWindowFunction):
        process_all = function.process
        return (
            lambda key, window, elements: process_all(context.at(window), elements),
            lambda window: function.clear(context.at(window)),
        )
    raise GraphError(f"{type(function).__name__} is not a window function")
