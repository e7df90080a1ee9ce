"""Which operators process columnar batches as columns, and where in a plan columns become Python objects."""

from __future__ import annotations

import enum
import pickle
from collections.abc import Mapping

from tidemill.common.watermark_strategy import TimestampColumn, WatermarkStrategy
from tidemill.datastream.functions.built_in import AggregateKind, BuiltIn
from tidemill.datastream.program.error_policy import OnError
from tidemill.datastream.program.ingestion_time import IngestionTime
from tidemill.datastream.program.key_selectors import FieldSelector, PositionSelector
from tidemill.datastream.program.specs import (
    BatchFilterSpec,
    BatchFlatMapSpec,
    BatchMapSpec,
    MapSpec,
    ReduceSpec,
    SinkSpec,
    SourceSpec,
    TimestampsSpec,
    WindowSpec,
)
from tidemill.datastream.program.transformations import PartitionKind, Transformation
from tidemill.datastream.streams.projection import Projection
from tidemill.datastream.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from tidemill.datastream.window.triggers import EventTimeTrigger
from tidemill.graph.plan import ChainPlan, ExchangeEdge, JobPlan

_KINDS = frozenset(
    {
        *(SourceSpec, SinkSpec, TimestampsSpec, BatchMapSpec, BatchFilterSpec, BatchFlatMapSpec),
        *(MapSpec, ReduceSpec, WindowSpec),
    }
)
_ONE_BY_ONE = frozenset({AggregateKind.MIN_BY, AggregateKind.MAX_BY})


class Records(enum.Enum):
    """What an operator does with records that are columns."""

    #: It receives objects, or there is nothing columnar before it.
    OBJECTS = "objects"
    #: It receives columns, and processes them as columns.
    COLUMNS = "columns"
    #: It receives columns, and turns them into objects.
    MADE = "made"


def takes_columns(node: Transformation, runtime_mode: str) -> bool:
    """Whether an operator processes columnar batches as columns, where their types allow it."""
    if node.taken.kind not in _KINDS:
        return False
    spec = node.spec
    if isinstance(spec, SourceSpec):
        return spec.source.columnar and (spec.watermarks is None or _by_columns(spec.watermarks))
    if isinstance(spec, SinkSpec):
        return spec.sink.takes_columns
    if isinstance(spec, TimestampsSpec):
        return _by_columns(spec.strategy)
    if isinstance(spec, (BatchMapSpec, BatchFilterSpec, BatchFlatMapSpec)):
        return spec.form != "list"
    if node.error_policy.kind is not OnError.FAIL or (node.keyed and runtime_mode == "BATCH"):
        return False  # an error policy is about single records, and BATCH mode sorts them
    if isinstance(spec, MapSpec):
        return isinstance(spec.function, Projection)
    if isinstance(spec, ReduceSpec):
        return isinstance(spec.function, BuiltIn)
    return isinstance(spec, WindowSpec) and _aligned_built_in(spec)


def _aligned_built_in(spec: WindowSpec) -> bool:
    function = spec.reduce or spec.aggregate
    return (
        isinstance(function, BuiltIn)
        and function.kind not in _ONE_BY_ONE
        and type(spec.assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
        and spec.assigner.slide <= spec.assigner.size
        and type(spec.trigger) is EventTimeTrigger
        and spec.evictor is None
    )


def _by_columns(strategy: WatermarkStrategy) -> bool:
    assigner = strategy.timestamp_assigner
    return not strategy.reads_events and (assigner is None or isinstance(assigner, (TimestampColumn, IngestionTime)))


def records_in(plan: JobPlan) -> Mapping[tuple[int, int], Records]:
    """What each operator of a plan receives, by the numbers of its chain and of its place in the chain."""
    found: dict[tuple[int, int], Records] = {}
    given: dict[tuple[int, int], bool] = {}
    for level in plan.levels:
        for number in level:
            chain = plan.chains[number]
            for position, operator in enumerate(chain.operators):
                place = (number, position)
                columnar = operator.takes_columns if operator.inputs == 0 else _receives(plan, chain, position, given)
                given[place] = columnar and operator.takes_columns
                if columnar:
                    found[place] = Records.COLUMNS if operator.takes_columns else Records.MADE
                else:
                    found[place] = Records.OBJECTS
    return found


def _receives(plan: JobPlan, chain: ChainPlan, position: int, given: Mapping[tuple[int, int], bool]) -> bool:
    links = [link for link in chain.links if link.target == position]
    if links:
        return any(given[chain.id, link.source] and link.side_output is None for link in links)
    edges = [edge for edge in plan.edges if edge.target_chain == chain.id]
    return any(given[edge.source_chain, edge.source_operator] and _keeps_columns(edge) for edge in edges)


def _keeps_columns(edge: ExchangeEdge) -> bool:
    if edge.side_output is not None or edge.kind is PartitionKind.CUSTOM:
        return False
    if edge.kind is not PartitionKind.KEY_GROUP:
        return True
    return isinstance(pickle.loads(edge.partitioner).selector, (PositionSelector, FieldSelector))


__all__ = ["Records", "records_in", "takes_columns"]
