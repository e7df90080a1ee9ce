"""Decides what a background merge may drop because it has expired.

A merge has the committed times of its job, and the information in the sections of each state. It drops an entry only if

- the running program has declared this time to live. A section contains the time of the last declaration: if that was
  before the current driver took over, the program may have been changed to a longer time to live, or none, and may
  still see the entry;
- the entry has expired by the *committed* clock, or watermark. The clocks of later epochs are not earlier, so no worker
  that still has the entry can see or renew it. (If expired entries may be returned, a worker may return the entry until
  its next check, because it has not been cleaned up everywhere yet.)

If older runs lie below, a dropped put leaves a delete: the entry that it had replaced must not reappear. That the older
entry must have expired too is not sufficient, because it may have no time, or, with event time, a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.state.codecs.ttl import LAST_ACCESS
from tidemill.state.files.rows import APPEND, DELETE, PUT, Rows
from tidemill.state.files.section_kinds import SectionKind
from tidemill.state.files.ttl_declared import MAX_TIME, MIN_TIME

__all__ = ["CommittedTimes", "Horizon", "drop_expired_columns", "drop_expired_rows", "horizon_of"]


@dataclass(frozen=True)
class CommittedTimes:
    """The times a job has committed: its processing time, and the lowest watermark of each operator.

    ``started`` is the processing time that was committed when the current driver took over.
    """

    clock: int
    started: int
    watermarks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Horizon:
    """Entries last accessed at or before ``time`` have expired; so have entries without a time, if ``timeless``."""

    time: int
    timeless: bool

    def passed(self, last_access: int) -> bool:
        """Whether an entry has expired."""
        return last_access <= self.time and (last_access != MIN_TIME or self.timeless)


def horizon_of(ttl: Mapping[str, Any] | None, operator: str, times: CommittedTimes | None) -> Horizon | None:
    """The time up to which entries of a state have expired for a merge; None if it may not drop any.

    ``ttl`` is the description in the newest section of the state.
    """
    if ttl is None or times is None or not ttl["in_merges"] or ttl["declared"] <= times.started:
        return None
    now = times.clock if ttl["time"] == "ProcessingTime" else times.watermarks.get(operator, MIN_TIME)
    time = now - ttl["ttl"]
    if now == MAX_TIME or time < MIN_TIME:
        return None
    return Horizon(time, ttl["since"] != MIN_TIME and ttl["since"] <= time)


def drop_expired_columns(table: Any, horizon: Horizon, *, keep_deletes: bool) -> Any:
    """A section's table of single values without the expired ones."""
    values = table.column("value")
    times = pc.struct_field(values, LAST_ACCESS)
    passed = pc.and_(pc.equal(table.column("op"), PUT), pc.less_equal(times, horizon.time))
    if not horizon.timeless:
        passed = pc.and_(passed, pc.not_equal(times, MIN_TIME))
    passed = pc.fill_null(passed, False)
    if not pc.any(passed).as_py():
        return table
    if not keep_deletes:
        return table.filter(pc.invert(passed))
    ops = pc.if_else(passed, pa.scalar(DELETE, pa.uint8()), table.column("op"))
    left = pc.if_else(passed, pa.scalar(None, values.type), values)
    for name, column in (("op", ops), ("value", left)):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(index), column)
    return table


def drop_expired_rows(kind: SectionKind, rows: Rows, horizon: Horizon, *, keep_deletes: bool) -> Rows | None:
    """The rows without expired values; None if no rows are left."""
    count = len(rows.keys)
    ops = rows.ops or [PUT] * count
    namespaces = rows.namespaces or [None] * count
    user_keys = rows.user_keys or [None] * count
    left = Rows()
    for key, namespace, op, user_key, value in zip(rows.keys, namespaces, ops, user_keys, rows.values, strict=True):
        new_op, new_value = op, value
        if kind.in_lists and op in (PUT, APPEND):
            new_value = [item for item in value if not horizon.passed(item.time)]
            if not new_value and value:
                new_op = DELETE
        elif op == PUT and horizon.passed(value.time):
            new_op, new_value = DELETE, None
        if new_op == DELETE and op == APPEND:
            continue  # nothing is left to append, and older rows below stay
        if new_op == DELETE and op != DELETE and not keep_deletes:
            continue
        left.keys.append(key)
        left.namespaces.append(namespace)
        left.ops.append(new_op)
        left.user_keys.append(user_key)
        left.values.append(new_value)
    return left if left.keys else None
