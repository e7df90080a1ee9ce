"""Checks that no two queryable states of a program have the same name: a query identifies a state only by its name.

This module checks the descriptors that functions have as attributes. Most functions create their descriptors on a
worker, in ``open()``. Those are checked before the first epoch is committed
(:mod:`tidemill.runtime.start.reported_names`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import GraphError
from tidemill.graph.topology import place

__all__ = ["check_queryable_names"]


def check_queryable_names(nodes: Sequence[Transformation]) -> None:
    """Raise ``GraphError``, naming both operators, if two states have the same queryable name."""
    owners: dict[str, tuple[Transformation, str]] = {}
    for node in nodes:
        for queryable in node.taken.queryable if node.keyed else ():
            name = queryable.name
            other, state = owners.setdefault(name, (node, queryable.state))
            if other is not node or state != queryable.state:
                raise GraphError(
                    f"two states have the queryable name {name!r}: {state!r} of {place(other)} and {queryable.state!r} "
                    f"of {place(node)}; give one of them another name"
                )
