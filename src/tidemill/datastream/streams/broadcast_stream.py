"""Broadcast streams, whose elements become state on every subtask, and their connection with a data stream."""

from __future__ import annotations

from tidemill.datastream.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor, TypeSpec
from tidemill.datastream.program.specs import BroadcastProcessSpec
from tidemill.datastream.program.transformations import Transformation, Upstream
from tidemill.datastream.program.type_hints import common_output_type
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.streams.keyed_stream import KeyedStream
from tidemill.errors import GraphError

__all__ = ["BroadcastConnectedStream", "BroadcastStream"]


class BroadcastStream:
    """A stream that is sent to every subtask, with the states its elements update. It can only be connected."""

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: list[MapStateDescriptor]) -> None:
        """``input_stream`` already has broadcast partitioning."""
        seen: set[str] = set()
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(f"broadcast() needs MapStateDescriptors, not {type(descriptor).__name__}")
            if descriptor.name in seen:
                raise GraphError(f"two broadcast states have the name {descriptor.name!r}: rename one of them")
            seen.add(descriptor.name)
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream:
    """A keyed or non-keyed data stream connected with a broadcast stream."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def process(
        self, func: BroadcastProcessFunction | KeyedBroadcastProcessFunction, output_type: TypeSpec = None
    ) -> DataStream:
        """Apply a function to both sides.

        Every subtask receives the elements of the broadcast side in the same order. In BATCH mode all of them are
        processed before the first record of the data side.
        """
        data, broadcast = self.non_broadcast_stream, self.broadcast_stream.input_stream
        keyed = isinstance(data, KeyedStream)
        wanted = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        if not isinstance(func, wanted):
            raise TypeError(
                f"process() of a {'keyed stream' if keyed else 'non-keyed stream'} with a broadcast stream "
                f"needs a {wanted.__name__}, not {type(func).__name__}"
            )
        found = common_output_type(output_type, func, "process_element", "process_broadcast_element", many=True)
        operator = Transformation.of(
            "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast",
            BroadcastProcessSpec(func, tuple(self.broadcast_state_descriptors)),
            (data._upstreams, broadcast._upstreams),
            keyed=keyed,
            key_type=data._key_type(),
            output_type=found,
        )
        data._environment._register(operator)
        return DataStream(data._environment, (Upstream(operator),), found)
