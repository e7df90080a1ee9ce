"""The nodes of a program before it is compiled: operators and the edges between them.

A :class:`DataStream` only builds these nodes. ``tidemill.graph`` groups them into chains and levels, and
``tidemill.runtime`` turns the *spec* of each node into a running operator. This module does not run user code: it is
pickled when it is passed in (:mod:`tidemill.datastream.program.taken`).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions.pickling import function_name, to_bytes
from tidemill.datastream.functions.user_line import find_user_line
from tidemill.datastream.program.error_policy import ErrorPolicy, OnError
from tidemill.datastream.program.key_selectors import FieldSelector, FunctionKeySelector, PositionSelector
from tidemill.datastream.program.taken import Taken, take

KeySelectorFn = Callable[[Any], Any]


class PartitionKind(enum.Enum):
    """How the records of an edge are distributed to the subtasks of the consumer (Flink's stream partitioners)."""

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    KEY_GROUP = "HASH"
    CUSTOM = "CUSTOM"


@dataclass(frozen=True)
class Partitioning:
    """The partitioner of one edge, as used by the workers.

    ``selector`` computes the key (KEY_GROUP and CUSTOM); ``custom`` maps ``(key, number of partitions)`` to an index.
    ``key_type`` is the declared type of the key.
    """

    kind: PartitionKind
    selector: KeySelectorFn | None = None
    custom: Callable[[Any, int], int] | None = None
    key_type: TypeInformation | None = None


@dataclass(frozen=True)
class TakenPartitioning:
    """A :class:`Partitioning`, captured when the program declared it. ``data`` is pickled for the workers.

    ``description`` is the kind, with the key if there is one: ``HASH(0)``, ``HASH(user.id)``, ``HASH(<lambda>)``.
    """

    kind: PartitionKind
    data: bytes
    description: str

    @staticmethod
    def of(partitioning: Partitioning, method: str = "") -> TakenPartitioning:
        """Capture a partitioning with the user's functions. ``method`` is the API method they were passed to."""
        where = f"{method}() ({find_user_line()})"
        for part, function in (("key selector", partitioning.selector), ("partitioner", partitioning.custom)):
            if function is not None:
                shown = getattr(function, "function", function)
                to_bytes(function, part, shown, where)
        data = to_bytes(partitioning, "partitioning", partitioning, where)
        return TakenPartitioning(partitioning.kind, data, _describe(partitioning))


def _describe(partitioning: Partitioning) -> str:
    selector = partitioning.selector
    if selector is None:
        return partitioning.kind.value
    if isinstance(selector, PositionSelector):
        key = str(selector.position)
    elif isinstance(selector, FieldSelector):
        key = selector.path
    else:
        key = function_name(selector.function if isinstance(selector, FunctionKeySelector) else selector)
    return f"{partitioning.kind.value}({key})"


class ChainingStrategy(enum.Enum):
    ALWAYS = "ALWAYS"  # can be chained to its producer
    NEVER = "NEVER"  # is never chained
    HEAD = "HEAD"  # starts a chain, to which consumers can be chained


@dataclass(frozen=True)
class Upstream:
    """One edge into an operator: a producer, optionally one of its side outputs, and the partitioning in between.

    ``partitioning`` is None if the program does not specify one. The compiler then uses FORWARD between operators of
    equal parallelism, else REBALANCE.
    """

    node: Transformation
    partitioning: TakenPartitioning | None = None
    side_output: str | None = None


_ids = itertools.count(1)


@dataclass(eq=False)
class Transformation:
    """One operator of the program, as the user described it. Create it with :meth:`of`.

    ``inputs`` has one entry per logical input (none for a source, one, or two). Each entry is a tuple of edges, more
    than one after a union. ``keyed`` operators have keyed state. ``side_outputs`` contains the side outputs that the
    program reads, with their types. An operator with ``follows_input`` has the parallelism of its input if none is set:
    the API inserted it, and it must not redistribute records.
    """

    name: str
    taken: Taken
    inputs: tuple[tuple[Upstream, ...], ...] = ()
    keyed: bool = False
    key_type: TypeInformation | None = None
    output_type: TypeInformation | None = None
    uid: str | None = None
    uid_hash: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    description: str | None = None
    slot_sharing_group: str | None = None
    side_outputs: dict[str, TypeInformation] = field(default_factory=dict)
    follows_input: bool = False
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy.fail)
    id: int = field(default_factory=lambda: next(_ids))
    user_line: str = "<unknown>"

    @staticmethod
    def of(
        name: str,
        spec: Any,
        inputs: tuple[tuple[Upstream, ...], ...] = (),
        *,
        keyed: bool = False,
        key_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Transformation:
        """Create an operator from a spec. The user's functions in the spec are captured now.

        Raises ``SerializationError`` for a function that cannot be pickled.
        """
        line = find_user_line()
        return Transformation(
            name=name,
            taken=take(spec, f"operator {name!r} ({line})"),
            inputs=inputs,
            keyed=keyed,
            key_type=key_type,
            output_type=output_type,
            uid=uid,
            parallelism=parallelism,
            user_line=line,
        )

    @property
    def emitted_side_outputs(self) -> dict[str, TypeInformation]:
        """The side outputs that the program or the dead-letter sink reads, with their types."""
        policy = self.error_policy
        if policy.kind is not OnError.DEAD_LETTER or policy.tag is None:
            return self.side_outputs
        return {**self.side_outputs, policy.tag.tag_id: policy.tag.type_info}

    @property
    def spec(self) -> Any:
        """The spec of the operator: the driver's object for a source or sink, else a new copy."""
        return self.taken.spec
