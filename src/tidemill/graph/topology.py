"""The operators of a program, in topological order."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.datastream.program.transformations import Transformation, Upstream
from tidemill.errors import GraphError


def reachable(transformations: Iterable[Transformation]) -> tuple[Transformation, ...]:
    """Return the registered operators and everything they read from, producers before consumers.

    Operators are numbered in the order in which they are built, and can only read from operators that were built
    before, so the order of their ids is a topological order. Raises ``GraphError`` if there is nothing to run.
    """
    found: dict[int, Transformation] = {}
    waiting = list(transformations)
    while waiting:
        node = waiting.pop()
        if node.id not in found:
            found[node.id] = node
            waiting.extend(upstream.node for upstream in upstreams(node))
    if not found:
        raise GraphError(
            "No operators defined in streaming topology. Cannot execute: a program needs at least one transformation "
            "or sink after its sources, and each execute() runs only the program built since the previous one."
        )
    return tuple(found[number] for number in sorted(found))


def upstreams(node: Transformation) -> list[Upstream]:
    """Return all edges into an operator."""
    return [upstream for edges in node.inputs for upstream in edges]


def place(node: Transformation) -> str:
    """Return the description of an operator for error messages."""
    uid = f", uid {node.uid!r}" if node.uid is not None else ""
    return f"operator {node.name!r} ({node.user_line}{uid})"
