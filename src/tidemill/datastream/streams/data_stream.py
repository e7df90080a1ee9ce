"""Streams. Each method adds an operator to the program; nothing runs until the program is executed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, overload

from tidemill.common.execution_config import ExecutionConfig
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.datastream.functions.basic import FilterFunction, FlatMapFunction, KeySelector, MapFunction
from tidemill.datastream.functions.process import ProcessFunction
from tidemill.datastream.functions.state_descriptors import TypeSpec
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.program.key_selectors import as_key_selector
from tidemill.datastream.program.specs import (
    FilterSpec,
    FlatMapSpec,
    MapSpec,
    ProcessSpec,
    TimestampsSpec,
)
from tidemill.datastream.program.transformations import (
    ChainingStrategy,
    Partitioning,
    TakenPartitioning,
    Transformation,
    Upstream,
)
from tidemill.datastream.program.type_hints import output_type as type_of_output
from tidemill.datastream.streams.arguments import require, type_name
from tidemill.datastream.streams.closeable_iterator import CloseableIterator
from tidemill.datastream.streams.data_stream_batches import StreamBatches
from tidemill.datastream.streams.data_stream_ends import StreamEnds
from tidemill.datastream.streams.data_stream_partitioning import StreamPartitioning
from tidemill.datastream.streams.data_stream_sink import DataStreamSink
from tidemill.datastream.streams.operator_settings import OperatorSettings
from tidemill.datastream.streams.projection import Projection
from tidemill.errors import GraphError
from tidemill.python_versions import Self

if TYPE_CHECKING:
    from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
    from tidemill.datastream.streams.broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from tidemill.datastream.streams.connected_streams import ConnectedStreams
    from tidemill.datastream.streams.joined_streams import CoGroupedStreams, JoinedStreams
    from tidemill.datastream.streams.keyed_stream import KeyedStream
    from tidemill.datastream.streams.split_stream import SplitStream
    from tidemill.datastream.streams.windowed_stream import AllWindowedStream, WindowedStream
    from tidemill.datastream.window.assigners import WindowAssigner

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedStream",
    "SplitStream",
    "WindowedStream",
]


class DataStream(OperatorSettings, StreamPartitioning, StreamBatches, StreamEnds):
    """A stream of records of one type.

    It is the output of an operator, a side output, a union of streams (``union``), or a stream with another
    partitioning (``rebalance``, ...). Methods such as ``name``, ``uid`` and ``set_parallelism`` set properties of the
    operator. They are only available on a stream that is the output of one operator.

    >>> from tidemill.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> words = env.from_collection(["to be", "or not to be"]).flat_map(str.split).name("words")
    >>> words.get_name()
    'words'
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment | DataStream,
        upstreams: tuple[Upstream, ...] = (),
        type_info: TypeInformation | None = None,
    ) -> None:
        """Programs pass a stream, which PyFlink wraps; Tidemill passes the other arguments."""
        self._environment: StreamExecutionEnvironment
        self._upstreams: tuple[Upstream, ...]
        self._type: TypeInformation | None
        if isinstance(environment, DataStream):
            self._environment, self._upstreams, self._type = (
                environment._environment,
                environment._upstreams,
                environment._type,
            )
        else:
            self._environment, self._upstreams, self._type = environment, upstreams, type_info

    # --- properties of the stream

    def get_type(self) -> TypeInformation:
        """The type of the records, or pickled objects if it is unknown."""
        return Types.PICKLED_BYTE_ARRAY() if self._type is None else self._type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The settings of the environment."""
        return self._environment.get_config()

    # --- properties of the operator, besides those of OperatorSettings

    def force_non_parallel(self) -> Self:
        """Set the parallelism and the max parallelism of the operator to 1."""
        operator = self._operator("force_non_parallel")
        operator.parallelism = operator.max_parallelism = 1
        return self

    def start_new_chain(self) -> Self:
        """Start a new chain with this operator. Downstream operators may be chained to it."""
        self._operator("start_new_chain").chaining = ChainingStrategy.HEAD
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accepted without effect: the exchange between operators does not use buffer timeouts."""
        self._operator("set_buffer_timeout")
        return self

    # --- one record at a time

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeSpec = None) -> DataStream:
        """Emit one record for each record.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> list(env.from_collection([1, 2, 3]).map(lambda n: 2 * n, output_type=Types.LONG()).execute_and_collect())
        [2, 4, 6]
        """
        require(func, MapFunction, "map")
        return self._transform("Map", MapSpec(func), type_of_output(output_type, func, "map"))

    def flat_map(
        self,
        func: Callable[[Any], Iterable[Any] | None] | FlatMapFunction,
        output_type: TypeSpec = None,
        result_type: TypeSpec = None,
    ) -> DataStream:
        """Emit zero or more records for each record: those that the function yields or returns.

        ``result_type`` is the older name of ``output_type``.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> list(env.from_collection(["to be", "or not"]).flat_map(str.split).execute_and_collect())
        ['to', 'be', 'or', 'not']
        """
        require(func, FlatMapFunction, "flat_map")
        found = type_of_output(output_type or result_type, func, "flat_map", many=True)
        return self._transform("FlatMap", FlatMapSpec(func), found)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the records for which the function returns true.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> list(env.from_collection([1, 2, 3]).filter(lambda n: n % 2 == 1).execute_and_collect())
        [1, 3]
        """
        require(func, FilterFunction, "filter")
        return self._transform("Filter", FilterSpec(func), self._type)

    def project(self, *field_indexes: int) -> DataStream:
        """Select fields of tuples, lists or rows, in the given order.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> list(env.from_collection([("a", 1, True)]).project(1, 0).execute_and_collect())
        [(1, 'a')]
        """
        projection = Projection(field_indexes)
        return self._transform("Projection", MapSpec(projection), projection.type_of(self._type))

    def process(self, func: ProcessFunction, output_type: TypeSpec = None) -> DataStream:
        """Apply a process function, which emits zero or more records and has access to time and side outputs.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> odd = OutputTag("odd", Types.LONG())
        >>> class Even(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield value if value % 2 == 0 else (odd, value)
        >>> even = env.from_sequence(1, 5).process(Even())
        >>> list(even.get_side_output(odd).map(str).execute_and_collect())
        ['1', '3', '5']
        """
        if not isinstance(func, ProcessFunction):
            raise TypeError(f"process() on a DataStream needs a ProcessFunction, not {type_name(func)}")
        found = type_of_output(output_type, func, "process_element", many=True)
        return self._transform("PROCESS", ProcessSpec(func), found)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Assign event timestamps to the records and generate watermarks.

        >>> from tidemill.common import Duration, WatermarkStrategy
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([("a", 1)]).assign_timestamps_and_watermarks(strategy).get_name()
        'Timestamps/Watermarks'
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(f"a WatermarkStrategy is needed, not {type_name(watermark_strategy)}")
        return self._transform("Timestamps/Watermarks", TimestampsSpec(watermark_strategy), self._type)

    # --- several streams

    def union(self, *streams: DataStream) -> DataStream:
        """Merge this stream with others of the same type.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> one, two, three = (env.from_collection([n]) for n in (1, 2, 3))
        >>> sorted(one.union(two, three).map(str).execute_and_collect())
        ['1', '2', '3']
        """
        for stream in streams:
            self._check_same_environment(stream, "union")
            if self._type is not None and stream._type is not None and self._type != stream._type:
                raise GraphError(
                    f"union() of streams of different types: {self._type} and {stream._type}. Map them to one type."
                )
        upstreams = tuple(upstream for stream in (self, *streams) for upstream in stream._plain()._upstreams)
        types = {id(stream): stream._type for stream in (self, *streams)}
        return DataStream(self._environment, upstreams, self._type if None not in types.values() else None)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Connect this stream with another, possibly of a different type, for functions with two inputs.

        If the other is a :class:`BroadcastStream`, its elements update broadcast state: see
        :class:`BroadcastProcessFunction`.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import CoMapFunction, StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> class ToText(CoMapFunction):
        ...     def map1(self, value):
        ...         return str(value)
        ...     def map2(self, value):
        ...         return value.upper()
        >>> sorted(env.from_collection([1]).connect(env.from_collection(["a"])).map(ToText()).execute_and_collect())
        ['1', 'A']
        """
        from tidemill.datastream.streams.broadcast_stream import BroadcastConnectedStream, BroadcastStream
        from tidemill.datastream.streams.connected_streams import ConnectedStreams

        if isinstance(ds, BroadcastStream):
            self._check_same_environment(ds.input_stream, "connect")
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_same_environment(ds, "connect")
        return ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Join pairs of records with equal keys in the same window: see :class:`JoinedStreams`."""
        from tidemill.datastream.streams.joined_streams import JoinedStreams

        self._check_same_environment(other_stream, "join")
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Group all records of both streams by key and window: see :class:`CoGroupedStreams`."""
        from tidemill.datastream.streams.joined_streams import CoGroupedStreams

        self._check_same_environment(other_stream, "co_group")
        return CoGroupedStreams(self, other_stream)

    # --- windows

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream:
        """Group the whole stream into windows. Runs in one subtask; use :meth:`KeyedStream.window` for parallelism."""
        from tidemill.datastream.streams.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Group the stream into windows of ``size`` records, in one subtask.

        With a slide, a window contains the last ``size`` records and is evaluated every ``slide`` records.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> list(env.from_sequence(1, 6).count_window_all(4, 2).sum().execute_and_collect())
        [3, 10, 18]
        """
        from tidemill.datastream.streams.windowed_stream import AllWindowedStream
        from tidemill.datastream.window.assigners import GlobalWindows

        return AllWindowedStream(self, GlobalWindows.create())._counting(size, slide)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The stream of records that the operator emits to this side output."""
        operator = self._operator("get_side_output")
        known = operator.side_outputs.setdefault(output_tag.tag_id, output_tag.type_info)
        if known != output_tag.type_info:
            raise GraphError(
                f"side output {output_tag.tag_id!r} of operator {operator.name!r} ({operator.user_line}) is read as "
                f"{known} and as {output_tag.type_info}: give the tags different ids"
            )
        upstream = Upstream(operator, None, output_tag.tag_id)
        return DataStream(self._environment, (upstream,), output_tag.type_info)

    def split(self, output_selector: Callable[[Any], Iterable[str]]) -> SplitStream:
        """Assign each record to named outputs, which ``select`` reads. Legacy: use side outputs instead.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> numbers = env.from_sequence(1, 5).split(lambda n: ["even"] if n % 2 == 0 else ["odd"])
        >>> list(numbers.select("odd").execute_and_collect())
        [1, 3, 5]
        """
        from tidemill.datastream.streams.split_stream import SplitStream

        return SplitStream(self, output_selector)

    # --- partitioning

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | int | str,
        key_type: TypeInformation | None = None,
        key_type_info: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partition the stream by a key, which is a position, a field name or path, or a function of the record.

        ``key_type_info`` is the older name of ``key_type``.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> pairs = env.from_collection([("a", 1), ("b", 5), ("a", 2)])
        >>> sorted(pairs.key_by(0).sum(1).execute_and_collect())
        [('a', 1), ('a', 3), ('b', 5)]
        """
        from tidemill.datastream.streams.keyed_stream import KeyedStream

        return KeyedStream(self, as_key_selector(key_selector), key_type or key_type_info)

    # --- building blocks

    def _operator(self, what: str) -> Transformation:
        upstream = self._upstreams[0]
        if len(self._upstreams) > 1 or upstream.partitioning is not None or upstream.side_output is not None:
            raise GraphError(
                f"{what}() needs the output of an operator, but this stream is "
                f"{_describe(self._upstreams)}. Call it on the operator before or after it."
            )
        return upstream.node

    def _transform(self, name: str, spec: Any, type_info: TypeInformation | None) -> DataStream:
        """Add an operator that reads this stream."""
        operator = Transformation.of(
            name,
            spec,
            (self._upstreams,),
            keyed=self._is_keyed(),
            key_type=self._key_type(),
            output_type=type_info,
        )
        self._environment._register(operator)
        return DataStream(self._environment, (Upstream(operator),), type_info)

    def _partitioned(self, partitioning: Partitioning, method: str = "") -> DataStream:
        taken = TakenPartitioning.of(partitioning, method)
        upstreams = tuple(Upstream(one.node, taken, one.side_output) for one in self._upstreams)
        return DataStream(self._environment, upstreams, self._type)

    def _this(self) -> DataStream:
        return self

    def _plain(self) -> DataStream:
        """This stream as a non-keyed stream."""
        return self

    def _is_keyed(self) -> bool:
        return False

    def _key_type(self) -> TypeInformation | None:
        return None

    def _check_same_environment(self, other: Any, what: str) -> None:
        if not isinstance(other, DataStream):
            raise TypeError(f"{what}() needs a DataStream, not {type_name(other)}")
        if other._environment is not self._environment:
            raise GraphError(f"{what}() of streams of different environments")


def _describe(upstreams: tuple[Upstream, ...]) -> str:
    if len(upstreams) > 1:
        return "a union"
    if upstreams[0].partitioning is not None:
        return f"partitioned ({upstreams[0].partitioning.kind.name.lower()})"
    return f"side output {upstreams[0].side_output!r}"


from tidemill.datastream.streams.broadcast_stream import (  # noqa: E402 - PyFlink has all streams in one module
    BroadcastConnectedStream,
    BroadcastStream,
)
from tidemill.datastream.streams.connected_streams import ConnectedStreams  # noqa: E402
from tidemill.datastream.streams.interval_join import IntervalJoin, IntervalJoined  # noqa: E402
from tidemill.datastream.streams.joined_streams import CoGroupedStreams, JoinedStreams  # noqa: E402
from tidemill.datastream.streams.keyed_stream import KeyedStream  # noqa: E402
from tidemill.datastream.streams.split_stream import SplitStream  # noqa: E402
from tidemill.datastream.streams.windowed_stream import AllWindowedStream, WindowedStream  # noqa: E402
