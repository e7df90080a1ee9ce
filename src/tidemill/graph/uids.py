"""The ids that map operators to their state.

An id is the uid hash set by the user, else the user's uid, else it is derived from the shape of the program alone: the
kind of operator, its inputs, and, among operators that agree in both, the order in which they were built. The same
program therefore always has the same ids. Names, parallelism, partitioning and the code of functions do not affect
them. The ids downstream of an operator with a uid do not change when something upstream of it changes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import GraphError
from tidemill.graph.topology import place, reachable

#: Part of every derived id. Change it only if the derivation of ids changes.
_VERSION = "tidemill-uid-1"


def assign_uids(nodes: Sequence[Transformation], *, derive: bool = True) -> dict[int, str]:
    """Return the uid of each operator, by transformation id.

    Raises ``GraphError`` for two operators with the same uid and, with ``derive=False``, for an operator without a uid.
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
    """Return the program's original operators by uid.

    A plan contains copies for the workers. An executor uses this function to get the objects that exist only on the
    driver: the elements of a collection, a DataFrame, the results of a collecting sink.
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
    """Return 32 hex digits, the format of Flink's operator ids."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _check_unique(nodes: Sequence[Transformation], uids: Mapping[int, str]) -> None:
    owners: dict[str, Transformation] = {}
    for node in nodes:
        uid = uids[node.id]
        other = owners.setdefault(uid, node)
        if other is not node:
            raise GraphError(
                f"two operators have the uid {uid!r}: {other.name!r} ({other.user_line}) and {node.name!r} "
                f"({node.user_line}). A uid identifies the state of one operator: change one of them."
            )
