"""The compiled job: chains of operators, the exchanges between them, and the levels they run on.

A plan is plain data. It is made once on the driver, shipped to the workers, printed by ``explain`` and compared across
versions of a program. User functions are inside as bytes, pickled one by one, so that each can be named in an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.sources import ClockOf
from tidemill.datastream.program.error_policy import ErrorPolicy
from tidemill.datastream.program.transformations import PartitionKind


@dataclass(frozen=True)
class OperatorPlan:
    """One operator inside a chain.

    ``uid`` addresses its state: the user's uid, else one derived from the shape of the program (see ``explicit_uid``).
    ``spec`` is the cloudpickled spec of ``tidemill.datastream.program.specs``. ``inputs`` counts logical inputs (0, 1
    or 2).
    """

    uid: str
    name: str
    spec: bytes
    spec_kind: str
    inputs: int = 1
    keyed: bool = False
    explicit_uid: bool = False
    key_type: TypeInformation | None = None
    output_type: TypeInformation | None = None
    max_parallelism: int = 1024
    #: Whether the program or its configuration says so; else it is what the default happens to be.
    explicit_max_parallelism: bool = False
    description: str = ""
    user_line: str = ""
    #: Side outputs that the program reads, with their types.
    side_outputs: tuple[tuple[str, TypeInformation], ...] = ()
    #: That of a sink with sources that can be read again, else empty: see ``tidemill.connectors.sinks.Sink.guarantee``.
    guarantee: str = ""
    #: Whether a sink's results are for people to read.
    for_reading: bool = False
    #: Whether a source gives the same records again from the same position.
    replayable: bool = True
    #: Whether its function has operator state, or it keeps broadcast state.
    operator_state: bool = False
    #: Whether its function takes part in checkpoints: with operator state, or by listening to them.
    checkpointed: bool = False
    #: Whether it marks inputs idle that have no records for some time.
    counts_idleness: bool = False
    #: What kind of windows it has, if it has any: see ``tidemill.graph.window_kinds``.
    windows: Mapping[str, Any] | None = None
    #: What becomes of records at which its function raises.
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy.fail)


@dataclass(frozen=True)
class ChainLink:
    """A one-to-one edge inside a chain: positions of producer and consumer, and the side output it carries."""

    source: int
    target: int
    input_index: int = 0
    side_output: str | None = None


@dataclass(frozen=True)
class ExchangeEdge:
    """An edge between chains; ``partitioner`` is the cloudpickled :class:`Partitioning` (selector, custom function)."""

    id: int
    source_chain: int
    source_operator: int
    side_output: str | None
    kind: PartitionKind
    partitioner: bytes
    target_chain: int
    input_index: int
    #: The partitioning in words, with its key: ``HASH(0)``.
    description: str = ""


@dataclass(frozen=True)
class ChainPlan:
    """Operators that run in one subtask, in topological order; position 0 is the head, the only one with exchanges in.

    ``parallelism`` is None for a chain that follows the partitions of its Spark source from epoch to epoch. It is
    ``fixed`` if the program or the source says so for one of its operators; else it is the default one. ``clock_of``
    says what has event time of its own in its source.
    """

    id: int
    operators: tuple[OperatorPlan, ...]
    links: tuple[ChainLink, ...]
    parallelism: int | None
    level: int
    fixed: bool = False
    clock_of: ClockOf = ClockOf.SUBTASK

    @property
    def name(self) -> str:
        return " -> ".join(operator.name for operator in self.operators)

    @property
    def head(self) -> OperatorPlan:
        return self.operators[0]

    @property
    def stateful(self) -> bool:
        """Whether a worker may go on only with what the attempt left that the manifest names."""
        return self.head.keyed or any(operator.checkpointed for operator in self.operators)


@dataclass(frozen=True)
class JobPlan:
    """A whole job. ``levels[i]`` lists the ids of the chains on level i; ``chains[id].id == id``."""

    name: str
    chains: tuple[ChainPlan, ...]
    edges: tuple[ExchangeEdge, ...]
    levels: tuple[tuple[int, ...], ...]
    max_parallelism: int
    runtime_mode: str = "STREAMING"
    settings: dict[str, str] = field(default_factory=dict)

    def edges_from(self, chain: int) -> tuple[ExchangeEdge, ...]:
        return tuple(edge for edge in self.edges if edge.source_chain == chain)

    def edges_into(self, chain: int) -> tuple[ExchangeEdge, ...]:
        return tuple(edge for edge in self.edges if edge.target_chain == chain)
