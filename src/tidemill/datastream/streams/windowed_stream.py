"""Windowed streams: settings of the windows and the functions applied to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tidemill.common.time import Length, as_millis
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.functions.basic import AggregateFunction, NullByteKeySelector, ReduceFunction
from tidemill.datastream.functions.built_in import AggregateKind, BuiltIn
from tidemill.datastream.functions.pickling import given
from tidemill.datastream.functions.state_descriptors import TypeSpec, resolve_type
from tidemill.datastream.functions.window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
    WithKey,
)
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.program.type_hints import output_type as type_of_output
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.streams.keyed_stream import KeyedStream
from tidemill.datastream.window.assigners import MergingWindowAssigner, WindowAssigner
from tidemill.datastream.window.evictors import CountEvictor, Evictor
from tidemill.datastream.window.nested_triggers import PurgingTrigger
from tidemill.datastream.window.trigger import Trigger
from tidemill.datastream.window.triggers import CountTrigger
from tidemill.errors import GraphError
from tidemill.python_versions import Self

if TYPE_CHECKING:
    from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["AllWindowedStream", "WindowedStream"]


class _Windowed:
    """Base class of windowed keyed and non-keyed streams."""

    _plain_function: ClassVar[type]
    _process_function: ClassVar[type]

    def __init__(self, stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(f"a WindowAssigner is needed, not {type(window_assigner).__name__}")
        self._stream = stream
        self._assigner = given(window_assigner, "window assigner", "window")
        self._trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """The type of the records."""
        return self._stream.get_type()

    # --- settings of the windows

    def trigger(self, trigger: Trigger) -> Self:
        """Set the trigger, which replaces the default trigger of the assigner."""
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger() needs a Trigger, not {type(trigger).__name__}")
        self._check_merges(trigger)
        self._trigger = given(trigger, "trigger", "trigger")
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Set the evictor, which removes records when a window fires.

        With an evictor, a window stores all its records until it is removed.
        """
        if not isinstance(evictor, Evictor):
            raise TypeError(f"evictor() needs an Evictor, not {type(evictor).__name__}")
        self._evictor = given(evictor, "evictor", "evictor")
        return self

    def allowed_lateness(self, time_ms: Length) -> Self:
        """Set how long windows are kept after their end. A late record fires its window again. Event time only.

        >>> from tidemill.common import Time, Types
        >>> from tidemill.datastream import TumblingEventTimeWindows
        >>> from tidemill.testing import KeyedHarness
        >>> def sums(keyed):
        ...     return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).allowed_lateness(5).sum(1)
        >>> with KeyedHarness(sums, key_selector=0) as harness:
        ...     harness.process(("a", 1), timestamp=3)
        ...     harness.watermark(12)
        ...     harness.process(("a", 5), timestamp=4)
        ...     harness.watermark(14)
        ...     harness.process(("a", 7), timestamp=4)
        ...     harness.output()
        [('a', 1), ('a', 6)]
        """
        lateness = as_millis(time_ms)
        if lateness < 0:
            raise ValueError(f"the allowed lateness must not be negative: {lateness} ms")
        self._lateness = lateness
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records to a side output of the result instead of dropping them."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"side_output_late_data() needs an OutputTag, not {type(output_tag).__name__}")
        self._late_tag = output_tag
        return self

    # --- aggregates of a field

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Sum a field. Emits the first record of the window with the sum."""
        return self._built_in(BuiltIn(AggregateKind.SUM, position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Compute the minimum of a field. Emits the first record of the window with the minimum."""
        return self._built_in(BuiltIn(AggregateKind.MIN, position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Compute the maximum of a field. Emits the first record of the window with the maximum."""
        return self._built_in(BuiltIn(AggregateKind.MAX, position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Emit the record with the smallest value of a field; the first of several."""
        return self._built_in(BuiltIn(AggregateKind.MIN_BY, position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Emit the record with the largest value of a field; the first of several."""
        return self._built_in(BuiltIn(AggregateKind.MAX_BY, position_to_max_by))

    def count(self) -> DataStream:
        """Count the records of a window. Emits the key and the count, or only the count without keys. Not in Flink.

        >>> from tidemill.datastream import TumblingEventTimeWindows
        >>> from tidemill.testing import KeyedHarness
        >>> def counts(keyed):
        ...     return keyed.window(TumblingEventTimeWindows.of(10)).count()
        >>> with KeyedHarness(counts, key_selector=0) as harness:
        ...     for time in (1, 8, 12):
        ...         harness.process(("a", time), timestamp=time)
        ...     harness.watermark(19)
        ...     harness.output()
        [('a', 2), ('a', 1)]
        """
        return self._built_in(BuiltIn(AggregateKind.COUNT))

    def avg(self, position_to_avg: int | str = 0) -> DataStream:
        """Compute the mean of a field. Emits the key and the mean, or only the mean without keys. Not in Flink.

        >>> from tidemill.datastream import TumblingEventTimeWindows
        >>> from tidemill.testing import KeyedHarness
        >>> def means(keyed):
        ...     return keyed.window(TumblingEventTimeWindows.of(10)).avg(1)
        >>> with KeyedHarness(means, key_selector=0) as harness:
        ...     for time in (1, 8, 12):
        ...         harness.process(("a", time), timestamp=time)
        ...     harness.watermark(19)
        ...     harness.output()
        [('a', 4.5), ('a', 12.0)]
        """
        return self._built_in(BuiltIn(AggregateKind.AVG, position_to_avg))

    # --- building blocks

    def _counting(self, size: int, slide: int) -> Self:
        """Fire every ``size`` records or, with a slide, every ``slide`` records with the last ``size`` records."""
        if slide == 0:
            return self.trigger(PurgingTrigger.of(CountTrigger.of(size)))
        return self.evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

    def _built_in(self, aggregate: BuiltIn) -> DataStream:
        if aggregate.kind.keeps_a_record:
            return self._result(self._stream._type, reduce=aggregate, contents_type=self._stream._type)
        counted = Types.LONG() if aggregate.kind is AggregateKind.COUNT else None
        return self._result(None, aggregate=aggregate, function=self._numbered(), contents_type=counted)

    def _numbered(self) -> Any:
        """The function that adds the key to the number computed by a built-in, or None to emit only the number."""
        return None

    def _reduce(self, reduce_function: Any, window_function: Any, output_type: TypeSpec) -> DataStream:
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise TypeError(
                "The input must be a ReduceFunction or a callable function: reduce() was called with "
                f"{type(reduce_function).__name__}"
            )
        found = self._type_of(window_function, output_type)
        if window_function is None and output_type is None:
            found = self._stream._type
        return self._result(found, reduce=reduce_function, function=window_function, contents_type=self._stream._type)

    def _aggregate(
        self, aggregate_function: Any, window_function: Any, accumulator_type: TypeSpec, output_type: TypeSpec
    ) -> DataStream:
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError(f"aggregate() needs an AggregateFunction, not {type(aggregate_function).__name__}")
        if window_function is None:
            found = type_of_output(output_type, aggregate_function, "get_result")
        else:
            found = self._type_of(window_function, output_type)
        accumulator = None if accumulator_type is None else resolve_type(accumulator_type)
        return self._result(found, aggregate=aggregate_function, function=window_function, contents_type=accumulator)

    def _evaluate(self, what: str, function: Any, wanted: type, output_type: TypeSpec) -> DataStream:
        if not isinstance(function, wanted):
            raise TypeError(f"{what}() needs a {wanted.__name__}, not {type(function).__name__}")
        found = self._type_of(function, output_type)
        return self._result(found, function=function, contents_type=self._stream._type)

    def _type_of(self, function: Any, output_type: TypeSpec) -> TypeInformation | None:
        if function is None:
            return None if output_type is None else resolve_type(output_type)
        kinds = (self._plain_function, self._process_function)
        if not isinstance(function, kinds):
            raise TypeError(
                f"a window function must be a {kinds[0].__name__} or {kinds[1].__name__}, not {type(function).__name__}"
            )
        method = "apply" if isinstance(function, self._plain_function) else "process"
        return type_of_output(output_type, function, method, many=True)

    def _result(self, type_info: TypeInformation | None, **functions: Any) -> DataStream:
        trigger = self._trigger
        if trigger is None:
            trigger = self._assigner.get_default_trigger(self.get_execution_environment())
            self._check_merges(trigger)
        spec = WindowSpec(
            assigner=self._assigner,
            trigger=trigger,
            evictor=self._evictor,
            allowed_lateness=self._lateness,
            late_tag=self._late_tag,
            **functions,
        )
        return self._stream._transform(type(self._assigner).__name__, spec, type_info)

    def _check_merges(self, trigger: Trigger) -> None:
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise GraphError(
                f"{type(self._assigner).__name__} merges windows, and {type(trigger).__name__} cannot be used with it: "
                "it does not support merging. Implement can_merge() and on_merge(), or use another trigger"
            )


class WindowedStream(_Windowed):
    """A keyed stream whose records are grouped into windows per key: see :meth:`KeyedStream.window`."""

    _plain_function = WindowFunction
    _process_function = ProcessWindowFunction

    def _numbered(self) -> WithKey:
        return WithKey()

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """Combine the records of a window as they arrive. An optional window function receives the single result.

        >>> from tidemill.common import Time
        >>> from tidemill.datastream import ProcessWindowFunction, TumblingEventTimeWindows
        >>> from tidemill.testing import KeyedHarness
        >>> class WithEnd(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         [total] = elements
        ...         yield key, context.window().end, total
        >>> def totals(keyed):
        ...     return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(max, WithEnd())
        >>> with KeyedHarness(totals, key_selector=lambda n: n % 2) as harness:
        ...     for number in (1, 2, 3):
        ...         harness.process(number, timestamp=number)
        ...     harness.watermark(999)
        ...     sorted(harness.output())
        [(0, 1000, 2), (1, 1000, 3)]
        """
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        accumulator_type: TypeSpec = None,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """Aggregate the records of a window as they arrive. An optional window function receives the single result.

        >>> from tidemill.common import Time, Types
        >>> from tidemill.datastream import AggregateFunction, TumblingEventTimeWindows
        >>> from tidemill.testing import KeyedHarness
        >>> class Mean(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return (0, 0)
        ...     def add(self, value, accumulator):
        ...         return accumulator[0] + value[1], accumulator[1] + 1
        ...     def get_result(self, accumulator):
        ...         return accumulator[0] / accumulator[1]
        ...     def merge(self, acc_a, acc_b):
        ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        >>> def means(keyed):
        ...     return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate(Mean())
        >>> with KeyedHarness(means, key_selector=0) as harness:
        ...     harness.process(("a", 1), timestamp=0)
        ...     harness.process(("a", 2), timestamp=1)
        ...     harness.watermark(999)
        ...     harness.output()
        [1.5]
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(self, window_function: WindowFunction, output_type: TypeSpec = None) -> DataStream:
        """Call a function with all records of a window.

        >>> from tidemill.datastream import EventTimeSessionWindows, WindowFunction
        >>> from tidemill.testing import KeyedHarness
        >>> class Session(WindowFunction):
        ...     def apply(self, key, window, inputs):
        ...         yield key, window.start, [value for _, value in inputs]
        >>> def sessions(keyed):
        ...     return keyed.window(EventTimeSessionWindows.with_gap(10)).apply(Session())
        >>> with KeyedHarness(sessions, key_selector=0) as harness:
        ...     for time in (1, 8, 30):
        ...         harness.process(("a", time), timestamp=time)
        ...     harness.watermark(100)
        ...     harness.output()
        [('a', 1, [1, 8]), ('a', 30, [30])]
        """
        return self._evaluate("apply", window_function, WindowFunction, output_type)

    def process(self, process_window_function: ProcessWindowFunction, output_type: TypeSpec = None) -> DataStream:
        """Call a function with all records of a window and a context for state and time.

        >>> from tidemill.datastream import ProcessWindowFunction, ValueStateDescriptor
        >>> from tidemill.testing import KeyedHarness
        >>> class Numbered(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         count = context.global_state().get_state(ValueStateDescriptor("windows", default_value=0))
        ...         count.update(count.value() + 1)
        ...         yield count.value(), list(elements)
        >>> with KeyedHarness(lambda keyed: keyed.count_window(2).process(Numbered()), key_selector=len) as harness:
        ...     for word in ("to", "be", "or", "so"):
        ...         harness.process(word)
        ...     harness.output()
        [(1, ['to', 'be']), (2, ['or', 'so'])]
        """
        return self._evaluate("process", process_window_function, ProcessWindowFunction, output_type)


class AllWindowedStream(_Windowed):
    """A non-keyed stream whose records are grouped into windows in one subtask: see :meth:`DataStream.window_all`."""

    _plain_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction

    def __init__(self, stream: DataStream, window_assigner: WindowAssigner) -> None:
        super().__init__(stream.key_by(NullByteKeySelector(), Types.LONG()), window_assigner)

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: AllWindowFunction | ProcessAllWindowFunction | None = None,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """Combine the records of a window as they arrive. An optional window function receives the single result."""
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: AllWindowFunction | ProcessAllWindowFunction | None = None,
        accumulator_type: TypeSpec = None,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """Aggregate the records of a window as they arrive. An optional window function receives the single result."""
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(self, window_function: AllWindowFunction, output_type: TypeSpec = None) -> DataStream:
        """Call a function with all records of a window."""
        return self._evaluate("apply", window_function, AllWindowFunction, output_type)

    def process(self, process_window_function: ProcessAllWindowFunction, output_type: TypeSpec = None) -> DataStream:
        """Call a function with all records of a window and a context for state and time."""
        return self._evaluate("process", process_window_function, ProcessAllWindowFunction, output_type)

    def _result(self, type_info: TypeInformation | None, **functions: Any) -> DataStream:
        return super()._result(type_info, **functions).force_non_parallel()
