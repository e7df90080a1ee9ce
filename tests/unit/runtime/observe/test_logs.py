"""Logs: where in the job a record comes from, in which form it is written, and what is kept out of it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidemill.checkpoint.model import Epoch
from tidemill.common import Configuration, Types
from tidemill.common.time import Time
from tidemill.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidemill.datastream.async_data_stream import AsyncDataStream
from tidemill.datastream.functions.asynchronous import AsyncFunction
from tidemill.errors import ConfigurationError, FailureSite, UserCodeError
from tidemill.runtime.batch.failures import without_payload
from tidemill.runtime.observe.log_place import PLACE, LogPlace, PlaceFilter, at
from tidemill.runtime.observe.logs import JsonFormatter, LogSettings, TextFormatter
from tidemill.state.keys.key_groups import Subtask
from tidemill.testing import JobHarness

mine = logging.getLogger("shop")


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What loggers of the user write as JSON."""

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(json.loads(self.format(record)))

    kept: list[dict[str, Any]] = []
    handler = Kept()
    handler.setFormatter(JsonFormatter())
    mine.addHandler(handler)
    mine.setLevel(logging.INFO)
    yield kept
    mine.removeHandler(handler)


def places(lines: list[dict[str, Any]], message: str) -> set[tuple[Any, ...]]:
    return {(line["uid"], line["subtask"], line["epoch"]) for line in lines if line["message"] == message}


class Chatty(MapFunction):
    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context: Any) -> None:
        mine.info("open %s", self.name)

    def map(self, value: Any) -> Any:
        mine.info("map %s", self.name)
        return value

    def close(self) -> None:
        mine.info("close %s", self.name)


class Timed(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_processing_time_timer(100)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        mine.info("timer")
        yield -1


class Asking(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        mine.info("asked")
        return [value]


def test_each_line_names_the_operator_whose_function_wrote_it(lines: list[dict[str, Any]]) -> None:
    def program(env: StreamExecutionEnvironment, numbers: Any) -> Any:
        before = numbers.map(Chatty("a")).uid("a").map(Chatty("b")).uid("b")
        return before.key_by(lambda n: n).process(Timed()).uid("timed").map(Chatty("c")).uid("c")

    with JobHarness(program, inputs=["numbers"], parallelism=1) as job:
        job.epoch(numbers=[1, 2])
        job.set_processing_time(200)
        job.epoch(numbers=[3])
    for name in ("a", "b"):
        assert places(lines, f"open {name}") == {(name, 0, 1)}
        assert places(lines, f"map {name}") == {(name, 0, 1), (name, 0, 2)}
        assert places(lines, f"close {name}") == {(name, 0, 2)}
    assert places(lines, "timer") == {("timed", 0, 2)}
    assert places(lines, "map c") == {("c", 0, 1), ("c", 0, 2)}, "also where a timer sent what it maps"
    order = [line["message"] for line in lines if line["message"].startswith("open")]
    assert order == ["open b", "open a", "open c"], "of each chain the last first"
    assert {(line["job"], line["logger"], line["level"]) for line in lines} == {("job-harness", "shop", "INFO")}


def test_calls_that_run_asynchronously_keep_their_place(lines: list[dict[str, Any]]) -> None:
    def program(env: StreamExecutionEnvironment, numbers: Any) -> Any:
        asked = AsyncDataStream.ordered_wait(numbers, Asking(), Time.seconds(300), 10, Types.INT())
        return asked.uid("asking")

    with JobHarness(program, inputs=["numbers"], parallelism=1) as job:
        job.epoch(numbers=[1])
    assert places(lines, "asked") == {("asking", 0, 1)}


def test_a_place_is_left_also_when_something_is_raised() -> None:
    def fail() -> None:
        with at(LogPlace("j")):
            assert PLACE.get() == LogPlace("j")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert PLACE.get() is None


# --- the form


def record(message: str, *arguments: Any, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("shop.prices", logging.WARNING, __file__, 1, message, arguments, None)
    vars(made).update(more)
    return made


def test_text_has_the_place_of_a_record() -> None:
    with at(LogPlace("j", Epoch(7), "Count", "count", Subtask(3))):
        text = TextFormatter().format(record("slow: %d ms", 5))
    assert text.endswith("WARNING shop.prices [operator 'Count' (uid count), subtask 3, job j, epoch 7]: slow: 5 ms")
    assert TextFormatter().format(record("x")).endswith("WARNING shop.prices: x")


def test_json_has_fields_of_the_users_own_and_the_exception() -> None:
    try:
        raise KeyError("price")
    except KeyError as error:
        raised = record("no price", order={"id": 7, "card_token": "4711"})
        raised.exc_info = (type(error), error, error.__traceback__)
    line = json.loads(JsonFormatter().format(raised))
    assert line["order"] == {"id": 7, "card_token": "******"}
    assert line["exception"].endswith("KeyError: 'price'")
    assert "job" not in line
    assert "\n" not in JsonFormatter().format(raised)


def test_the_filter_is_for_handlers_of_the_users_own() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(PlaceFilter())
    handler.setFormatter(logging.Formatter("%(job)s/%(uid)s/%(epoch)s %(message)s"))
    with at(LogPlace("j", Epoch(7), "Count", "count", Subtask(3))):
        handler.handle(record("hello"))
    handler.handle(record("bye"))
    assert written.getvalue() == "j/count/7 hello\n/None/None bye\n"


# --- who writes


@contextmanager
def fresh_process() -> Iterator[logging.Logger]:
    """The root logger as a fresh process has it; pytest has handlers of its own there while a test runs."""
    root, talkative = logging.getLogger(), [logging.getLogger(name) for name in ("py4j", "asyncio")]
    handlers, levels = root.handlers[:], [logger.level for logger in (root, *talkative)]
    root.handlers[:] = []
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        for logger, level in zip((root, *talkative), levels, strict=True):
            logger.setLevel(level)


def settings(**options: str) -> LogSettings:
    configuration = Configuration()
    for name, value in options.items():
        configuration.set_string(f"logging.{name}", value)
    return LogSettings.of(configuration)


def test_a_worker_writes_warnings_as_text_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    own = logging.getLogger("unconfigured")
    with fresh_process():
        settings().set_up_worker()
        settings().set_up_worker()
        own.warning("hello")
        own.info("not this")
        assert capsys.readouterr().err.endswith(" WARNING unconfigured: hello\n")
        settings(format="json", level="info").set_up_worker()
        own.info("now")
        assert json.loads(capsys.readouterr().err)["message"] == "now"


def test_a_driver_without_settings_sets_up_nothing() -> None:
    with fresh_process() as root:
        settings().set_up_driver()
        assert root.handlers == []
        settings(level="INFO").set_up_driver()
        assert len(root.handlers) == 1


def test_handlers_of_the_program_stay_as_they_are() -> None:
    with fresh_process() as root:
        own = logging.NullHandler()
        root.addHandler(own)
        settings(format="json").set_up_driver()
        assert root.handlers == [own]


def test_a_form_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'xml' for configuration key 'logging\.format'"):
        settings(format="xml")


def test_a_restart_is_logged_without_the_users_data() -> None:
    error = UserCodeError("ValueError: bad\n\nraised in map, while processing record ('ann', 7), key 'ann'")
    error.site = FailureSite(record="('ann', 7)", key="'ann'")
    told = without_payload(error)
    assert "ann" not in told
    assert told == without_payload(error), "so that the same record is seen to be the same"
    assert "raised in map, while processing record #" in told
    assert without_payload(ValueError("plain")) == "plain"
