"""Builds the operators of a program from the function under test."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

from tidemill.datastream.functions.base import Function
from tidemill.datastream.functions.basic import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ReduceFunction,
)
from tidemill.datastream.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidemill.datastream.functions.process import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor
from tidemill.datastream.streams.data_stream import DataStream

#: The stream method for each kind of function.
_METHODS: Final[dict[type, str]] = {
    MapFunction: "map",
    FlatMapFunction: "flat_map",
    FilterFunction: "filter",
    ReduceFunction: "reduce",
    ProcessFunction: "process",
    KeyedProcessFunction: "process",
}
_METHODS_OF_TWO: Final[dict[type, str]] = {
    CoMapFunction: "map",
    CoFlatMapFunction: "flat_map",
    CoProcessFunction: "process",
    KeyedCoProcessFunction: "process",
    BroadcastProcessFunction: "process",
    KeyedBroadcastProcessFunction: "process",
}


def inputs_of(what: Any) -> int:
    """Return the number of input streams of a function object, or of a callable that takes streams."""
    if isinstance(what, tuple(_METHODS_OF_TWO)):
        return 2
    if isinstance(what, tuple(_METHODS)):
        return 1
    if isinstance(what, Function) or not callable(what):
        raise TypeError(f"a harness needs a function object or a callable of streams, not {type(what).__name__}")
    return len(inspect.signature(what).parameters)


def apply_function(what: Any, streams: list[DataStream], broadcast: Sequence[MapStateDescriptor] = ()) -> DataStream:
    """Apply a function object, or a callable that takes streams, to these streams; returns the resulting stream.

    ``broadcast`` are the broadcast states of the function, with which the second stream is broadcast.
    """
    methods = _METHODS_OF_TWO if len(streams) == 2 else _METHODS
    method = next((name for kind, name in methods.items() if isinstance(what, kind)), None)
    if method is None:
        built: DataStream = what(*streams)
        return built
    target: Any = streams[0]
    if isinstance(what, (BroadcastProcessFunction, KeyedBroadcastProcessFunction)):
        if not broadcast:
            raise TypeError("a broadcast function needs the descriptors of its states: broadcast=[...]")
        target = target.connect(streams[1].broadcast(*broadcast))
    elif len(streams) == 2:
        target = target.connect(streams[1])
    applied: DataStream = getattr(target, method)(what)
    return applied
