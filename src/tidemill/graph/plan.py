"""The compiled job: chains of operators, the exchanges between them, and the levels they run on.

A plan is plain data. It is created once on the driver, sent to the workers, printed by ``explain`` and compared across
versions of a program. It contains the user functions as bytes. Each function is pickled separately, so that an error
can name it.
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

    ``uid`` identifies its state: the user's uid, else one derived from the shape of the program (see ``explicit_uid``).
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
    #: Whether the max parallelism is set by the program or its configuration; else it is the default.
    explicit_max_parallelism: bool = False
    description: str = ""
    user_line: str = ""
    #: The side outputs that the program reads, with their types.
    side_outputs: tuple[tuple[str, TypeInformation], ...] = ()
    #: The guarantee of a sink with replayable sources, see ``tidemill.connectors.sinks.Sink.guarantee``. Empty for
    #: other operators.
    guarantee: str = ""
    #: Whether a sink's results are only for people to read.
    for_reading: bool = False

    #: Whether a source emits the same records again from the same position.
    replayable: bool = True
    #: Whether a source may read records of committed epochs once more after a failure.
    repeats: bool = False
    #: Whether its function has operator state, or the operator has broadcast state.
    operator_state: bool = False
    #: Whether its function takes part in checkpoints: it has operator state, or is notified of checkpoints.
    checkpointed: bool = False
    #: Whether it marks inputs as idle that have had no records for some time.
    counts_idleness: bool = False
    #: Whether it processes columnar batches as columns; a source: whether it reads them.
    takes_columns: bool = False
    #: The kind of its windows, see ``tidemill.graph.window_kinds``. None for operators without windows.
    windows: Mapping[str, Any] | None = None
    #: How it handles records for which its function raises an exception.
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy.fail)

    @property
    def label(self) -> str:
        """The operator in messages, with the line of the program that creates it."""
        return f"operator {self.named}"

    @property
    def named(self) -> str:
        """Like :attr:`label`, without the word ``operator``."""
        line = f", defined at {self.user_line}" if self.user_line else ""
        return f"{self.name!r} (uid {self.uid}{line})"


@dataclass(frozen=True)
class ChainLink:
    """A one-to-one edge inside a chain: the positions of producer and consumer, and the side output it transports."""

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
    #: The partitioning as text, with its key: ``HASH(0)``.
    description: str = ""


@dataclass(frozen=True)
class ChainPlan:
    """Operators that run in one subtask, in topological order; only the head (position 0) reads from exchanges.

    ``parallelism`` is None for a chain whose number of subtasks follows the partitions of its Spark source in each
    epoch. ``fixed`` is true if the program sets the parallelism of one of its operators; else the chain has the
    default parallelism. ``clock_of`` defines which part of its source has its own event time.
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
        """Whether a worker may continue only from the state of the attempt that the manifest names."""
        return self.head.keyed or any(operator.checkpointed for operator in self.operators)


@dataclass(frozen=True)
class JobPlan:
    """The plan of a job. ``levels[i]`` lists the ids of the chains on level i; ``chains[id].id == id``."""

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
