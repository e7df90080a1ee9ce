"""A queryable state is found by its name alone. Names that functions give when they are opened are compared here."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.checkpoint.model import Ack
from tidemill.errors import GraphError
from tidemill.graph.plan import JobPlan
from tidemill.runtime.task.subtask_report import reports_of

__all__ = ["check_queryable_names"]


def check_queryable_names(plan: JobPlan, acks: Iterable[Ack]) -> None:
    """Raise ``GraphError``, naming both, if two operators have states that are to be queried under one name.

    As in Flink the job fails for it, for good; nothing of the epoch is committed.
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
