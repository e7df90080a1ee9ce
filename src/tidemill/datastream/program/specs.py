"""Descriptions of operators: one small class per kind of operator, which contains the user's function.

``tidemill.runtime`` has one operator class for each of them. A spec is pickled separately, so it must contain only what
the operator needs on a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.common.typeinfo import TypeInformation
    from tidemill.common.watermark_strategy import WatermarkStrategy
    from tidemill.connectors.sinks import Sink
    from tidemill.connectors.sources import Source
    from tidemill.datastream.functions.retry_strategies import AsyncRetryStrategy
    from tidemill.datastream.functions.state_descriptors import MapStateDescriptor
    from tidemill.datastream.output_tag import OutputTag


@dataclass(frozen=True)
class SourceSpec:
    """Reads a source. ``watermarks`` is the strategy passed to ``from_source``, which is applied per split."""

    source: Source
    watermarks: WatermarkStrategy | None = None


@dataclass(frozen=True)
class MapSpec:
    """``function`` is a callable or a MapFunction."""

    function: Any


@dataclass(frozen=True)
class FlatMapSpec:
    function: Any


@dataclass(frozen=True)
class FilterSpec:
    function: Any


@dataclass(frozen=True)
class ProcessSpec:
    """A ProcessFunction, or a KeyedProcessFunction when the operator is keyed."""

    function: Any


@dataclass(frozen=True)
class ReduceSpec:
    """A rolling reduce on a keyed stream. Emits the new value for each record (in BATCH mode only the last value).

    ``function`` may be a :class:`~tidemill.datastream.functions.built_in.BuiltIn`. Some of these use an accumulator.
    """

    function: Any
    accumulator_type: TypeInformation | None = None


@dataclass(frozen=True)
class CoMapSpec:
    function: Any


@dataclass(frozen=True)
class CoFlatMapSpec:
    function: Any


@dataclass(frozen=True)
class CoProcessSpec:
    """A CoProcessFunction, or a KeyedCoProcessFunction when the operator is keyed."""

    function: Any


@dataclass(frozen=True)
class BroadcastProcessSpec:
    """A BroadcastProcessFunction, or a KeyedBroadcastProcessFunction when the operator is keyed.

    ``descriptors`` are the states that were passed to ``broadcast()`` for the second input.
    """

    function: Any
    descriptors: tuple[MapStateDescriptor, ...]


@dataclass(frozen=True)
class IntervalJoinSpec:
    """A ProcessJoinFunction on two keyed streams. Bounds are in ms and inclusive; empty if lower is above upper.

    ``types`` are the record types of both streams, None if unknown. ``late`` are the tags for their late records.
    """

    function: Any
    lower: int
    upper: int
    types: tuple[TypeInformation | None, TypeInformation | None]
    late: tuple[OutputTag | None, OutputTag | None]


@dataclass(frozen=True)
class AsyncWaitSpec:
    """An AsyncFunction with at most ``capacity`` records in flight. ``timeout`` is in ms; 0 means no timeout."""

    function: Any
    timeout: int
    capacity: int
    in_order: bool
    retry: AsyncRetryStrategy | None = None


@dataclass(frozen=True)
class WindowSpec:
    """Windows on a keyed stream.

    ``reduce`` or ``aggregate`` combines records as they arrive; either may be a
    :class:`~tidemill.datastream.functions.built_in.BuiltIn`. ``function`` evaluates the window. ``contents_type`` is
    the type of the window's contents: of the records or of the accumulator.
    """

    assigner: Any
    trigger: Any
    function: Any = None
    reduce: Any = None
    aggregate: Any = None
    evictor: Any = None
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None
    contents_type: TypeInformation | None = None


@dataclass(frozen=True)
class TimestampsSpec:
    """assign_timestamps_and_watermarks."""

    strategy: WatermarkStrategy


@dataclass(frozen=True)
class BatchMapSpec:
    """A function on a batch of records of ``input_type`` (``map_batch``), received and returned in a format."""

    function: Callable[[Any], Any]
    form: str = "list"
    input_type: TypeInformation | None = None


@dataclass(frozen=True)
class BatchFilterSpec:
    """A function that returns a boolean for each record of a batch (``filter_batch``)."""

    function: Callable[[Any], Any]
    form: str
    input_type: TypeInformation | None = None


@dataclass(frozen=True)
class BatchFlatMapSpec:
    """A function that returns any number of records for a batch (``flat_map_batch``)."""

    function: Callable[[Any], Any]
    form: str
    input_type: TypeInformation | None = None


@dataclass(frozen=True)
class SinkSpec:
    sink: Sink


#: Operators that support error policies. They process records one by one.
GUARDED = (
    MapSpec,
    FlatMapSpec,
    FilterSpec,
    ProcessSpec,
    ReduceSpec,
    CoMapSpec,
    CoFlatMapSpec,
    CoProcessSpec,
    BroadcastProcessSpec,
    WindowSpec,
)
