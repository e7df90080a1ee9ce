"""Joins of two streams by key and window: ``stream1.join(stream2)`` and ``stream1.co_group(stream2)``.

Both are composed of existing operators: each record is paired with the number of its stream, the two streams are merged
by a union, and a window function on the union separates the records again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tidemill.common.time import Length
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.functions.base import Function, RuntimeContext
from tidemill.datastream.functions.basic import KeySelector, MapFunction
from tidemill.datastream.functions.join import CoGroupFunction, FlatJoinFunction, JoinFunction
from tidemill.datastream.functions.pickling import given
from tidemill.datastream.functions.state_descriptors import TypeSpec
from tidemill.datastream.functions.window import WindowFunction
from tidemill.datastream.program.key_selectors import as_key_selector
from tidemill.datastream.program.transformations import KeySelectorFn
from tidemill.datastream.program.type_hints import output_type as type_of_output
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.errors import GraphError
from tidemill.python_versions import Self

if TYPE_CHECKING:
    from tidemill.datastream.window.assigners import WindowAssigner
    from tidemill.datastream.window.evictors import Evictor
    from tidemill.datastream.window.trigger import Trigger

__all__ = ["CoGroupedStreams", "JoinedStreams"]

Key = Callable[[Any], Any] | KeySelector | int | str
#: The number of a stream (1 or 2) and one of its records.
Tagged = tuple[int, Any]


@dataclass(frozen=True)
class _TwoStreams:
    """Two streams and the settings of their join so far."""

    stream1: DataStream
    stream2: DataStream
    key1: KeySelectorFn | None = None
    key2: KeySelectorFn | None = None
    key_type: TypeInformation | None = None
    assigner: WindowAssigner | None = None
    chosen_trigger: Trigger | None = None
    chosen_evictor: Evictor | None = None
    lateness: Length | None = None

    def where(self, key_selector: Key, key_type: TypeInformation | None = None) -> Self:
        """Set the key selector of the first stream."""
        return replace(self, key1=_selector(key_selector, "where"), key_type=key_type)

    def equal_to(self, key_selector: Key, key_type: TypeInformation | None = None) -> Self:
        """Set the key selector of the second stream."""
        selector = _selector(key_selector, "equal_to")
        if self.key1 is None:
            raise GraphError("call where() before equal_to()")
        if None not in (key_type, self.key_type) and key_type != self.key_type:
            raise GraphError(f"the keys of both streams must be of one type, not {self.key_type} and {key_type}")
        return replace(self, key2=selector, key_type=self.key_type if key_type is None else key_type)

    def window(self, assigner: WindowAssigner) -> Self:
        """Set the windows in which records are joined.

        User-defined assigners, triggers and evictors receive pairs of the number of the stream (1 or 2) and the record.
        """
        if self.key1 is None or self.key2 is None:
            raise GraphError("call where() and equal_to() before window()")
        return replace(self, assigner=given(assigner, "window assigner", "window"))

    def trigger(self, trigger: Trigger) -> Self:
        """Set the trigger, which replaces the default trigger of the assigner."""
        return replace(self, chosen_trigger=given(trigger, "trigger", "trigger"))

    def evictor(self, evictor: Evictor) -> Self:
        """Set the evictor, which removes records from a window before or after it is evaluated."""
        return replace(self, chosen_evictor=given(evictor, "evictor", "evictor"))

    def allowed_lateness(self, new_lateness: Length) -> Self:
        """Set how long windows are kept for late records after their end."""
        return replace(self, lateness=new_lateness)

    def _apply(self, function: WindowFunction, output_type: TypeInformation | None) -> DataStream:
        if self.key1 is None or self.key2 is None or self.assigner is None:
            raise GraphError("call where(), equal_to() and window() before apply()")
        types = self.stream1._type, self.stream2._type
        known = types[0] if types[0] == types[1] else None
        pair = Types.TUPLE([Types.INT(), Types.PICKLED_BYTE_ARRAY() if known is None else known])
        first, second = (
            stream._plain().map(_Tag(number), output_type=pair).name(f"Input {number}")
            for number, stream in ((1, self.stream1), (2, self.stream2))
        )
        for tagged in (first, second):  # keeps the records of a key in order
            tagged._operator("apply").follows_input = True
        selector = _TaggedKey(self.key1, self.key2)
        windowed = first.union(second).key_by(selector, self.key_type).window(self.assigner)
        if self.chosen_trigger is not None:
            windowed = windowed.trigger(self.chosen_trigger)
        if self.chosen_evictor is not None:
            windowed = windowed.evictor(self.chosen_evictor)
        if self.lateness is not None:
            windowed = windowed.allowed_lateness(self.lateness)
        return windowed.apply(function, output_type)


class JoinedStreams(_TwoStreams):
    """Joins pairs of records of two streams with equal keys in the same window.

    As in an inner join, a record without a partner in its window has no result. Results have the last timestamp of
    their window.

    >>> from tidemill.common import Configuration, Duration, WatermarkStrategy
    >>> from tidemill.datastream import StreamExecutionEnvironment
    >>> from tidemill.datastream.window import TumblingEventTimeWindows
    >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    >>> env = StreamExecutionEnvironment.get_execution_environment(local)
    >>> class Second:
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value[1]
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    >>> orders = env.from_collection([("ann", 1), ("ann", 7)]).assign_timestamps_and_watermarks(by_time)
    >>> users = env.from_collection([("ann", 4), ("bob", 8)]).assign_timestamps_and_watermarks(by_time)
    >>> joined = orders.join(users).where(0).equal_to(0).window(TumblingEventTimeWindows.of(Duration.of_millis(5)))
    >>> list(joined.apply(lambda order, user: (order, user)).execute_and_collect())
    [(('ann', 1), ('ann', 4))]
    """

    def apply(
        self, func: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any], output_type: TypeSpec = None
    ) -> DataStream:
        """Call a function for each pair. The pairs are ordered by the record of the first stream."""
        flat = isinstance(func, FlatJoinFunction)
        if not flat and not isinstance(func, JoinFunction) and not callable(func):
            raise TypeError(
                f"apply() on a join needs a JoinFunction, a FlatJoinFunction or a callable of two records, "
                f"not {type(func).__name__}"
            )
        found = type_of_output(output_type, func, "join", many=flat)
        return self._apply(_JoinWindow(func) if not flat else _FlatJoinWindow(func), found)


class CoGroupedStreams(_TwoStreams):
    """Groups all records of two streams with equal keys in the same window.

    A window is evaluated if either stream has a record in it. This makes outer joins possible.

    >>> from tidemill.common import Configuration, Duration, WatermarkStrategy
    >>> from tidemill.datastream import CoGroupFunction, StreamExecutionEnvironment
    >>> from tidemill.datastream.window import TumblingEventTimeWindows
    >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    >>> env = StreamExecutionEnvironment.get_execution_environment(local)
    >>> class Second:
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value[1]
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    >>> orders = env.from_collection([("ann", 1), ("ann", 7)]).assign_timestamps_and_watermarks(by_time)
    >>> users = env.from_collection([("ann", 4), ("bob", 8)]).assign_timestamps_and_watermarks(by_time)
    >>> class LeftJoin(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         rights = list(second) or [None]
    ...         yield from ((left, right) for left in first for right in rights)
    >>> both = orders.co_group(users).where(0).equal_to(0).window(TumblingEventTimeWindows.of(Duration.of_millis(5)))
    >>> list(both.apply(LeftJoin()).execute_and_collect())
    [(('ann', 1), ('ann', 4)), (('ann', 7), None)]
    """

    def apply(
        self,
        func: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any] | None],
        output_type: TypeSpec = None,
    ) -> DataStream:
        """Call a function for each key and window, with the records of both streams in order of arrival."""
        if not isinstance(func, CoGroupFunction) and not callable(func):
            raise TypeError(
                f"apply() on co_group() needs a CoGroupFunction or a callable of two lists, not {type(func).__name__}"
            )
        return self._apply(_CoGroupWindow(func), type_of_output(output_type, func, "co_group", many=True))


def _selector(key: Key, method: str) -> KeySelectorFn:
    return given(as_key_selector(key), "key selector", method)


class _Tag(MapFunction):
    """Pairs each record with the number of its stream."""

    def __init__(self, number: int) -> None:
        self._number = number

    def map(self, value: Any) -> Tagged:
        return self._number, value


@dataclass(frozen=True)
class _TaggedKey:
    """Selects the key of a pair with the key selector of its stream."""

    first: Callable[[Any], Any]
    second: Callable[[Any], Any]

    def __call__(self, tagged: Tagged) -> Any:
        return self._of(tagged[0])(tagged[1])

    def bulk(self, values: list[Tagged]) -> list[Any]:
        """The keys of all pairs. Usually all pairs of a batch belong to the same stream."""
        numbers = set(map(itemgetter(0), values))
        if len(numbers) != 1:
            return [self(value) for value in values]
        selector = self._of(numbers.pop())
        records = list(map(itemgetter(1), values))
        bulk: Callable[[list[Any]], list[Any]] | None = getattr(selector, "bulk", None)
        return [selector(record) for record in records] if bulk is None else bulk(records)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the users' selectors."""
        for selector in (self.first, self.second):
            opener = getattr(selector, "open", None)
            if opener is not None:
                opener(runtime_context)

    def close(self) -> None:
        """Close the users' selectors."""
        for selector in (self.first, self.second):
            closer = getattr(selector, "close", None)
            if closer is not None:
                closer()

    def _of(self, number: int) -> Callable[[Any], Any]:
        return self.first if number == 1 else self.second


class _Wrapping(WindowFunction):
    """A window function that wraps a user's function of two sides."""

    method: str

    def __init__(self, function: Any) -> None:
        self.function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self.function, Function):
            self.function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self.function, Function):
            self.function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Tagged]) -> Iterable[Any]:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for number, value in inputs:
            sides[number - 1].append(value)
        call = getattr(self.function, self.method) if isinstance(self.function, Function) else self.function
        return self._evaluate(call, *sides) or ()

    def _evaluate(self, call: Callable[[Any, Any], Any], first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        raise NotImplementedError


class _JoinWindow(_Wrapping):
    method = "join"

    def _evaluate(self, call: Callable[[Any, Any], Any], first: list[Any], second: list[Any]) -> Iterable[Any]:
        return [call(one, two) for one in first for two in second]


class _FlatJoinWindow(_Wrapping):
    method = "join"

    def _evaluate(self, call: Callable[[Any, Any], Any], first: list[Any], second: list[Any]) -> Iterable[Any]:
        for one in first:
            for two in second:
                yield from call(one, two) or ()


class _CoGroupWindow(_Wrapping):
    method = "co_group"

    def _evaluate(self, call: Callable[[Any, Any], Any], first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        found: Iterable[Any] | None = call(first, second)
        return found
