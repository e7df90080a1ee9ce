"""What is given to a program is taken as it is then; what cannot be taken is an error that names it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tidemill.common import Configuration, WatermarkStrategy
from tidemill.common.types import Row
from tidemill.connectors.sinks import Committer, Sink, SinkWriter
from tidemill.connectors.sources import RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import (
    KeySelector,
    MapFunction,
    SinkFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from tidemill.datastream.functions.pickling import copied
from tidemill.datastream.program.specs import SinkSpec, SourceSpec
from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import SerializationError


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(Configuration())


def node(stream: Any) -> Transformation:
    found: Transformation = stream._operator("test")
    return found


class Client:
    def __init__(self) -> None:
        self.name = "db"
        self._socket = threading.Lock()


class Enrich(MapFunction):
    def __init__(self) -> None:
        self.client = Client()

    def map(self, value: Any) -> Any:
        return value


class Selects(KeySelector):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def get_key(self, value: Any) -> Any:
        return value


class Writes(SinkFunction):
    def __init__(self) -> None:
        self.connection = threading.Lock()

    def invoke(self, value: Any, context: Any) -> None: ...


class Refuses(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def __reduce__(self) -> Any:
        raise ValueError("not me")


class TestErrors:
    """Raised by the line that gives the function to the stream."""

    def test_an_attribute_deep_inside_is_named(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(SerializationError) as caught:
            env.from_sequence(1, 9).map(Enrich())
        text = str(caught.value)
        assert f"function Enrich of operator 'Map' ({__file__}:" in text
        assert "Enrich.client._socket is a _thread.lock" in text
        assert "open()" in text

    def test_a_captured_variable_is_named(self, env: StreamExecutionEnvironment) -> None:
        handles = {"a": [threading.Lock()]}
        with pytest.raises(SerializationError, match=r"captured variable 'handles'\['a'\]\[0\]"):
            env.from_sequence(1, 9).filter(lambda n: bool(handles))

    def test_key_selectors_and_partitioners_are_named(self, env: StreamExecutionEnvironment) -> None:
        numbers, lock = env.from_sequence(1, 9), threading.Lock()
        with pytest.raises(SerializationError, match=r"key selector Selects of key_by\(\) \(.*test_taken.py:\d+\)"):
            numbers.key_by(Selects())
        with pytest.raises(SerializationError, match=r"partitioner .* of partition_custom\(\).*'lock'"):
            numbers.partition_custom(lambda key, count: int(lock.locked()), abs)

    def test_so_is_a_sink_function(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(SerializationError, match=r"Writes\.connection"):
            env.from_sequence(1, 9).add_sink(Writes())

    def test_an_object_that_refuses_by_itself(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(SerializationError, match=r"Refuses.*not me"):
            env.from_sequence(1, 9).map(Refuses())

    def test_elements_of_a_collection(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(SerializationError, match=r"from_collection\(\).*\[1\]\['lock'\] is a _thread.lock"):
            env.from_collection([{}, {"lock": threading.Lock()}])

    def test_the_program_can_go_on_without_it(self, env: StreamExecutionEnvironment) -> None:
        numbers = env.from_sequence(1, 9)
        with pytest.raises(SerializationError):
            numbers.map(Enrich())
        numbers.map(abs).name("kept")
        assert "Enrich" not in env.explain()
        assert "kept" in env.explain()


class Numbers(SplitSource):
    """A source of the user's own, without a word about pickling."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def create_enumerator(self, position: Any) -> SplitEnumerator:
        raise NotImplementedError

    def read(self, split: Split) -> Iterator[RecordBatch]:
        raise NotImplementedError


class Live(Numbers):
    """One that keeps a part of itself on the driver."""

    def __getstate__(self) -> dict[str, Any]:
        return {"numbers": []}


class Table(Sink):
    def __init__(self, names: list[str]) -> None:
        self.names = names

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        raise NotImplementedError

    def create_committer(self) -> Committer | None:
        return None


