"""What goes wrong on Spark is reported in the user's words, and leaves what is committed as it was."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from tests.spark.committed import committed_head, committed_state
from tests.spark.jobs import collected, durable, environment
from tidemill.common import Types
from tidemill.connectors.function_sink import FunctionSink
from tidemill.connectors.sinks import Committed, Committer, CommitterContext
from tidemill.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext, SinkFunction
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import (
    CheckpointOwnershipError,
    ConfigurationError,
    CorruptFileError,
    InvalidKeyError,
    TidemillError,
    UserCodeError,
)
from tidemill.spark.jobs.engine import SparkEngine

pytestmark = pytest.mark.usefixtures("spark")

#: Words that only a stack trace of the JVM, or of Spark's own Python code, would bring into a message.
NOISE = ("org.apache.spark", "\tat ", "py4j", "pyspark/worker.py", "SQLSTATE", "java.")


class Add(KeyedProcessFunction):
    """Sums per key; fails on the record that is ``poison``."""

    def __init__(self, poison: int | None = None, times: int = 1) -> None:
        self.poison = poison
        self.times = times

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        if value == self.poison:
            raise ValueError("a record that the program cannot digest")
        yield total * self.times


class Nowhere(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass


def run(checkpoints: Path, function: KeyedProcessFunction, **more: str) -> None:
    env = environment({**durable(checkpoints, "job"), "execution.epoch.max-records": "10", **more})
    sums = env.from_collection(list(range(1, 51))).key_by(lambda n: n % 3).process(function).uid("sum")
    sums.add_sink(Nowhere()).uid("sink")
    env.execute("sums")


def quiet(error: BaseException) -> bool:
    return not any(word in str(error) for word in NOISE)


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("ending", "named"),
    [
        (lambda: next(iter(())), "StopIteration"),
        (lambda: sys.exit(0), "SystemExit: 0"),
        (_interrupt, "KeyboardInterrupt"),
    ],
    ids=["StopIteration", "sys.exit", "KeyboardInterrupt"],
)
def test_whatever_a_function_raises_fails_the_job_at_its_record(ending: Callable[[], Any], named: str) -> None:
    def fail(n: int) -> int:
        if n == 7:
            ending()
        return n

    env = environment()
    env.from_sequence(1, 20).map(fail).add_sink(Nowhere())
    with pytest.raises(UserCodeError) as caught:
        env.execute("fails")
    assert named in str(caught.value)
    assert "record 7" in str(caught.value)
    assert "in fail" in str(caught.value)
    assert quiet(caught.value)


def test_a_failing_function_shows_its_own_traceback_first() -> None:
    def fail(n: int) -> int:
        return 10 // (n - 7)

    env = environment()
    env.from_sequence(1, 20).map(fail).add_sink(Nowhere())
    with pytest.raises(UserCodeError) as caught:
        env.execute("fails")
    lines = str(caught.value).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_errors.py" in lines[1]
    assert "in fail" in lines[1]
    assert "ZeroDivisionError" in str(caught.value)
    assert "Map" in str(caught.value)
    assert "record 7" in str(caught.value)
    assert quiet(caught.value)


def test_a_failure_comes_through_collect_after_what_was_committed() -> None:
    env = environment({"execution.epoch.max-records": "5"})
    results: list[int] = []
    with (
        pytest.raises(UserCodeError, match="cannot digest") as caught,
        env.from_collection(list(range(20))).key_by(lambda n: 0).process(Add(poison=12)).execute_and_collect() as found,
    ):
        results.extend(found)
    assert results == [sum(range(n + 1)) for n in range(10)]
    assert quiet(caught.value)


def test_a_bad_key_names_the_exchange() -> None:
    env = environment()
    with pytest.raises(TidemillError) as caught:
        collected(env.from_sequence(1, 3).key_by(lambda n: [n]).process(Add()))
    assert isinstance(caught.value, InvalidKeyError)
    assert quiet(caught.value)


def test_a_corrected_program_resumes_from_what_was_committed(tmp_path: Path) -> None:
    with pytest.raises(UserCodeError, match="cannot digest"):
        run(tmp_path, Add(poison=35))
    head = committed_head(tmp_path / "job")
    assert head.epoch == 3
    assert sum(committed_state(tmp_path / "job")["sum", "sum"].values()) == sum(range(1, 31))
    run(tmp_path, Add(times=2))
    assert committed_head(tmp_path / "job").finished
    state = committed_state(tmp_path / "job")["sum", "sum"]
    assert state == {key: sum(n for n in range(1, 51) if n % 3 == key) for key in range(3)}


class FailOnce(Add):
    """Fails on its poison the first time any attempt meets it."""

    def __init__(self, poison: int, token: Path) -> None:
        super().__init__(poison)
        self.token = str(token)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if value == self.poison:
            try:
                Path(self.token).touch(exist_ok=False)
            except FileExistsError:
                self.poison = None
        yield from super().process_element(value, ctx)


RESTART = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1",
    "restart-strategy.fixed-delay.delay": "0s",
}


def test_a_restart_resumes_from_the_last_epoch_and_repeats_no_output(tmp_path: Path) -> None:
    env = environment({"execution.epoch.max-records": "10", **RESTART})
    sums = env.from_collection(list(range(1, 51))).key_by(lambda n: n % 3).process(FailOnce(35, tmp_path / "token"))
    expected = [sum(m for m in range(1, n + 1) if m % 3 == n % 3) for n in range(1, 51)]
    assert sorted(collected(sums)) == sorted(expected)


def test_a_restarted_stream_resumes_from_the_last_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(1, 7):
        (tmp_path / "in" / f"{n}.txt").write_text(f"{n}\n")
        os.utime(tmp_path / "in" / f"{n}.txt", (1e9 + n, 1e9 + n))  # Spark takes files by age
    env = environment(RESTART)
    lines = env.read_format("text", str(tmp_path / "in"), options={"maxFilesPerTrigger": "1"}, watch=True)
    numbers = lines.map(lambda row: int(row.value)).key_by(lambda n: 0)
    with numbers.process(FailOnce(4, tmp_path / "token")).execute_and_collect() as results:
        assert sorted(next(results) for _ in range(6)) == sorted(sum(range(1, n + 1)) for n in range(1, 7))
    assert not spark.streams.active


class FailsFirst(MapFunction):
    """Fails the first time it is opened by anybody, and notes when that was."""

    def __init__(self, token: Path) -> None:
        self.token = str(token)

    def open(self, runtime_context: RuntimeContext) -> None:
        with contextlib.suppress(FileExistsError), Path(self.token).open("x", encoding="utf-8") as file:
            file.write(str(time.time()))
            raise OSError("not yet")

    def map(self, value: Any) -> Any:
        return value.value, value.timestamp.timestamp()


def test_a_live_source_whose_first_batch_fails_begins_again_where_it_began(spark: SparkSession, tmp_path: Path) -> None:
    token = tmp_path / "token"
    env = environment({**RESTART, "restart-strategy.fixed-delay.delay": "1s"})
    ticks = env.from_dataframe(spark.readStream.format("rate").option("rowsPerSecond", 10).load())
    with ticks.map(FailsFirst(token)).execute_and_collect() as results:
        began = next(at for number, at in results if number == 0)
    assert began <= float(token.read_text()), "what came before the failure is lost"


class Slips(Committer):
    """A committer that notes what becomes of it, or cannot be opened."""

    def __init__(self, log: list[str], name: str, fails: bool) -> None:
        self.log, self.name, self.fails = log, name, fails

    def open(self, context: CommitterContext) -> None:
        if self.fails:
            raise OSError(f"{self.name} cannot be reached")
        self.log.append(f"{self.name} open")

    def commit(self, committed: Sequence[Committed]) -> None:
        raise AssertionError("nothing was ever written")

    def close(self) -> None:
        self.log.append(f"{self.name} closed")


class Remote(FunctionSink):
    """A sink on the other side of a network."""

    log: ClassVar[list[str]] = []

    def __init__(self, name: str, *, fails: bool = False) -> None:
        super().__init__(Nowhere())
        self.name, self.fails = name, fails

    def create_committer(self) -> Committer:
        return Slips(self.log, self.name, self.fails)


def test_an_attempt_that_fails_before_it_runs_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = []

    class Watched(SparkEngine):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            engines.append(self)

    monkeypatch.setattr("tidemill.spark.executor.SparkEngine", Watched)
    env = environment()
    numbers = env.from_sequence(1, 3)
    numbers.sink_to(Remote("first"))
    numbers.sink_to(Remote("second", fails=True))
    with pytest.raises(UserCodeError, match="second cannot be reached"):
        env.execute("unreachable")
    assert Remote.log == ["first open", "second closed", "first closed"]
    (engine,) = engines
    assert not Path(engine._broadcast._path).exists(), "the program was left in Spark's block store"


def test_a_job_in_a_directory_named_by_a_uri_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    uri = (tmp_path / "a b").as_uri()
    with pytest.raises(UserCodeError):
        run(tmp_path, Add(poison=35), **{"execution.checkpointing.dir": uri})
    run(tmp_path, Add(), **{"execution.checkpointing.dir": uri})
    assert committed_head(tmp_path / "a b" / "job").finished
    assert sum(committed_state(tmp_path / "a b" / "job")["sum", "sum"].values()) == sum(range(1, 51))


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError) as caught:
        run(tmp_path / "file" / "checkpoints", Add())
    assert str(tmp_path / "file") in str(caught.value)
    assert quiet(caught.value)


def test_the_directory_of_another_job(tmp_path: Path) -> None:
    run(tmp_path, Add())
    shutil.copytree(tmp_path / "job", tmp_path / "other")
    env = environment(durable(tmp_path, "other"))
    env.from_collection([1]).key_by(lambda n: n).process(Add()).uid("sum").add_sink(Nowhere())
    with pytest.raises(CheckpointOwnershipError, match="belongs to job 'job'"):
        env.execute("other")


def flip(path: Path, position: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * position)] ^= 0x10
    path.write_bytes(bytes(data))


def last_manifest(job: Path) -> Path:
    return max((job / "manifests").iterdir())


def a_delta(job: Path) -> Path:
    return min((job / "state").rglob("*.tms"))


@pytest.mark.parametrize("choose", [last_manifest, a_delta])
def test_a_flipped_byte_is_found_and_the_file_is_named(tmp_path: Path, choose: Callable[[Path], Path]) -> None:
    with pytest.raises(UserCodeError):
        run(tmp_path, Add(poison=35), **{"state.inline-delta-size": "1b"})
    damaged = choose(tmp_path / "job")
    before = damaged.read_bytes()
    flip(damaged)
    manifests = len(list((tmp_path / "job" / "manifests").iterdir()))
    with pytest.raises(CorruptFileError) as caught:
        run(tmp_path, Add())
    assert damaged.name in str(caught.value)
    assert quiet(caught.value)
    # Nothing was committed on top of what is damaged: with the file back in place, the job continues.
    damaged.write_bytes(before)
    assert len(list((tmp_path / "job" / "manifests").iterdir())) <= manifests + 1
    run(tmp_path, Add())
    assert sum(committed_state(tmp_path / "job")["sum", "sum"].values()) == sum(range(1, 51))
