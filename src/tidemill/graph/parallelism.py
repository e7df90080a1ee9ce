"""The parallelism of each operator, the partitioning of each edge, and which edges are chained."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tidemill.common.configuration import Configuration
from tidemill.config import PipelineOptions
from tidemill.connectors.collect import CollectSink
from tidemill.connectors.sources import Source, SplitSource
from tidemill.datastream.program.specs import AsyncWaitSpec, SinkSpec, SourceSpec
from tidemill.datastream.program.transformations import (
    ChainingStrategy,
    Partitioning,
    PartitionKind,
    TakenPartitioning,
    Transformation,
    Upstream,
)
from tidemill.errors import GraphError
from tidemill.graph.topology import place, upstreams

_log = logging.getLogger(__name__)

#: The number of key groups of an operator if none is set. It is large enough for any foreseeable cluster, and small
#: enough that the cost of empty key groups is negligible.
DEFAULT_MAX_PARALLELISM = 1024

#: The parallelism of an operator if none is set: the executor decides.
UNDECIDED = 0


@dataclass(frozen=True)
class Defaults:
    """The settings of operators that do not override them."""

    parallelism: int
    max_parallelism: int
    #: Whether the parallelism is configured. If not, it is the executor's default and may be lowered.
    asked_for: bool
    explicit_max_parallelism: bool
    chaining: bool

    @staticmethod
    def of(configuration: Configuration, offered: int | None) -> Defaults:
        """Read the defaults from the configuration; ``offered`` is the executor's parallelism if none is configured."""
        asked_for = configuration.contains(PipelineOptions.PARALLELISM)
        parallelism = configuration.get(PipelineOptions.PARALLELISM) if asked_for else offered or UNDECIDED
        most = configuration.get(PipelineOptions.MAX_PARALLELISM)
        return Defaults(
            parallelism,
            DEFAULT_MAX_PARALLELISM if most == -1 else most,
            asked_for,
            most != -1,
            configuration.get(PipelineOptions.OPERATOR_CHAINING),
        )


@dataclass(frozen=True)
class Edge:
    """A resolved edge; a ``chained`` edge stays inside a task."""

    upstream: Upstream
    consumer: Transformation
    input_index: int
    partitioning: TakenPartitioning
    chained: bool


@dataclass(frozen=True)
class ResolvedProgram:
    """The resolved operators and edges of a program.

    Parallelism and max parallelism are keyed by transformation id. ``explicit_max_parallelism`` contains the ids of
    the operators whose max parallelism is set by the program or the configuration.
    """

    parallelism: Mapping[int, int | None]
    max_parallelism: Mapping[int, int]
    explicit_max_parallelism: AbstractSet[int]
    edges: Sequence[Edge]


