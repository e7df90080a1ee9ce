"""Checks that the queryable names that functions report are unique in a job.

Functions set these names when they are opened. Names that are known before are checked in
:mod:`tidemill.graph.queryable_names`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.checkpoint.model import Ack
from tidemill.errors import GraphError
from tidemill.graph.plan import JobPlan
from tidemill.runtime.task.subtask_report import reports_of

__all__ = ["check_reported_names"]


def check_reported_names(plan: JobPlan, acks: Iterable[Ack]) -> None:
    """Raise ``GraphError``, naming both operators, if two operators have states with the same queryable name.

    As in Flink, the job fails permanently. Nothing of the epoch is committed.
    """
    owners: dict[str, tuple[str, str]] = {}
    for report in reports_of(acks):
        for operator in report.operators:
            for name, state in operator.queryable:
                owner = owners.setdefault(name, (operator.uid, state))
                if owner != (operator.uid, state):
                    raise GraphError(
                        f"two states have the queryable name {name!r}: {_place(plan, *owner)} and "
                        f"{_place(plan, operator.uid, state)}; give one of them another name in set_queryable()"
                    )


def _place(plan: JobPlan, uid: str, state: str) -> str:
    operator = next(one for chain in plan.chains for one in chain.operators if one.uid == uid)
    return f"{state!r} of operator {operator.name!r} ({operator.user_line}, uid {uid!r})"
