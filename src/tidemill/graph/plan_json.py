"""The plan in the JSON form that Flink's tools read."""

from __future__ import annotations

import json
from typing import Any, Final

from tidemill.graph.guarantees import promises, weakest
from tidemill.graph.plan import JobPlan, OperatorPlan

#: Flink's values for the default parallelism, and for a parallelism that is not known.
PARALLELISM_DEFAULT: Final = -1
PARALLELISM_UNKNOWN: Final = -2

_PACTS: Final = {"SourceSpec": "Data Source", "SinkSpec": "Data Sink"}


def plan_to_json(plan: JobPlan) -> str:
    """Return ``{"nodes": [{"id", "type", "pact", "contents", "parallelism", "predecessors": [...]}, ...]}``.

    Additional fields that Flink does not have: ``replayable`` for sources, ``guarantee`` and ``result`` (the guarantee
    with the sources of this program) for sinks, and ``guarantee`` for the whole plan.
    """
    numbers: dict[tuple[int, int], int] = {}
    for chain in plan.chains:
        for position in range(len(chain.operators)):
            numbers[chain.id, position] = len(numbers) + 1
    predecessors: dict[int, list[tuple[int, str]]] = {}
    for chain in plan.chains:
        for link in chain.links:
            into = predecessors.setdefault(numbers[chain.id, link.target], [])
            into.append((numbers[chain.id, link.source], "FORWARD"))
    for edge in plan.edges:
        into = predecessors.setdefault(numbers[edge.target_chain, 0], [])
        into.append((numbers[edge.source_chain, edge.source_operator], edge.kind.value))
    found = promises(plan)
    results = iter(found)
    nodes = [
        _node(numbers[chain.id, position], operator, chain.parallelism, predecessors)
        for chain in plan.chains
        for position, operator in enumerate(chain.operators)
    ]
    for node in nodes:
        if "guarantee" in node:
            node["result"] = next(results).guarantee
    lowest = weakest(found)
    return json.dumps({"nodes": nodes, **({} if lowest is None else {"guarantee": lowest.guarantee})}, indent=2)


def _node(
    number: int, operator: OperatorPlan, parallelism: int | None, predecessors: dict[int, list[tuple[int, str]]]
) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": number,
        "type": operator.name,
        "pact": _PACTS.get(operator.spec_kind, "Operator"),
        "contents": operator.description or operator.name,
        "parallelism": PARALLELISM_UNKNOWN if parallelism is None else parallelism or PARALLELISM_DEFAULT,
    }
    if operator.inputs == 0:
        node["replayable"] = operator.replayable
    if operator.guarantee:
        node["guarantee"] = operator.guarantee
    if number in predecessors:
        node["predecessors"] = [
            {"id": source, "ship_strategy": strategy, "side": "second" if index else "first"}
            for index, (source, strategy) in enumerate(predecessors[number])
        ]
    return node
