"""One name for two queryable states is refused when the program is compiled, as far as that can be known."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.common import Configuration, Types
from tidemill.datastream import (
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.errors import GraphError
from tidemill.graph.compiler import compile_job


def published(state: str, name: str) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor(state, Types.LONG())
    descriptor.set_queryable(name)
    return descriptor


class Holds(KeyedProcessFunction):
    """Has descriptors before it is opened."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None: ...


class HoldsBoth(KeyedCoProcessFunction):
    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None: ...
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None: ...


class Unkeyed(CoProcessFunction):
    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> None: ...
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> None: ...


class Rules(KeyedBroadcastProcessFunction):
    def __init__(self, descriptor: MapStateDescriptor) -> None:
        self.descriptor = descriptor

    def process_element(self, value: Any, ctx: Any) -> None: ...
    def process_broadcast_element(self, value: Any, ctx: Any) -> None: ...


class Program:
    def __init__(self) -> None:
        self.env = StreamExecutionEnvironment.get_execution_environment(Configuration())
        self.words = self.env.from_collection(["a"], Types.STRING())
        self.keyed = self.words.key_by(lambda word: word, Types.STRING())

    def compile(self) -> None:
        program = self.env._program(None)
        compile_job(program.transformations, program.configuration, "named")


def test_both_operators_are_named_with_their_lines() -> None:
    program = Program()
    program.keyed.process(Holds(state=published("one", "same"))).uid("first").name("First")
    program.keyed.process(Holds(state=published("two", "same"))).uid("second").name("Second")
    with pytest.raises(GraphError) as raised:
        program.compile()
    said = str(raised.value)
    assert said.startswith("two states have the queryable name 'same': 'one' of operator 'First' (")
    assert "'two' of operator 'Second' (" in said
    assert said.count("test_queryable_names.py:") == 2
    assert "uid 'first'" in said
    assert "uid 'second'" in said


@pytest.mark.parametrize(
    "held",
    [
        {"states": [published("deep", "same")]},
        {"states": {"x": (published("deep", "same"),)}},
        {"inner": Holds(state=published("deep", "same"))},
    ],
    ids=["list", "dict", "function"],
)
def test_descriptors_are_found_inside_of_what_a_function_holds(held: dict[str, Any]) -> None:
    program = Program()
    program.keyed.as_queryable_state("same")
    program.keyed.connect(program.keyed).process(HoldsBoth(published("other", "another")))
    program.keyed.process(Holds(**held))
    with pytest.raises(GraphError, match=r"name 'same': .* of operator 'Queryable state: same'.* and 'deep'"):
        program.compile()


def test_two_states_of_one_operator_may_not_share_a_name_either() -> None:
    program = Program()
    program.keyed.process(Holds(one=published("one", "same"), two=published("two", "same")))
    with pytest.raises(GraphError, match="two states have the queryable name 'same'"):
        program.compile()


def test_what_cannot_be_queried_may_have_any_name() -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
    rules.set_queryable("same")
    program = Program()
    descriptor = published("one", "same")
    program.keyed.process(Holds(one=descriptor, again=[descriptor], itself=None))
    program.words.connect(program.words).process(Unkeyed(published("two", "same")))
    program.keyed.connect(program.words.broadcast(rules)).process(Rules(rules))
    program.compile()


def test_a_function_that_refers_to_itself_does_not_matter() -> None:
    function = Holds(state=published("one", "same"))
    function.__dict__["itself"] = [function]
    program = Program()
    program.keyed.process(function)
    program.compile()


def test_descriptors_that_are_made_later_are_not_looked_for() -> None:
    class Opens(Holds):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise AssertionError("nothing is opened to compile a program")

    program = Program()
    program.keyed.process(Opens())
    program.compile()
