"""What a driver with a REST server always tells, and where."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.processes import child_environment
from tidemill.common import Configuration
from tidemill.ops.rest.notices import AUDIT, SERVER, tell_always
from tidemill.ops.rest.server import server_for

audit = logging.getLogger(AUDIT)


@contextmanager
def plain_program() -> Iterator[logging.Logger]:
    """This process without any handlers, as that of a plain program is; its loggers are afterwards as they were."""
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, (AUDIT, SERVER))]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    for logger in loggers:
        logger.handlers.clear()
        logger.setLevel(logging.WARNING if logger is root else logging.NOTSET)
    try:
        yield root
    finally:
        for logger, (level, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.handlers[:] = handlers


def test_in_a_program_without_logs_it_goes_to_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_program():
        audit.info("lost")
        for _ in range(2):  # a server is started again
            tell_always(Configuration())
        audit.info("operate at 127.0.0.1: POST /jobs/token-counter -> 202")
        logging.getLogger("tidemill.other").info("as quiet as ever")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" INFO tidemill.audit: operate at 127.0.0.1: POST /jobs/token-counter -> 202")


def test_it_has_the_form_that_the_configuration_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_program():
        tell_always(Configuration().set_string("logging.format", "json"))
        audit.info("done")
    assert json.loads(capsys.readouterr().err)["message"] == "done"


def test_in_a_program_with_logs_it_goes_there_only(capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record.getMessage())

    with plain_program() as root:
        tell_always(Configuration())
        root.addHandler(logging.NullHandler())
        audit.info("nobody takes it")
        root.addHandler(Keeping(logging.ERROR))
        audit.info("nobody takes this either")
        root.addHandler(Keeping())  # set up after the server was started
        audit.info("taken")
    assert kept == ["taken"]
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "nobody takes it",
        "nobody takes this either",
    ]


def test_a_level_that_the_program_sets_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_program():
        audit.setLevel(logging.CRITICAL)
        tell_always(Configuration())
        audit.info("not wanted")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, r"at http://127\.0\.0\.1:\d+"),
        (
            {"rest.operate-token": "file:{folder}/token"},
            r"at http://\S+; it requires the token in the file {folder}/token",
        ),
        (
            {"rest.read-token": "env:LOOKING"},
            r"at http://\S+; it requires the token in the environment variable LOOKING",
        ),
    ],
    ids=["open", "token in a file", "token in a variable"],
)
def test_a_user_is_shown_where_the_page_is_and_what_it_needs(
    settings: dict[str, str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LOOKING", "canary")
    configuration = Configuration().set_string("rest.port", "0")
    for key, value in settings.items():
        configuration.set_string(key, value.format(folder=tmp_path))
    with plain_program():
        server = server_for(configuration)
        try:
            assert server_for(configuration) is server
        finally:
            server.close()
    (line,) = capsys.readouterr().err.splitlines()
    pattern = (
        f".* INFO {SERVER}: the web page and REST API of this driver are {told.format(folder=re.escape(str(tmp_path)))}"
    )
    assert re.fullmatch(pattern, line)
    assert "canary" not in line


PROGRAM = """
import http.client
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.server import servers

options = {"execution.target": "local", "rest.enabled": "true", "rest.port": "0"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
env.from_collection([1]).filter(lambda n: False).print()
env.execute()
connection = http.client.HTTPConnection("127.0.0.1", servers()[0].port)
for method in ("PATCH", "GET"):  # when the second is answered, the first has been noted
    connection.request(method, "/jobs/none")
    connection.getresponse().read()
"""


def test_a_plain_program_prints_both(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=child_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    page, noted = ended.stderr.splitlines()
    assert "the web page and REST API of this driver are at http://127.0.0.1:" in page
    assert noted.endswith("INFO tidemill.audit: anybody at 127.0.0.1: PATCH /jobs/none -> 404")
