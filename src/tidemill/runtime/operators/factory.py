"""Creates the operator for a spec."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from tidemill.common.calls import is_interrupt
from tidemill.datastream.program import specs
from tidemill.datastream.program.error_policy import OnError
from tidemill.errors import GraphError, SerializationError
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.batch_functions import FilterBatchOperator, FlatMapBatchOperator, MapBatchOperator
from tidemill.runtime.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastOperator
from tidemill.runtime.operators.built_in import with_code
from tidemill.runtime.operators.interval_join import IntervalJoinOperator
from tidemill.runtime.operators.keyed import KeyedProcessOperator, ReduceOperator
from tidemill.runtime.operators.poison import PoisonGuard
from tidemill.runtime.operators.sink import SinkOperator
from tidemill.runtime.operators.source import SourceOperator
from tidemill.runtime.operators.stateless import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    ProcessOperator,
)
from tidemill.runtime.operators.timestamps import TimestampsOperator
from tidemill.runtime.operators.two_inputs import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from tidemill.runtime.operators.windowing.factory import window_operator


def _async_wait(spec: Any, context: OperatorContext) -> Operator:
    from tidemill.runtime.operators.async_wait import AsyncWaitOperator  # asyncio is slow to import

    return AsyncWaitOperator(spec, context)


_PLAIN: dict[type, Callable[[Any, OperatorContext], Operator]] = {
    specs.SourceSpec: SourceOperator,
    specs.MapSpec: MapOperator,
    specs.FlatMapSpec: FlatMapOperator,
    specs.FilterSpec: FilterOperator,
    specs.BatchMapSpec: MapBatchOperator,
    specs.BatchFilterSpec: FilterBatchOperator,
    specs.BatchFlatMapSpec: FlatMapBatchOperator,
    specs.ProcessSpec: ProcessOperator,
    specs.ReduceSpec: ReduceOperator,
    specs.CoMapSpec: CoMapOperator,
    specs.CoFlatMapSpec: CoFlatMapOperator,
    specs.CoProcessSpec: CoProcessOperator,
    specs.BroadcastProcessSpec: BroadcastProcessOperator,
    specs.IntervalJoinSpec: IntervalJoinOperator,
    specs.AsyncWaitSpec: _async_wait,
    specs.WindowSpec: window_operator,
    specs.TimestampsSpec: TimestampsOperator,
    specs.SinkSpec: SinkOperator,
}
_KEYED: dict[type, Callable[[Any, OperatorContext], Operator]] = {
    specs.ProcessSpec: KeyedProcessOperator,
    specs.CoProcessSpec: KeyedCoProcessOperator,
    specs.BroadcastProcessSpec: KeyedBroadcastOperator,
}


def _load_spec(context: OperatorContext) -> Any:
    """Unpickle the spec of an operator. It was sent by the job's own driver, and may contain user code."""
    try:
        return pickle.loads(context.plan.spec)
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise SerializationError(
            f"{context.where} cannot be loaded on this worker: {type(error).__name__}: {error}. "
            "Modules the function imports must be installed on the executors, or shipped with add_python_file()."
        ) from error


def build_operator(context: OperatorContext) -> Operator:
    """Create the operator instance of a plan entry."""
    spec = with_code(_load_spec(context))
    build = (_KEYED.get(type(spec)) if context.plan.keyed else None) or _PLAIN.get(type(spec))
    if build is None:
        raise GraphError(f"no operator exists for {type(spec).__name__} ({context.where})")
    if context.plan.error_policy.kind is OnError.FAIL:
        return build(spec, context)
    guard = PoisonGuard(context, context.plan.error_policy)
    operator = build(spec, context)
    guard.stand_before(operator, spec)
    return operator
