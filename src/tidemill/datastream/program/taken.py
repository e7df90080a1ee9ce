"""Captures user functions, sources and sinks at the time they are passed to the program.

As in PyFlink, a function is pickled with its captured variables when it is passed to a stream. Later changes to it have
no effect, and an object passed to two operators becomes two objects. The program keeps the bytes, which are sent to the
workers, and the information that the driver needs about them. It does not keep the function itself.

Sources and sinks also have a part on the driver (splits, commits). That part uses a copy made at the same time, unless
the class defines how it is pickled (``__reduce__``, ``__getstate__``). In that case the rest of the object is meant to
stay on the driver, and the driver uses the original object.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sinks import Sink, SupportsWriterState
from tidemill.connectors.sources import Source
from tidemill.datastream.functions.base import Function
from tidemill.datastream.functions.checkpointed import CheckpointedFunction, ListCheckpointed, is_checkpointed
from tidemill.datastream.functions.pickling import copied, to_bytes
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.datastream.program.specs import BroadcastProcessSpec, SinkSpec, SourceSpec

__all__ = ["QueryableName", "Taken", "for_driver", "take"]

#: Longer lists and dicts contain data and are not searched.
_FEW: Final = 100

T = TypeVar("T")


@dataclass(frozen=True)
class QueryableName:
    """The name of a state whose descriptor is an attribute of a function, and its queryable state name."""

    state: str
    name: str


@dataclass(frozen=True)
class Taken:
    """The spec of an operator, captured when the operator was built. ``data`` is the pickled spec for the workers.

    >>> from tidemill.datastream.program.specs import MapSpec
    >>> factor = {"value": 2}
    >>> taken = take(MapSpec(lambda number: number * factor["value"]), "an example")
    >>> factor["value"] = 3
    >>> taken.spec.function(5)
    10
    """

    kind: type
    data: bytes
    #: The spec that the driver part of a source or sink uses. None for other operators.
    on_driver: SourceSpec | SinkSpec | None = None
    #: Whether the operator has operator state.
    operator_state: bool = False
    #: Whether it has operator state or listens to checkpoints, so that its parallelism must not vary between epochs.
    checkpointed: bool = False
    queryable: tuple[QueryableName, ...] = ()
    #: Whether it marks inputs as idle that have had no records for some time.
    counts_idleness: bool = False

    @property
    def spec(self) -> Any:
        """The spec: the driver's object for a source or sink, else a new copy."""
        return pickle.loads(self.data) if self.on_driver is None else self.on_driver


def take(spec: Any, where: str) -> Taken:
    """Capture the spec of an operator with the user's functions. ``where`` describes the operator in errors.

    Raises ``SerializationError`` with the function and the part of it that cannot be pickled.
    """
    function = _function_of(spec)
    data = to_bytes(spec, "function", _shown(spec), where)
    on_driver: SourceSpec | SinkSpec | None = None
    if isinstance(spec, SourceSpec):
        on_driver = SourceSpec(for_driver(spec.source, where), copied(spec.watermarks, "watermark strategy", where))
    elif isinstance(spec, SinkSpec):
        on_driver = SinkSpec(for_driver(spec.sink, where))
    operator_state = (
        isinstance(spec, BroadcastProcessSpec)
        or (isinstance(spec, SinkSpec) and isinstance(spec.sink, SupportsWriterState))
        or isinstance(function, (CheckpointedFunction, ListCheckpointed))
    )
    return Taken(
        type(spec),
        data,
        on_driver,
        operator_state,
        operator_state or is_checkpointed(function),
        tuple(_queryable(spec)),
        _counts_idleness(spec),
    )


def for_driver(given: T, where: str) -> T:
    """A source or sink for the driver: a copy, or the object itself if its class defines how it is pickled.

    The same applies to sources and sinks that it wraps.
    """
    return given if _stays(given) else copied(given, "function", where, _stays)


def _stays(value: Any) -> bool:
    return isinstance(value, (Source, Sink)) and _pickles_itself(type(value))


def _pickles_itself(kind: type) -> bool:
    def own(name: str) -> bool:
        method = getattr(kind, name, None)  # object has no __getstate__ in Python 3.10
        return method is not getattr(object, name, None) and getattr(method, "__module__", None) != "dataclasses"

    return any(own(name) for name in ("__reduce__", "__reduce_ex__", "__getstate__"))


def _function_of(spec: Any) -> Any:
    """The user's function in a spec, or None."""
    return getattr(spec.sink if isinstance(spec, SinkSpec) else spec, "function", None)


def _shown(spec: Any) -> Any:
    """The part of a spec that error messages refer to: the user's object."""
    for name in ("function", "source", "strategy"):
        if hasattr(spec, name):
            return getattr(spec, name)
    sink = getattr(spec, "sink", spec)
    return getattr(sink, "function", sink)


def _counts_idleness(spec: Any) -> bool:
    strategy = getattr(spec, "strategy", None) or getattr(spec, "watermarks", None)
    return isinstance(strategy, WatermarkStrategy) and strategy.idle_timeout_millis is not None


def _queryable(spec: Any) -> Iterator[QueryableName]:
    """The queryable descriptors in the functions of a spec, including those in lists, dicts and nested functions."""
    waiting: list[Any] = [part for part in vars(spec).values() if isinstance(part, Function)]
    seen = set(map(id, getattr(spec, "descriptors", ())))  # broadcast state cannot be queried
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, StateDescriptor):
            if found.queryable_name is not None:
                yield QueryableName(found.name, found.queryable_name)
        elif isinstance(found, Function):
            waiting.extend(vars(found).values())
        elif isinstance(found, (list, tuple)) and len(found) <= _FEW:
            waiting.extend(found)
        elif isinstance(found, dict) and len(found) <= _FEW:
            waiting.extend(found.values())
