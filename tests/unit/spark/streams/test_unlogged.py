"""What is sent to the JVM is kept out of logs where it is secret."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.own_logs import logged_here
from tidemill.spark.session.unlogged import unlogged


def test_only_what_this_thread_sends_meanwhile_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "py4j")
    sender = logging.getLogger("py4j.clientserver")
    with ThreadPoolExecutor(1) as elsewhere:
        with unlogged():
            sender.debug("sesame")
            elsewhere.submit(sender.debug, "of another thread").result()
        sender.debug("afterwards")
    assert logged_here(caplog) == ["afterwards"]
    assert "of another thread" in caplog.messages


def test_a_block_inside_of_a_block_does_not_end_the_silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "py4j")
    with unlogged():
        with unlogged():
            pass
        logging.getLogger("py4j.java_gateway").debug("sesame")
    assert logged_here(caplog) == []