class ProgramResolver:
    """Resolves the operators of a program in one pass, producers first."""

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self._parallelism: dict[int, int | None] = {}
        self._most: dict[int, int] = {}
        self._groups: dict[int, str] = {}
        self._edges: list[Edge] = []

    def resolve(self, nodes: Sequence[Transformation]) -> ResolvedProgram:
        """Resolve all operators. Raises ``GraphError`` for a parallelism that is not possible."""
        for node in nodes:
            self._groups[node.id] = self._slot_sharing_group(node)
            self._most[node.id] = node.max_parallelism or self._defaults.max_parallelism
            self._parallelism[node.id] = self._resolve(node)
            self._check_bounds(node)
            for index, edges in enumerate(node.inputs):
                self._edges.extend(self._edge(upstream, node, index) for upstream in edges)
        explicit = {node.id for node in nodes if node.max_parallelism or self._defaults.explicit_max_parallelism}
        return ResolvedProgram(self._parallelism, self._most, explicit, self._edges)

    def _resolve(self, node: Transformation) -> int | None:
        if isinstance(spec := node.taken.on_driver, SourceSpec):
            return self._of_source(node, spec.source)
        if node.parallelism is not None:
            return node.parallelism
        if self._follows_its_source(node):
            return None
        if self._collects_in_order(node):
            return self._parallelism[upstreams(node)[0].node.id]
        widths = {self._parallelism[upstream.node.id] for upstream in upstreams(node)} if node.follows_input else set()
        return (widths.pop() if len(widths) == 1 else None) or self._default(node)

    def _of_source(self, node: Transformation, source: Source) -> int | None:
        if not isinstance(source, SplitSource):
            if node.parallelism is not None:
                _log.warning(
                    "%s: a Spark source has one subtask per partition, not %d subtasks", place(node), node.parallelism
                )
            return None
        if source.parallelism is not None and node.parallelism not in (None, source.parallelism):
            raise GraphError(
                f"{place(node)} reads with parallelism {source.parallelism}, {node.parallelism} is not possible: "
                "call rebalance() after it and set the parallelism of the downstream operators"
            )
        return node.parallelism or source.parallelism or self._default(node)

    def _default(self, node: Transformation) -> int:
        chosen = self._defaults.parallelism
        return chosen if self._defaults.asked_for else min(chosen, self._most[node.id])

    def _follows_its_source(self, node: Transformation) -> bool:
        """Whether an operator joins the chain of a Spark source, whose number of subtasks changes with the input."""
        edges = upstreams(node)
        if len(edges) != 1 or self._parallelism[edges[0].node.id] is not None:
            return False
        if node.taken.checkpointed or node.taken.kind is AsyncWaitSpec:
            return False  # its state or its connections must not depend on the number of input partitions
        return _may_be_forward(edges[0]) and self._may_chain(edges[0].node, node)

    @staticmethod
    def _collects_in_order(node: Transformation) -> bool:
        """Whether an operator collects results: it keeps the order of its input, which is not rebalanced first."""
        spec = node.taken.on_driver
        collects = isinstance(spec, SinkSpec) and isinstance(spec.sink, CollectSink)
        edges = upstreams(node)
        return collects and len(edges) == 1 and _may_be_forward(edges[0])

    def _edge(self, upstream: Upstream, node: Transformation, index: int) -> Edge:
        ours, theirs = self._parallelism[node.id], self._parallelism[upstream.node.id]
        partitioning = upstream.partitioning
        if partitioning is None:
            kind = PartitionKind.FORWARD if ours == theirs else PartitionKind.REBALANCE
            partitioning = TakenPartitioning.of(Partitioning(kind))
        elif partitioning.kind is PartitionKind.FORWARD and ours != theirs:
            raise GraphError(
                f"forward() needs the same parallelism on both sides, but {place(upstream.node)} has "
                f"{_shown(theirs)} and {place(node)} has {_shown(ours)}: use rebalance() or rescale()"
            )
        chained = (
            partitioning.kind is PartitionKind.FORWARD
            and len(upstreams(node)) == 1
            and self._may_chain(upstream.node, node)
        )
        return Edge(upstream, node, index, partitioning, chained)

    def _may_chain(self, producer: Transformation, consumer: Transformation) -> bool:
        return (
            self._defaults.chaining
            and consumer.chaining is ChainingStrategy.ALWAYS
            and producer.chaining is not ChainingStrategy.NEVER
            and not consumer.keyed
            and len(consumer.inputs) == 1
            and self._groups[producer.id] == self._groups[consumer.id]
        )

    def _slot_sharing_group(self, node: Transformation) -> str:
        """Return the configured group, else the group of the inputs if they all have the same one."""
        if node.slot_sharing_group is not None:
            return node.slot_sharing_group
        groups = {self._groups[upstream.node.id] for upstream in upstreams(node)}
        return groups.pop() if len(groups) == 1 else "default"

    def _check_bounds(self, node: Transformation) -> None:
        parallelism, most = self._parallelism[node.id], self._most[node.id]
        if parallelism is not None and parallelism > most:
            raise GraphError(
                f"{place(node)} has parallelism {parallelism}, but max parallelism {most}: lower the parallelism "
                "with set_parallelism(), or raise the max parallelism with set_max_parallelism() (it cannot change "
                "once the job has state)"
            )


def _may_be_forward(upstream: Upstream) -> bool:
    return upstream.partitioning is None or upstream.partitioning.kind is PartitionKind.FORWARD


def _shown(parallelism: int | None) -> str:
    if parallelism is None:
        return "that of its Spark source"
    return "the default" if parallelism == UNDECIDED else str(parallelism)
