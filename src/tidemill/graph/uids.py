"""The ids that operators' state is found by.

An id is the user's uid, else the uid hash given, else derived from the shape of the program alone: the kind of
operator, what it reads from, and, among operators that agree in both, the order they were built in. So the same program
always has the same ids; names, parallelism, partitioning and what the functions do play no part; and what is
behind an operator with a uid does not change when something before it does.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import GraphError
from tidemill.graph.topology import place, reachable

#: Part of every derived id: change it only if the way ids are derived changes.
_VERSION = "tidemill-uid-1"


def assign_uids(nodes: Sequence[Transformation], *, derive: bool = True) -> dict[int, str]:
    """The uid of each operator, by the number of its transformation.

    Raises ``GraphError`` for two operators with one uid and, with ``derive=False``, for an operator without.
    """
    uids: dict[int, str] = {}
    twins: Counter[str] = Counter()
    for node in nodes:
        explicit = node.uid_hash or node.uid
        if explicit is not None:
            uids[node.id] = explicit
            continue
        if not derive:
            raise GraphError(
                f"{place(node)} has no uid, and pipeline.auto-generate-uids is false: call .uid('...') on it"
            )
        shape = _shape(node, uids)
        uids[node.id] = _digest(f"{shape}#{twins[shape]}")
        twins[shape] += 1
    _check_unique(nodes, uids)
    return uids


def operators_by_uid(transformations: Iterable[Transformation]) -> Mapping[str, Transformation]:
    """The program's own operators by uid.

    A plan holds copies fit for workers; this is how an executor gets what lives on the driver only: the elements of a
    collection, a DataFrame, the results of a collecting sink.
    """
    nodes = reachable(transformations)
    uids = assign_uids(nodes)
    return {uids[node.id]: node for node in nodes}


def _shape(node: Transformation, uids: Mapping[int, str]) -> str:
    inputs = "|".join(
        ",".join(f"{uids[upstream.node.id]}/{upstream.side_output or ''}" for upstream in edges)
        for edges in node.inputs
    )
    return f"{_VERSION};{node.taken.kind.__name__};{'keyed' if node.keyed else 'plain'};{inputs}"


def _digest(text: str) -> str:
    """32 hex digits, as Flink's operator ids have."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _check_unique(nodes: Sequence[Transformation], uids: Mapping[int, str]) -> None:
    owners: dict[str, Transformation] = {}
    for node in nodes:
        uid = uids[node.id]
        other = owners.setdefault(uid, node)
        if other is not node:
            raise GraphError(
                f"two operators have the uid {uid!r}: {other.name!r} ({other.user_line}) and {node.name!r} "
                f"({node.user_line}). State is found by uid: give one of them another."
            )
