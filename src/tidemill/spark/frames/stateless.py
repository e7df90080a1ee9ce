"""Checks that streaming DataFrames are stateless: an epoch would not commit Spark's state.

Spark's stateful operators write their state from executors, into the checkpoint location of one lineage. A job could
not resume from it, neither after a failure nor from a savepoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame

from tidemill.errors import GraphError

#: The plan nodes that keep state across batches if they read a stream, and the operations that create them.
_STATEFUL: Final = {
    "Aggregate": "groupBy",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Distinct": "DISTINCT",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "GlobalLimit": "limit",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
}


def check_stateless(frame: DataFrame, uid: str) -> None:
    """Raise :class:`GraphError` if Spark would have to keep state for a streaming DataFrame."""
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        what = _state_of(node)
        if what is not None:
            raise GraphError(
                f"the streaming DataFrame of the source with uid {uid!r} has {what}, for which Spark keeps state that "
                "is not part of the job's checkpoints: the job could not recover from a failure. Do it in the job, on "
                "the stream: key_by with keyed state, windows or joins"
            )


def _state_of(node: Any) -> str | None:
    name = str(node.getClass().getSimpleName())
    if name == "Join":
        return "a join of two streams" if node.left().isStreaming() and node.right().isStreaming() else None
    return _STATEFUL.get(name) if node.isStreaming() else None


def _nodes(plan: Any) -> Iterator[Any]:
    """Return all nodes of a plan."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
