"""Calls of the user's window function, whatever kind it is."""

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

#: Takes the key, the window and its elements; returns what to emit.
Evaluate = Callable[[Any, Any, list[Any]], Iterable[Any] | None]
#: Takes a window that is gone.
Forget = Callable[[Any], None]


def evaluation_of(function: Any, context: EvaluationContext) -> tuple[Evaluate, Forget | None]:
    """How a window is evaluated, and who is to be told that it is gone. Without a function its elements come out."""
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
