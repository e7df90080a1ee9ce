"""Streams partitioned by key, with keyed state, timers and rolling aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.functions.basic import KeySelector, Partitioner, ReduceFunction
from tidemill.datastream.functions.built_in import AggregateKind, BuiltIn
from tidemill.datastream.functions.process import KeyedProcessFunction
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor, StateDescriptor, TypeSpec, resolve_type
from tidemill.datastream.program.specs import ProcessSpec, ReduceSpec
from tidemill.datastream.program.transformations import (
    KeySelectorFn,
    Partitioning,
    PartitionKind,
    TakenPartitioning,
    Transformation,
    Upstream,
)
from tidemill.datastream.program.type_hints import output_type as type_of_output
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.streams.queryable_state import PublishedState, QueryableStateStream, published_state
from tidemill.datastream.streams.with_state import FilterWithState, FlatMapWithState, MapWithState, WithState
from tidemill.errors import GraphError

if TYPE_CHECKING:
    from tidemill.datastream.streams.interval_join import IntervalJoin
    from tidemill.datastream.streams.windowed_stream import WindowedStream
    from tidemill.datastream.window.assigners import WindowAssigner

__all__ = ["KeyedStream"]


class KeyedStream(DataStream):
    """A stream partitioned by key. All records of a key are processed by the same subtask, in order.

    Functions on a keyed stream, including ``map``, ``flat_map`` and ``filter``, can use keyed state.
    """

    def __init__(self, origin: DataStream, key_selector: KeySelectorFn, key_type: TypeInformation | None) -> None:
        type_of_key = None if key_type is None else resolve_type(key_type)
        partitioning = TakenPartitioning.of(
            Partitioning(PartitionKind.KEY_GROUP, key_selector, key_type=type_of_key), "key_by"
        )
        upstreams = tuple(Upstream(one.node, partitioning, one.side_output) for one in origin._upstreams)
        super().__init__(origin._environment, upstreams, origin._type)
        self._origin = origin
        self._type_of_key = type_of_key

    def process(self, func: KeyedProcessFunction, output_type: TypeSpec = None) -> DataStream:  # type: ignore[override]
        """Apply a keyed process function, which has access to the state and timers of the record's key.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))
        ...     def process_element(self, value, ctx):
        ...         self.seen.update((self.seen.value() or 0) + 1)
        ...         yield ctx.get_current_key(), self.seen.value()
        >>> words = env.from_collection(["a", "b", "a"])
        >>> sorted(words.key_by(lambda word: word).process(Count()).uid("count").execute_and_collect())
        [('a', 1), ('a', 2), ('b', 1)]
        """
        if not isinstance(func, KeyedProcessFunction):
            raise TypeError(f"process() on a KeyedStream needs a KeyedProcessFunction, not {type(func).__name__}")
        found = type_of_output(output_type, func, "process_element", many=True)
        return self._transform("KEYED PROCESS", ProcessSpec(func), found)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combine the records of a key. Emits the new result for each record.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> pairs = env.from_collection([("a", 1), ("a", 2), ("a", 3)])
        >>> list(pairs.key_by(0).reduce(lambda one, two: (one[0], one[1] * two[1])).execute_and_collect())
        [('a', 1), ('a', 2), ('a', 6)]
        """
        if not isinstance(func, ReduceFunction) and not callable(func):
            raise TypeError(
                "The input must be a ReduceFunction or a callable function: reduce() was called with "
                f"{type(func).__name__}"
            )
        return self._transform("Reduce", ReduceSpec(func), self._type)

    # --- rolling aggregates

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Sum a field. Emits, for each record, the first record of its key with the sum so far.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> orders = env.from_collection([("a", "tea", 5), ("a", "bun", 2), ("a", "jam", 7), ("a", "nut", 2)])
        >>> list(orders.key_by(0).sum(2).execute_and_collect())
        [('a', 'tea', 5), ('a', 'tea', 7), ('a', 'tea', 14), ('a', 'tea', 16)]
        """
        return self._built_in(BuiltIn(AggregateKind.SUM, position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Compute the minimum of a field. Emits, for each record, the first record of its key with the minimum so far.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> orders = env.from_collection([("a", "tea", 5), ("a", "bun", 2), ("a", "jam", 7), ("a", "nut", 2)])
        >>> list(orders.key_by(0).min(2).execute_and_collect())
        [('a', 'tea', 5), ('a', 'tea', 2), ('a', 'tea', 2), ('a', 'tea', 2)]
        """
        return self._built_in(BuiltIn(AggregateKind.MIN, position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Compute the maximum of a field. Emits, for each record, the first record of its key with the maximum so far.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> orders = env.from_collection([("a", "tea", 5), ("a", "bun", 2), ("a", "jam", 7), ("a", "nut", 2)])
        >>> list(orders.key_by(0).max(2).execute_and_collect())
        [('a', 'tea', 5), ('a', 'tea', 5), ('a', 'tea', 7), ('a', 'tea', 7)]
        """
        return self._built_in(BuiltIn(AggregateKind.MAX, position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Emit, for each record, the record of its key with the smallest value of a field so far; the first of several.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> orders = env.from_collection([("a", "tea", 5), ("a", "bun", 2), ("a", "jam", 7), ("a", "nut", 2)])
        >>> list(orders.key_by(0).min_by(2).execute_and_collect())
        [('a', 'tea', 5), ('a', 'bun', 2), ('a', 'bun', 2), ('a', 'bun', 2)]
        """
        return self._built_in(BuiltIn(AggregateKind.MIN_BY, position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Emit, for each record, the record of its key with the largest value of a field so far; the first of several.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> orders = env.from_collection([("a", "tea", 5), ("a", "bun", 2), ("a", "jam", 7), ("a", "nut", 2)])
        >>> list(orders.key_by(0).max_by(2).execute_and_collect())
        [('a', 'tea', 5), ('a', 'tea', 5), ('a', 'jam', 7), ('a', 'jam', 7)]
        """
        return self._built_in(BuiltIn(AggregateKind.MAX_BY, position_to_max_by))

    def count(self) -> DataStream:
        """Count the records of a key. Emits, for each record, the key and the count so far. Not part of Flink.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> words = env.from_collection(["tea", "bun", "tea"])
        >>> list(words.key_by(lambda word: word).count().execute_and_collect())
        [('tea', 1), ('bun', 1), ('tea', 2)]
        """
        return self._built_in(BuiltIn(AggregateKind.COUNT))

    def avg(self, position_to_avg: int | str = 0) -> DataStream:
        """Compute the mean of a field. Emits, for each record, the key and the mean so far. Not part of Flink.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> orders = env.from_collection([("a", "tea", 5), ("a", "bun", 2), ("a", "jam", 7), ("a", "nut", 2)])
        >>> list(orders.key_by(0).avg(2).execute_and_collect())
        [('a', 5.0), ('a', 3.5), ('a', 4.666666666666667), ('a', 4.0)]
        """
        return self._built_in(BuiltIn(AggregateKind.AVG, position_to_avg))

    def _built_in(self, aggregate: BuiltIn) -> DataStream:
        if aggregate.kind.keeps_a_record:
            return self._transform("Reduce", ReduceSpec(aggregate), self._type)
        counted = Types.LONG() if aggregate.kind is AggregateKind.COUNT else None
        return self._transform("Aggregate", ReduceSpec(aggregate, counted), None)

    # --- functions of a record and the state of its key

    def map_with_state(self, func: WithState, output_type: TypeSpec = None, state_type: TypeSpec = None) -> DataStream:
        """Apply ``func(value, state)``, which returns ``(result, new state)``.

        The state is None initially. Returning None as the new state removes it.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> def number(value, count):
        ...     return (value, count or 0), (count or 0) + 1
        >>> words = env.from_collection(["a", "b", "a"])
        >>> sorted(words.key_by(lambda word: word).map_with_state(number).execute_and_collect())
        [('a', 0), ('a', 1), ('b', 0)]
        """
        found = None if output_type is None else resolve_type(output_type)
        return self._transform("MapWithState", ProcessSpec(MapWithState(func, state_type)), found)

    def flat_map_with_state(
        self, func: WithState, output_type: TypeSpec = None, state_type: TypeSpec = None
    ) -> DataStream:
        """Like :meth:`map_with_state`, but the result is an iterable of records.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> def twice_then_once(value, seen):
        ...     return [value] if seen else [value, value], True
        >>> words = env.from_collection(["a", "b", "a"])
        >>> sorted(words.key_by(lambda word: word).flat_map_with_state(twice_then_once).execute_and_collect())
        ['a', 'a', 'a', 'b', 'b']
        """
        found = None if output_type is None else resolve_type(output_type)
        return self._transform("FlatMapWithState", ProcessSpec(FlatMapWithState(func, state_type)), found)

    def filter_with_state(self, func: WithState, state_type: TypeSpec = None) -> DataStream:
        """Like :meth:`map_with_state`, but the result is whether to keep the record.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> def first(value, seen):
        ...     return not seen, True
        >>> words = env.from_collection(["a", "b", "a"])
        >>> sorted(words.key_by(lambda word: word).filter_with_state(first).execute_and_collect())
        ['a', 'b']
        """
        return self._transform("FilterWithState", ProcessSpec(FilterWithState(func, state_type)), self._type)

    # --- queryable state

    def as_queryable_state(
        self, queryable_state_name: str, state_descriptor: StateDescriptor | None = None
    ) -> QueryableStateStream:
        """End the stream in a queryable state with this name.

        The state contains the last record of each key or, with a :class:`ReducingStateDescriptor`, the reduction of all
        records. It has no output stream. The uid of its operator is ``queryable-state-`` followed by the name.

        >>> from tidemill.datastream import ReducingStateDescriptor
        >>> from tidemill.testing import JobHarness
        >>> def program(env, words):
        ...     counts = ReducingStateDescriptor("count", lambda one, two: (one[0], one[1] + two[1]))
        ...     words.map(lambda word: (word, 1)).key_by(0).as_queryable_state("counts", counts)
        >>> with JobHarness(program, inputs=["words"]) as job:
        ...     job.epoch(words=["a", "b", "a"])
        ...     job.state("queryable-state-counts", "count")["a"]
        ('a', 2)
        """
        descriptor = published_state(queryable_state_name, state_descriptor, self._type)
        spec = ProcessSpec(PublishedState(descriptor))
        self._transform(f"Queryable state: {queryable_state_name}", spec, None).uid(
            f"queryable-state-{queryable_state_name}"
        )
        return QueryableStateStream(queryable_state_name, descriptor, self._type_of_key)

    # --- two keyed streams

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Join each record with records of another keyed stream within a time interval: see :class:`IntervalJoined`."""
        from tidemill.datastream.streams.interval_join import IntervalJoin

        if not isinstance(other_stream, KeyedStream):
            raise TypeError(f"interval_join() needs a KeyedStream, not {type(other_stream).__name__}: call key_by()")
        self._check_same_environment(other_stream, "interval_join")
        return IntervalJoin(self, other_stream)

    # --- windows

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """Group the records of each key into windows.

        >>> from tidemill.common import Configuration, Time, WatermarkStrategy
        >>> from tidemill.common.watermark_strategy import TimestampAssigner
        >>> from tidemill.datastream import StreamExecutionEnvironment, TumblingEventTimeWindows
        >>> class Second(TimestampAssigner):
        ...     def extract_timestamp(self, value, record_timestamp):
        ...         return value[1]
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
        >>> clicks = env.from_collection([("a", 100), ("a", 900), ("a", 1100)])
        >>> ones = clicks.assign_timestamps_and_watermarks(by_time).map(lambda click: (click[0], 1))
        >>> seconds = TumblingEventTimeWindows.of(Time.seconds(1))
        >>> list(ones.key_by(0).window(seconds).sum(1).execute_and_collect())
        [('a', 2), ('a', 1)]
        """
        from tidemill.datastream.streams.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Group the records of each key into windows of ``size`` records.

        With a slide, a window contains the last ``size`` records and is evaluated every ``slide`` records.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> numbers = env.from_collection([("a", n) for n in (1, 2, 3, 4, 5)])
        >>> list(numbers.key_by(0).count_window(2).sum(1).execute_and_collect())
        [('a', 3), ('a', 7)]
        """
        from tidemill.datastream.streams.windowed_stream import WindowedStream
        from tidemill.datastream.window.assigners import GlobalWindows

        return WindowedStream(self, GlobalWindows.create())._counting(size, slide)

    # --- partitioning

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | int | str,
        key_type: TypeInformation | None = None,
        key_type_info: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partition by another key instead."""
        return self._origin.key_by(key_selector, key_type, key_type_info)

    def cache(self) -> NoReturn:
        """Not supported, as in Flink: cache the stream before ``key_by``."""
        self._refuse("cache")

    def shuffle(self) -> NoReturn:
        """Not supported: a keyed stream is partitioned by its key."""
        self._refuse("shuffle")

    def rebalance(self) -> NoReturn:
        """Not supported: a keyed stream is partitioned by its key."""
        self._refuse("rebalance")

    def rescale(self) -> NoReturn:
        """Not supported: a keyed stream is partitioned by its key."""
        self._refuse("rescale")

    def forward(self) -> NoReturn:
        """Not supported: a keyed stream is partitioned by its key."""
        self._refuse("forward")

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> NoReturn:
        """Not supported: a keyed stream is partitioned by its key."""
        self._refuse("broadcast")

    def global_(self) -> NoReturn:
        """Not supported: a keyed stream is partitioned by its key."""
        self._refuse("global_")

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector | int | str,
    ) -> NoReturn:
        """Not supported: a keyed stream is partitioned by its key."""
        self._refuse("partition_custom")

    def _refuse(self, what: str) -> NoReturn:
        raise GraphError(f"{what}() after key_by(): a keyed stream is partitioned by its key")

    def _operator(self, what: str) -> Transformation:
        raise GraphError(
            f"{what}() needs the output of an operator, but key_by() is not an operator. Call it on the operator "
            "before or after it."
        )

    def _plain(self) -> DataStream:
        return DataStream(self._environment, self._upstreams, self._type)

    def _is_keyed(self) -> bool:
        return True

    def _key_type(self) -> TypeInformation | None:
        return self._type_of_key
