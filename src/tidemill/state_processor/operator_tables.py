"""Operator state as tables: one row per element, regardless of which subtask stored it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.state.operator.operator_state import FILES

__all__ = ["operator_table"]


def operator_table(table: Any, mode: str) -> Any:
    """Convert stored operator state to a table with one row per element.

    ``table`` has a row per subtask or, for broadcast state, per entry and subtask; ``mode`` is how the state is
    redistributed.
    """
    table = table.sort_by("key")
    if mode == "broadcast":
        return _one_copy(table)
    if mode == FILES:
        return pa.table({"path": table.column("key"), "epoch": table.column("value")})
    lists = table.column("value").combine_chunks()
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    subtasks = table.column("key").to_numpy()
    return pa.table({"subtask": pa.array(np.repeat(subtasks, counts)), "value": lists.flatten()})


def _one_copy(table: Any) -> Any:
    """The entries of the first subtask: all subtasks have the same entries."""
    if not len(table):
        return table.drop_columns(["key"])
    first = pc.min(table.column("key"))
    return table.filter(pc.equal(table.column("key"), first)).drop_columns(["key"])
