"""Compiles a program to a plan.

1. Find the operators of the program and their order (:mod:`tidemill.graph.topology`), and check the names of their
   queryable states (:mod:`tidemill.graph.queryable_names`).
2. Assign a uid to each operator (:mod:`tidemill.graph.uids`).
3. Decide parallelism, partitioning and which edges are chained (:mod:`tidemill.graph.parallelism`).
4. Group chained operators and assign the chains to levels (:mod:`tidemill.graph.chaining`).
5. Create the plan, with the functions as they were when the program was built
   (:mod:`tidemill.datastream.program.taken`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions, PipelineOptions
from tidemill.connectors.sources import ClockOf
from tidemill.datastream.program.specs import SinkSpec, SourceSpec, WindowSpec
from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import GraphError
from tidemill.graph.chaining import OperatorChain, build_chains
from tidemill.graph.columns import takes_columns
from tidemill.graph.parallelism import Defaults, ProgramResolver, ResolvedProgram
from tidemill.graph.plan import ChainLink, ChainPlan, ExchangeEdge, JobPlan, OperatorPlan
from tidemill.graph.queryable_names import check_queryable_names
from tidemill.graph.topology import place, reachable
from tidemill.graph.uids import assign_uids
from tidemill.graph.window_kinds import describe_windows


def compile_job(
    transformations: Iterable[Transformation],
    configuration: Configuration,
    job_name: str,
    default_parallelism: int | None = None,
) -> JobPlan:
    """Compile a program to a plan.

    ``default_parallelism`` is the executor's default for operators whose parallelism is set neither by the program nor
    by the configuration. If it is None, these operators get 0, and their parallelism is decided at run time.

    Raises ``GraphError`` for an invalid program. The error names the operator and the line of user code.
    """
    defaults = Defaults.of(configuration, default_parallelism)
    nodes = reachable(transformations)  # 1
    check_queryable_names(nodes)
    uids = assign_uids(nodes, derive=configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))  # 2
    resolved = ProgramResolver(defaults).resolve(nodes)  # 3
    chains = build_chains(nodes, resolved.edges)  # 4
    mode = runtime_mode(nodes, configuration)
    return JobPlan(  # 5
        name=job_name,
        chains=tuple(_chain_plan(number, chain, resolved, uids, mode) for number, chain in enumerate(chains)),
        edges=_exchanges(chains),
        levels=_levels(chains),
        max_parallelism=defaults.max_parallelism,
        runtime_mode=mode,
        settings=configuration.to_dict(),
    )


def runtime_mode(nodes: Sequence[Transformation], configuration: Configuration) -> str:
    """Return STREAMING or BATCH. AUTOMATIC is resolved by whether all sources are bounded."""
    mode = configuration.get(ExecutionOptions.RUNTIME_MODE)
    sources = [(node, node.taken.on_driver) for node in nodes]
    unbounded = [node for node, spec in sources if isinstance(spec, SourceSpec) and not spec.source.bounded]
    if mode == "AUTOMATIC":
        return "STREAMING" if unbounded else "BATCH"
    if mode == "BATCH" and unbounded:
        raise GraphError(f"execution.runtime-mode is BATCH, but {place(unbounded[0])} is unbounded: use STREAMING")
    return mode


def _chain_plan(
    number: int, chain: OperatorChain, resolved: ResolvedProgram, uids: Mapping[int, str], mode: str
) -> ChainPlan:
    position = {node.id: index for index, node in enumerate(chain.nodes)}
    head = chain.head.taken.on_driver
    return ChainPlan(
        id=number,
        operators=tuple(_operator_plan(node, resolved, uids[node.id], mode) for node in chain.nodes),
        links=tuple(
            ChainLink(
                position[link.upstream.node.id],
                position[link.consumer.id],
                link.input_index,
                link.upstream.side_output,
            )
            for link in chain.links
        ),
        parallelism=resolved.parallelism[chain.head.id],
        level=chain.level,
        fixed=any(node.parallelism is not None for node in chain.nodes),
        clock_of=head.source.clock_of if isinstance(head, SourceSpec) else ClockOf.SUBTASK,
    )


def _operator_plan(node: Transformation, resolved: ResolvedProgram, uid: str, mode: str) -> OperatorPlan:
    taken, spec = node.taken, node.taken.on_driver
    return OperatorPlan(
        uid=uid,
        name=node.name,
        spec=taken.data,
        spec_kind=taken.kind.__name__,
        inputs=len(node.inputs),
        keyed=node.keyed,
        explicit_uid=node.uid is not None or node.uid_hash is not None,
        key_type=node.key_type,
        output_type=node.output_type,
        max_parallelism=resolved.max_parallelism[node.id],
        explicit_max_parallelism=node.id in resolved.explicit_max_parallelism,
        description=node.description or "",
        user_line=node.user_line,
        side_outputs=tuple(sorted(node.emitted_side_outputs.items())),
        guarantee=spec.sink.guarantee if isinstance(spec, SinkSpec) else "",
        for_reading=isinstance(spec, SinkSpec) and spec.sink.for_reading,
        replayable=spec.source.replayable if isinstance(spec, SourceSpec) else True,
        repeats=isinstance(spec, SourceSpec) and spec.source.repeats,
        operator_state=taken.operator_state,
        checkpointed=taken.checkpointed,
        counts_idleness=taken.counts_idleness,
        takes_columns=takes_columns(node, mode),
        windows=describe_windows(node.spec) if issubclass(taken.kind, WindowSpec) else None,
        error_policy=node.error_policy,
    )


def _exchanges(chains: Sequence[OperatorChain]) -> tuple[ExchangeEdge, ...]:
    home = {node.id: (number, index) for number, chain in enumerate(chains) for index, node in enumerate(chain.nodes)}
    edges: list[ExchangeEdge] = []
    for number, chain in enumerate(chains):
        for edge in chain.exchanges_in:
            source_chain, source_operator = home[edge.upstream.node.id]
            edges.append(
                ExchangeEdge(
                    id=len(edges),
                    source_chain=source_chain,
                    source_operator=source_operator,
                    side_output=edge.upstream.side_output,
                    kind=edge.partitioning.kind,
                    partitioner=edge.partitioning.data,
                    target_chain=number,
                    input_index=edge.input_index,
                    description=edge.partitioning.description,
                )
            )
    return tuple(edges)


def _levels(chains: Sequence[OperatorChain]) -> tuple[tuple[int, ...], ...]:
    levels: list[list[int]] = [[] for _ in range(1 + max(chain.level for chain in chains))]
    for number, chain in enumerate(chains):
        levels[chain.level].append(number)
    return tuple(tuple(level) for level in levels)
