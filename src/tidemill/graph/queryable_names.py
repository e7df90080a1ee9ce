"""A queryable state is found by its name alone: a program must not give one name to two of them.

Found here are descriptors that functions hold as attributes. Most functions make theirs when they are opened, on a
worker: those are compared before the first epoch is committed (:mod:`tidemill.runtime.queryable_names`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidemill.datastream.function_base import Function
from tidemill.datastream.state_descriptors import StateDescriptor
from tidemill.datastream.transformations import Transformation
from tidemill.errors import GraphError
from tidemill.graph.topology import place

__all__ = ["check_queryable_names"]

#: Longer lists hold data.
_FEW: Final = 100


def check_queryable_names(nodes: Sequence[Transformation]) -> None:
    """Raise ``GraphError``, naming both operators, if two states are to be queried under one name."""
    owners: dict[str, tuple[Transformation, str]] = {}
    for node in nodes:
        for descriptor in _descriptors(node.spec) if node.keyed else ():
            name = descriptor.queryable_name
            if name is None:
                continue
            other, state = owners.setdefault(name, (node, descriptor.name))
            if other is not node or state != descriptor.name:
                raise GraphError(
                    f"two states are to be queried as {name!r}: {state!r} of {place(other)} and {descriptor.name!r} "
                    f"of {place(node)}; give one of them another name"
                )


def _descriptors(spec: Any) -> Iterator[StateDescriptor]:
    """The descriptors that the functions of a spec hold, also in lists and dicts, or in functions of their own."""
    waiting: list[Any] = [part for part in vars(spec).values() if isinstance(part, Function)]
    seen = set(map(id, getattr(spec, "descriptors", ())))  # broadcast state cannot be queried
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, StateDescriptor):
            yield found
        elif isinstance(found, Function):
            waiting.extend(vars(found).values())
        elif isinstance(found, (list, tuple)) and len(found) <= _FEW:
            waiting.extend(found)
        elif isinstance(found, dict) and len(found) <= _FEW:
            waiting.extend(found.values())
