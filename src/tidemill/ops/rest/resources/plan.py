"""The dataflow graph of a job in the format of Flink's web UI: one node for each chain."""

from __future__ import annotations

from tidemill.config.redaction import redacted
from tidemill.graph.guarantees import promises, weakest
from tidemill.graph.plan import ChainPlan
from tidemill.ops.rest.jobs_shown import ShownJob, vertex_id
from tidemill.ops.rest.models.plan import PlanInfo, PlanInput, PlanNode, PlanOperator

__all__ = ["plan_of"]


def plan_of(job: ShownJob) -> PlanInfo:
    """Return the graph, with secrets in names and descriptions redacted."""
    plan = PlanInfo(jid=job.id, name=redacted(job.name), type=job.plan.runtime_mode, nodes=[])
    results = iter(promises(job.plan))
    for chain in job.plan.chains:
        operators = []
        for operator in chain.operators:
            made = PlanOperator(
                id=vertex_id(operator.uid),
                uid=operator.uid,
                name=redacted(operator.name),
                line=operator.user_line,
                keyed=operator.keyed,
            )
            if operator.guarantee:
                made["guarantee"] = next(results).guarantee
            operators.append(made)
        plan["nodes"].append(
            PlanNode(
                id=vertex_id(chain.head.uid),
                parallelism=job.parallelism(chain),
                operator=redacted(chain.name),
                description=redacted(" -> ".join(one.description or one.name for one in chain.operators)),
                level=chain.level,
                inputs=_inputs(job, chain),
                operators=operators,
            )
        )
    if (lowest := weakest(promises(job.plan))) is not None:
        plan["guarantee"] = lowest.guarantee
    return plan


def _inputs(job: ShownJob, chain: ChainPlan) -> list[PlanInput]:
    return [
        PlanInput(
            num=edge.input_index,
            id=vertex_id(job.plan.chains[edge.source_chain].head.uid),
            ship_strategy=redacted(edge.description) or edge.kind.value,
            exchange="pipelined_bounded",
            side_output=edge.side_output,
        )
        for edge in job.plan.edges_into(chain.id)
    ]
