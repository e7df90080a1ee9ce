"""What a program is made of before it is compiled: operators and the edges between them.

A :class:`DataStream` only builds these nodes; ``tidemill.graph`` makes chains and levels of them, ``tidemill.runtime``
turns each node's *spec* into a running operator. Nothing here runs user code.
"""

from __future__ import annotations

import enum
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.error_policy import ErrorPolicy

KeySelectorFn = Callable[[Any], Any]


class PartitionKind(enum.Enum):
    """How the records of an edge are spread over the subtasks of the consumer (Flink's stream partitioners)."""

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
    """The partitioner of one edge.

    ``selector`` computes the key (KEY_GROUP and CUSTOM); ``custom`` maps ``(key, number of partitions)`` to an index.
    ``position`` is set when the selector is a plain index or field, so that the key need not be sent beside the record.
    """

    kind: PartitionKind
    selector: KeySelectorFn | None = None
    custom: Callable[[Any, int], int] | None = None


class ChainingStrategy(enum.Enum):
    ALWAYS = "ALWAYS"  # may be chained to its producer
    NEVER = "NEVER"  # stands alone
    HEAD = "HEAD"  # starts a chain; consumers may join it


@dataclass(frozen=True)
class Upstream:
    """One edge into an operator: a producer, optionally one of its side outputs, and the partitioning in between.

    ``partitioning`` is None until the user asks for one: then it is FORWARD for equal parallelism, else REBALANCE.
    """

    node: Transformation
    partitioning: Partitioning | None = None
    side_output: str | None = None


_ids = itertools.count(1)


@dataclass(eq=False)
class Transformation:
    """One operator of the program, as the user described it.

    ``inputs`` has one entry per logical input (none for a source, one, or two); each is a tuple of edges, more than
    one after a union. ``key_selectors`` runs parallel to ``inputs``: a selector where that input is keyed.
    ``side_outputs`` has the side outputs that the program reads, with their types.
    """

    name: str
    spec: Any
    inputs: tuple[tuple[Upstream, ...], ...] = ()
    key_selectors: tuple[KeySelectorFn | None, ...] = ()
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
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy.fail)
    id: int = field(default_factory=lambda: next(_ids))
    user_line: str = field(default_factory=lambda: find_user_line())  # noqa: PLW0108 - defined below

    @property
    def keyed(self) -> bool:
        return any(selector is not None for selector in self.key_selectors)


_PACKAGE_ROOT = str(Path(__file__).parent.parent)


def find_user_line() -> str:
    """The first stack frame outside this package, as ``file.py:12``: where the user created the operator."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith((_PACKAGE_ROOT, "<string>")):
            return f"{filename}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "<unknown>"
