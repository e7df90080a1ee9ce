"""Interval joins: joins each record of a keyed stream with the records of another within a time interval."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.common.time import Length, as_millis
from tidemill.datastream.functions.join import ProcessJoinFunction
from tidemill.datastream.functions.state_descriptors import TypeSpec
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.program.specs import IntervalJoinSpec
from tidemill.datastream.program.type_hints import output_type as type_of_output
from tidemill.datastream.streams.connected_streams import ConnectedStreams
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.streams.keyed_stream import KeyedStream
from tidemill.errors import GraphError

__all__ = ["IntervalJoin", "IntervalJoined"]


class IntervalJoin:
    """An interval join of two keyed streams. :meth:`between` sets the interval."""

    def __init__(self, stream_one: KeyedStream, stream_two: KeyedStream, *, event_time: bool = True) -> None:
        self.stream_one = stream_one
        self.stream_two = stream_two
        self._event_time = event_time

    def in_event_time(self) -> IntervalJoin:
        """Join by event time, which is the default."""
        return IntervalJoin(self.stream_one, self.stream_two)

    def in_processing_time(self) -> IntervalJoin:
        """Join by processing time. As in Flink, this is not supported: :meth:`between` then raises ``GraphError``."""
        return IntervalJoin(self.stream_one, self.stream_two, event_time=False)

    def between(self, lower_bound: Length, upper_bound: Length) -> IntervalJoined:
        """Join a record of the first stream with timestamp t with records of the second from t + lower to t + upper.

        Both bounds are inclusive and may be negative.
        """
        if not self._event_time:
            raise GraphError("an interval join is only possible in event time: remove in_processing_time()")
        lower, upper = as_millis(lower_bound), as_millis(upper_bound)
        if lower > upper:
            raise GraphError(f"between({lower} ms, {upper} ms): the lower bound must not be above the upper bound")
        return IntervalJoined(self.stream_one, self.stream_two, lower, upper)


@dataclass(frozen=True)
class IntervalJoined:
    """An interval join with its bounds in ms. :meth:`process` adds it to the program.

    >>> from tidemill.common import Configuration, Duration, Types, WatermarkStrategy
    >>> from tidemill.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
    >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    >>> env = StreamExecutionEnvironment.get_execution_environment(local)
    >>> class Second:
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value[1]
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    >>> orders = env.from_collection([("ann", 10), ("bob", 12)]).assign_timestamps_and_watermarks(by_time)
    >>> paid = env.from_collection([("ann", 14), ("bob", 30)]).assign_timestamps_and_watermarks(by_time)
    >>> class Pair(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, right
    >>> joined = orders.key_by(0).interval_join(paid.key_by(0)).between(Duration.of_millis(0), Duration.of_millis(5))
    >>> list(joined.process(Pair()).execute_and_collect())
    [(('ann', 10), ('ann', 14))]
    """

    left: KeyedStream
    right: KeyedStream
    lower_bound: int
    upper_bound: int
    lower_bound_inclusive: bool = True
    upper_bound_inclusive: bool = True
    left_late_data_output_tag: OutputTag | None = None
    right_late_data_output_tag: OutputTag | None = None

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Exclude records of the second stream that are exactly at the lower bound."""
        return replace(self, lower_bound_inclusive=False)

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Exclude records of the second stream that are exactly at the upper bound."""
        return replace(self, upper_bound_inclusive=False)

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send late records of the first stream to a side output. Otherwise they are dropped."""
        return replace(self, left_late_data_output_tag=_tag(output_tag, "side_output_left_late_data"))

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send late records of the second stream to a side output. Otherwise they are dropped."""
        return replace(self, right_late_data_output_tag=_tag(output_tag, "side_output_right_late_data"))

    def process(self, func: ProcessJoinFunction, output_type: TypeSpec = None) -> DataStream:
        """Call a function for each pair. Results have the later of the two timestamps.

        A record is late, and is not joined, if its timestamp is below the watermark when it arrives. The pairs of a
        record are ordered by the timestamp of the other record.
        """
        if not isinstance(func, ProcessJoinFunction):
            raise TypeError(f"process() on an interval join needs a ProcessJoinFunction, not {type(func).__name__}")
        spec = IntervalJoinSpec(
            func,
            self.lower_bound if self.lower_bound_inclusive else self.lower_bound + 1,
            self.upper_bound if self.upper_bound_inclusive else self.upper_bound - 1,
            (self.left._type, self.right._type),
            (self.left_late_data_output_tag, self.right_late_data_output_tag),
        )
        found = type_of_output(output_type, func, "process_element", many=True)
        return ConnectedStreams(self.left, self.right)._transform("Interval Join", spec, found)


def _tag(output_tag: OutputTag, what: str) -> OutputTag:
    if not isinstance(output_tag, OutputTag):
        raise TypeError(f"{what}() needs an OutputTag, not {type(output_tag).__name__}")
    return output_tag