class TestDriver:
    def test_it_has_sources_and_sinks_as_they_were(self, env: StreamExecutionEnvironment) -> None:
        source, sink = Numbers([1]), Table(["a"])
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        end = stream.sink_to(sink)
        source.numbers.append(2)
        sink.names.append("b")
        read, written = node(stream).taken.on_driver, end.transformation.taken.on_driver
        assert isinstance(read, SourceSpec)
        assert isinstance(read.source, Numbers)
        assert read.source.numbers == [1]
        assert isinstance(written, SinkSpec)
        assert isinstance(written.sink, Table)
        assert written.sink.names == ["a"]

    def test_what_says_itself_what_is_pickled_stays_there(self, env: StreamExecutionEnvironment) -> None:
        source = Live([1])
        taken = node(env.from_source(source, None, "live")).taken
        assert isinstance(taken.on_driver, SourceSpec)
        assert taken.on_driver.source is source

    def test_so_does_a_source_inside_another(self, env: StreamExecutionEnvironment) -> None:
        class Wraps(Numbers):
            def __init__(self, inner: Live) -> None:
                super().__init__([1])
                self.inner = inner

        source = Wraps(Live([1]))
        taken = node(env.from_source(source, None, "wraps")).taken
        source.numbers.append(2)
        assert isinstance(taken.on_driver, SourceSpec)
        found = taken.on_driver.source
        assert isinstance(found, Wraps)
        assert found.numbers == [1]
        assert found.inner is source.inner

    def test_functions_are_not_kept(self, env: StreamExecutionEnvironment) -> None:
        function = Big()
        gone = weakref.ref(function)
        stream = env.from_sequence(1, 9).map(function)
        del function
        gc.collect()
        assert gone() is None
        assert node(stream).spec.function.map(1) == 1

    def test_a_dead_letter_sink_is_taken_too(self, env: StreamExecutionEnvironment) -> None:
        sink = Table(["a"])
        env.set_dead_letter_sink(sink)
        sink.names.append("b")
        kept = env._dead_letter_sink
        assert isinstance(kept, Table)
        assert kept.names == ["a"]


class Big(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class TestCopies:
    def test_classes_stay_what_they_are(self) -> None:
        """Unpickling a class by value puts copies in place of its methods: a driver's classes must not change."""

        class Local:
            factor = 1

            def __init__(self) -> None:
                self.values = [1]

        before = Local.__init__
        given = Local()
        taken = copied(given, "object", "here")
        given.values.append(2)
        assert type(taken) is Local
        assert taken.values == [1]
        assert Local.__init__ is before

    def test_functions_have_what_they_captured(self) -> None:
        made: Iterator[Callable[[], int]] = ((lambda: number) for number in (7, 8))  # noqa: B023 - what is tested
        taken = [copied(function, "function", "here") for function in made]
        assert [function() for function in taken] == [7, 8]

    def test_elements_of_collections(self, env: StreamExecutionEnvironment) -> None:
        class Local:
            def __init__(self, n: int) -> None:
                self.n = n

        elements: Sequence[Any] = ({"a": 1}, [1, [2]], Row(x=1), Local(4))
        source: Any = node(env.from_collection(elements)).spec.source
        elements[0]["a"] = 2
        elements[1][1].append(3)
        elements[2]["x"] = 5
        elements[3].n = 5
        (split,) = source.create_enumerator(None).next_splits(1, 10)
        first, second, third, fourth = split.payload
        assert (first, second, third["x"], fourth.n) == ({"a": 1}, [1, [2]], 1, 4)
        assert type(fourth) is Local


def test_windows_of_a_broken_trigger_name_it(env: StreamExecutionEnvironment) -> None:
    windows = env.from_sequence(1, 9).key_by(0).window(TumblingEventTimeWindows.of(5))
    trigger = TumblingEventTimeWindows.of(5).get_default_trigger(env)
    trigger.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(SerializationError, match=r"trigger \w+ of trigger\(\).*\.lock"):
        windows.trigger(trigger)
