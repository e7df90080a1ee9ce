"""What a user sees of an error: the line of the program, what to do, and none of the engine's stack."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Configuration, ExitCode, Types
from tidemill.common.reports.exit_codes import exit_code_of
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.errors import InvalidKeyError, StateError, TidemillError, TypeMismatchError, UserCodeError
from tidemill.testing import JobHarness

HERE = str(Path(__file__))


def run(build: Callable[[DataStream], DataStream], **options: str) -> TidemillError:
    """The error of a job over the words "1" and "x"."""
    settings = {"execution.target": "local", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    build(env.from_collection(["1", "x"], Types.STRING())).print()
    with pytest.raises(TidemillError) as caught:
        env.execute("errors")
    return caught.value


@pytest.mark.parametrize(
    ("build", "kind", "text"),
    [
        (lambda words: words.map(lambda word: word, Types.LONG()), TypeMismatchError, "expected Long, got str"),
        (lambda words: words.key_by(lambda word: [word]).reduce(max), InvalidKeyError, "unhashable"),
        (lambda words: words.map(int), UserCodeError, "ErrorPolicy.skip()"),
    ],
    ids=["type", "key", "record"],
)
def test_an_error_names_the_line_and_has_no_stack_of_the_engine(
    build: Callable[[DataStream], DataStream], kind: type[TidemillError], text: str
) -> None:
    error = run(build)
    assert type(error) is kind
    assert f"defined at {HERE}:" in str(error)
    assert text in str(error)
    frames = [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames == ["test_errors_of_jobs.py", "stream_execution_environment.py"]
    shown = "".join(traceback.format_exception(error))
    assert "The above exception" not in shown
    assert "During handling" not in shown


class Misused(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("total", Types.LONG())).value()

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value


def test_state_that_is_used_wrongly_ends_the_job_at_once() -> None:
    endless = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1000000"}
    error = run(lambda words: words.key_by(lambda word: word, Types.STRING()).process(Misused()), **endless)
    assert type(error) is StateError
    assert exit_code_of(error) == ExitCode.UNFIT


def test_errors_in_harnesses_have_no_stack_of_the_engine() -> None:
    def build(_env: Any, words: DataStream) -> None:
        words.map(int)

    with JobHarness(build, inputs=["words"]) as job:
        with pytest.raises(UserCodeError) as caught:
            job.epoch(words=["x"])
        frames = {Path(frame.filename).parent.name for frame in traceback.extract_tb(caught.value.__traceback__)}
        assert frames == {"datastream", "testing"}
