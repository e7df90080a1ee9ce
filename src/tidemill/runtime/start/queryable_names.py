"""Checks that queryable names are unique in a job: a queryable state is identified by its name alone.

This module checks the names that functions set when they are opened.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.checkpoint.model import Ack
from tidemill.errors import GraphError
from tidemill.graph.plan import JobPlan
from tidemill.runtime.task.subtask_report import reports_of

__all__ = ["check_queryable_names"]


def check_queryable_names(plan: JobPlan, acks: Iterable[Ack]) -> None:
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
                        f"two states are to be queried as {name!r}: {_place(plan, *owner)} and "
                        f"{_place(plan, operator.uid, state)}; give one of them another name in set_queryable()"
                    )


def _place(plan: JobPlan, uid: str, state: str) -> str:
    operator = next(one for chain in plan.chains for one in chain.operators if one.uid == uid)
    return f"{state!r} of operator {operator.name!r} ({operator.user_line}, uid {uid!r})"
