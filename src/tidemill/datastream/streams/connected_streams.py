"""Two connected streams, for functions with two inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions.basic import CoFlatMapFunction, CoMapFunction, KeySelector
from tidemill.datastream.functions.process import CoProcessFunction, KeyedCoProcessFunction
from tidemill.datastream.functions.state_descriptors import TypeSpec
from tidemill.datastream.program.specs import CoFlatMapSpec, CoMapSpec, CoProcessSpec
from tidemill.datastream.program.transformations import Transformation, Upstream
from tidemill.datastream.program.type_hints import common_output_type
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.streams.keyed_stream import KeyedStream
from tidemill.errors import GraphError

__all__ = ["ConnectedStreams"]

Key = Callable[[Any], Any] | KeySelector | int | str


class ConnectedStreams:
    """Two streams, possibly of different types, that share a function and, if both are keyed, its keyed state."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Key,
        key_selector2: Key,
        key_type: TypeInformation | None = None,
        key_type_info: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Partition both streams by a common key. ``key_type_info`` is the older name of ``key_type``.

        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> clicks, users = env.from_collection([("u1", 3)]), env.from_collection([{"id": "u1"}])
        >>> connected = clicks.connect(users).key_by(0, "id")
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type, key_type_info),
            self.stream2.key_by(key_selector2, key_type, key_type_info),
        )

    def map(self, func: CoMapFunction, output_type: TypeSpec = None) -> DataStream:
        """Emit one record for each record of either stream. A result of None is not emitted.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import CoMapFunction, StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> class Sign(CoMapFunction):
        ...     def map1(self, value):
        ...         return value
        ...     def map2(self, value):
        ...         return -value
        >>> sorted(env.from_collection([1, 2]).connect(env.from_collection([3])).map(Sign()).execute_and_collect())
        [-3, 1, 2]
        """
        if not isinstance(func, CoMapFunction):
            raise TypeError(f"map() on connected streams needs a CoMapFunction, not {type(func).__name__}")
        return self._transform("Co-Map", CoMapSpec(func), common_output_type(output_type, func, "map1", "map2"))

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeSpec = None) -> DataStream:
        """Emit zero or more records for each record of either stream.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import CoFlatMapFunction, StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> class Unpack(CoFlatMapFunction):
        ...     def flat_map1(self, value):
        ...         yield from value
        ...     def flat_map2(self, value):
        ...         yield value
        >>> lists, items = env.from_collection([[1, 2]]), env.from_collection([3])
        >>> sorted(lists.connect(items).flat_map(Unpack()).execute_and_collect())
        [1, 2, 3]
        """
        if not isinstance(func, CoFlatMapFunction):
            raise TypeError(f"flat_map() on connected streams needs a CoFlatMapFunction, not {type(func).__name__}")
        found = common_output_type(output_type, func, "flat_map1", "flat_map2", many=True)
        return self._transform("Co-Flat Map", CoFlatMapSpec(func), found)

    def process(self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeSpec = None) -> DataStream:
        """Apply a process function to both streams. If both are keyed, it has keyed state and timers.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import KeyedCoProcessFunction, StreamExecutionEnvironment
        >>> from tidemill.datastream.state import ListStateDescriptor, ValueStateDescriptor
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> class Join(KeyedCoProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.name = runtime_context.get_state(ValueStateDescriptor("name"))
        ...         self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))
        ...     def process_element1(self, click, ctx):
        ...         if self.name.value() is None:
        ...             self.waiting.add(click)
        ...         else:
        ...             yield self.name.value(), click[1]
        ...     def process_element2(self, user, ctx):
        ...         self.name.update(user["name"])
        ...         yield from ((user["name"], click[1]) for click in self.waiting)
        ...         self.waiting.clear()
        >>> clicks = env.from_collection([(7, "home"), (8, "cart")])
        >>> users = env.from_collection([{"id": 7, "name": "Ada"}, {"id": 8, "name": "Bob"}])
        >>> sorted(clicks.connect(users).key_by(0, "id").process(Join()).execute_and_collect())
        [('Ada', 'home'), ('Bob', 'cart')]
        """
        keyed = self._is_keyed()
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction) if keyed else CoProcessFunction):
            raise TypeError(
                f"process() on connected streams that are {'' if keyed else 'not '}keyed needs a CoProcessFunction"
                f"{' or a KeyedCoProcessFunction' if keyed else ''}, not {type(func).__name__}"
            )
        found = common_output_type(output_type, func, "process_element1", "process_element2", many=True)
        return self._transform("KEYED CO PROCESS" if keyed else "CO PROCESS", CoProcessSpec(func), found)

    #: Aliases for the operators' names in Java.
    co_map = map  # noqa: A003 - the method above
    co_flat_map = flat_map
    co_process = process

    def _is_keyed(self) -> bool:
        one, two = (isinstance(stream, KeyedStream) for stream in (self.stream1, self.stream2))
        if one != two:
            raise GraphError(
                f"only the {'first' if one else 'second'} of the connected streams is keyed: key both streams with "
                "key_by(selector1, selector2) after connect(), or neither"
            )
        return one

    def _transform(self, name: str, spec: Any, type_info: TypeInformation | None) -> DataStream:
        keyed = self._is_keyed()
        environment = self.stream1._environment
        operator = Transformation.of(
            name,
            spec,
            (self.stream1._upstreams, self.stream2._upstreams),
            keyed=keyed,
            key_type=self.stream1._key_type(),
            output_type=type_info,
        )
        environment._register(operator)
        return DataStream(environment, (Upstream(operator),), type_info)
