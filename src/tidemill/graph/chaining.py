"""Operator chains: the operators that share a task, and the level that each chain runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemill.datastream.program.transformations import Transformation
from tidemill.graph.parallelism import Edge


@dataclass
class OperatorChain:
    """A tree of operators connected by chained edges, head first. All other incoming edges end at the head."""

    nodes: list[Transformation]
    links: list[Edge] = field(default_factory=list)
    exchanges_in: list[Edge] = field(default_factory=list)
    level: int = 0

    @property
    def head(self) -> Transformation:
        """The operator that reads the input of the chain."""
        return self.nodes[0]


def build_chains(nodes: Sequence[Transformation], edges: Sequence[Edge]) -> list[OperatorChain]:
    """Return all chains with their levels, ordered by level and then by the order in which their heads were built.

    The level of a source chain is 0. The level of any other chain is one more than that of the deepest chain it reads
    from, so every exchange leads to a deeper level, and no level is empty.
    """
    into: dict[int, list[Edge]] = {}
    for edge in edges:
        into.setdefault(edge.consumer.id, []).append(edge)
    chain_of: dict[int, OperatorChain] = {}
    chains: list[OperatorChain] = []
    for node in nodes:
        incoming = into.get(node.id, [])
        if len(incoming) == 1 and incoming[0].chained:
            chain = chain_of[incoming[0].upstream.node.id]
            chain.nodes.append(node)
            chain.links.append(incoming[0])
        else:
            producers = [chain_of[edge.upstream.node.id] for edge in incoming]
            level = 1 + max((producer.level for producer in producers), default=-1)
            chain = OperatorChain([node], exchanges_in=incoming, level=level)
            chains.append(chain)
        chain_of[node.id] = chain
    return sorted(chains, key=lambda chain: (chain.level, chain.head.id))
