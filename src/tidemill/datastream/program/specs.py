"""What each kind of operator does, as data: one small class per kind, holding the user's function.

``tidemill.runtime`` has one operator class for each of these. A spec is pickled on its own, so it must hold nothing but
what the operator needs on a worker.
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
    """Reads a source; ``watermarks`` is applied per split when the program gave a strategy with ``from_source``."""

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
    """A rolling reduce over a keyed stream: emits the new value for each record (in BATCH mode only the last).

    ``function`` may be a :class:`~tidemill.datastream.functions.built_in.BuiltIn`, of which some have an accumulator.
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

    ``descriptors`` are the states that the second input is broadcast with.
    """

    function: Any
    descriptors: tuple[MapStateDescriptor, ...]


@dataclass(frozen=True)
class IntervalJoinSpec:
    """A ProcessJoinFunction over two keyed streams; bounds in ms, both inclusive, empty if lower is above upper.

    ``types`` are those of the records of both streams, None where unknown; ``late`` the tags for their late records.
    """

    function: Any
    lower: int
    upper: int
    types: tuple[TypeInformation | None, TypeInformation | None]
    late: tuple[OutputTag | None, OutputTag | None]


@dataclass(frozen=True)
class AsyncWaitSpec:
    """An AsyncFunction with at most ``capacity`` records on their way; ``timeout`` is in ms, 0 for none."""

    function: Any
    timeout: int
    capacity: int
    in_order: bool
    retry: AsyncRetryStrategy | None = None


@dataclass(frozen=True)
class WindowSpec:
    """Windows over a keyed stream. ``reduce`` or ``aggregate`` combine records as they come; ``function`` evaluates.
    Either of the two may be a :class:`~tidemill.datastream.functions.built_in.BuiltIn`.

    ``contents_type`` is that of what a window holds: of the records, or of the accumulator.
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
    """A function over a whole list of values at once (``map_batch``), for vectorised stateless work."""

    function: Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class SinkSpec:
    sink: Sink


#: Operators that can put a record aside at which their function raises: they take their records one by one.
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
