"""Plans are for looking at: a program is the same after it was explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidemill.common import Configuration
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.datastream import ErrorPolicy, StreamExecutionEnvironment
from tidemill.datastream.program.execution import compile_program
from tidemill.datastream.program.specs import SinkSpec

Look = Callable[[StreamExecutionEnvironment], str]
LOOKS = pytest.mark.parametrize(
    "look", [StreamExecutionEnvironment.explain, StreamExecutionEnvironment.get_execution_plan]
)


class Addressed(Sink):
    """A sink that takes its address from the settings, once."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        raise NotImplementedError

    def configured(self, configuration: Configuration) -> Addressed:
        return Addressed(self.address or configuration.get_string("user.address", "nowhere"))


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


def address(env: StreamExecutionEnvironment) -> str | None:
    """Where the sink of the program would write."""
    specs = (node.spec for node in env._program(None).transformations)
    (sink,) = (spec.sink for spec in specs if isinstance(spec, SinkSpec))
    assert isinstance(sink, Addressed)
    return sink.address


def side_outputs(env: StreamExecutionEnvironment) -> dict[str, list[str]]:
    """By the uid of each operator."""
    chains = compile_program(env._program(None)).chains
    return {
        operator.uid: [name for name, _ in operator.side_outputs] for chain in chains for operator in chain.operators
    }


@LOOKS
def test_a_sink_gets_the_settings_of_the_job_not_of_the_plan(env: StreamExecutionEnvironment, look: Look) -> None:
    env.from_sequence(1, 3).sink_to(Addressed())
    env.get_configuration().set_string("user.address", "here")
    look(env)
    env.get_configuration().set_string("user.address", "there")
    assert address(env) == "there"


@LOOKS
def test_dead_letters_are_not_kept_for_a_policy_that_has_gone(
    env: StreamExecutionEnvironment, look: Look, tmp_path: Path
) -> None:
    env.get_configuration().set_string("execution.dead-letter.dir", str(tmp_path))
    numbers = env.from_sequence(1, 3).map(abs).uid("numbers").on_error(ErrorPolicy.dead_letter())
    look(env)
    assert side_outputs(env)["numbers"] == ["tidemill-dead-letters"]
    numbers.on_error(ErrorPolicy.skip())
    assert side_outputs(env)["numbers"] == []
    assert "dead-letter-sink" not in side_outputs(env)


@LOOKS
def test_a_plan_is_the_same_each_time(env: StreamExecutionEnvironment, look: Look, tmp_path: Path) -> None:
    env.get_configuration().set_string("execution.dead-letter.dir", str(tmp_path))
    env.from_sequence(1, 3).map(abs).on_error(ErrorPolicy.dead_letter()).sink_to(Addressed())
    first, second = (look(env) for _ in range(2))
    assert first == second
