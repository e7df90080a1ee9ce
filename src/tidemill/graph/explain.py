"""The plan as human-readable text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from tidemill.datastream.program.error_policy import OnError
from tidemill.graph.columns import Records, records_in
from tidemill.graph.guarantees import Promise, promises
from tidemill.graph.plan import ChainPlan, ExchangeEdge, JobPlan, OperatorPlan


def explain_plan(plan: JobPlan) -> str:
    """Describe a plan: the levels, starting at the sources, and in each the chains, their operators and exchanges."""
    records = records_in(plan)
    lines = [f"Job {plan.name!r} ({plan.runtime_mode}, max parallelism {plan.max_parallelism})"]
    for number, level in enumerate(plan.levels):
        lines.append(f"Level {number}")
        for chain in level:
            lines.extend("  " + line for line in _chain(plan, plan.chains[chain], records))
    lines += [_result(promise) for promise in promises(plan)]
    return "\n".join(lines)


def _result(promise: Promise) -> str:
    because = f" ({'; '.join(promise.because)})" if promise.because else ""
    return f"Results in {promise.sink!r}: {promise.guarantee}{because}"


def _chain(plan: JobPlan, chain: ChainPlan, records: Mapping[tuple[int, int], Records]) -> Iterator[str]:
    yield f"Chain {chain.id} ({_parallelism(chain.parallelism)})"
    producers = {link.target: link for link in chain.links}
    depth: dict[int, int] = {}
    for position, operator in enumerate(chain.operators):
        link = producers.get(position)
        depth[position] = 0 if link is None else depth[link.source] + 1
        side = f"[{link.side_output}] " if link is not None and link.side_output is not None else ""
        indent = "  " * (depth[position] + 1)
        yield f"{indent}{side}{_operator(operator, plan, records[chain.id, position])}"
        for edge in plan.edges:
            if edge.source_chain == chain.id and edge.source_operator == position:
                yield f"{indent}  => {_exchange(edge, plan)}"


def _operator(operator: OperatorPlan, plan: JobPlan, records: Records) -> str:
    notes = [f"uid {operator.uid}" if operator.explicit_uid else f"uid {operator.uid[:8]} (derived)"]
    if operator.keyed:
        notes.append("keyed")
    if records is not Records.OBJECTS:
        notes.append("columns" if records is Records.COLUMNS else "makes Python objects of columns")
    if operator.operator_state:
        notes.append("operator state")
    if operator.max_parallelism != plan.max_parallelism:
        notes.append(f"max parallelism {operator.max_parallelism}")
    if operator.guarantee:
        notes.append(operator.guarantee)
    if operator.inputs == 0:
        notes.append("replayable" if operator.replayable else "not replayable")
        if operator.repeats:
            notes.append("may repeat records")
    if operator.error_policy.kind is not OnError.FAIL:
        notes.append(f"on error: {operator.error_policy}")
    if operator.output_type is not None and not operator.guarantee:
        notes.append(str(operator.output_type))
    file, _, line = operator.user_line.rpartition(":")
    notes.append(f"{PurePath(file).name}:{line}" if file else operator.user_line)
    description = f" - {operator.description}" if operator.description else ""
    return f"{operator.name}{description} ({', '.join(notes)})"


def _exchange(edge: ExchangeEdge, plan: JobPlan) -> str:
    target = plan.chains[edge.target_chain]
    side = f"side output {edge.side_output!r}, " if edge.side_output is not None else ""
    which = f", input {edge.input_index + 1}" if target.head.inputs > 1 else ""
    return f"{side}{edge.description or edge.kind.value} to chain {target.id} ({target.head.name}{which})"


def _parallelism(parallelism: int | None) -> str:
    if parallelism is None:
        return "parallelism of its Spark source"
    return "default parallelism" if parallelism == 0 else f"parallelism {parallelism}"
