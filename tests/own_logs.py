"""What a test logs itself: threads of tests before it, and of a Spark session of its process, may log beside it."""

from __future__ import annotations

import threading

import pytest


def logged_here(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages that this thread has logged in this test."""
    return [record.getMessage() for record in caplog.records if record.thread == threading.get_ident()]
