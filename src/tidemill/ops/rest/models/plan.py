"""The dataflow graph of a job."""

from __future__ import annotations

from typing_extensions import NotRequired, TypedDict


class PlanInput(TypedDict):
    """An edge into a node; ``id`` is the source node."""

    num: int
    id: str
    ship_strategy: str
    exchange: str
    side_output: str | None


class PlanOperator(TypedDict):
    """An operator of a chain."""

    id: str
    uid: str
    name: str
    line: str
    keyed: bool
    guarantee: NotRequired[str]


class PlanNode(TypedDict):
    """A chain of operators, which Flink calls a job vertex."""

    id: str
    parallelism: int
    operator: str
    description: str
    level: int
    inputs: list[PlanInput]
    operators: list[PlanOperator]


class PlanInfo(TypedDict):
    """The dataflow graph; ``guarantee`` is the weakest guarantee of its sinks."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]
    guarantee: NotRequired[str]


class PlanAnswer(TypedDict):
    """The dataflow graph of a job."""

    plan: PlanInfo
