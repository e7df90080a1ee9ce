"""Waiting for what must come about, as long as a loaded machine may take."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def eventually(
    ask: Callable[[], Answer], seconds: float = 60.0, *, what: str = "", shown: Callable[[], object] | None = None
) -> Answer:
    """Ask until the answer is true, and return it.

    Fails after ``seconds``, having asked once more when they were over. The failure says what was waited for, ``what``
    or else the question as it is written, and what ``shown`` gives then. What ``ask`` raises ends the waiting.
    """
    began = time.monotonic()
    while True:
        waited = time.monotonic() - began
        if answer := ask():
            return answer
        if waited >= seconds:
            seen = f"; seen: {shown()}" if shown else ""
            raise AssertionError(f"waited {seconds:g} s in vain for {what or written(ask)}{seen}")
        # What comes soon is seen soon; what takes long is not polled so often that it takes longer.
        time.sleep(min(max(0.005, waited / 20), 0.1))


def written(ask: Callable[[], Any]) -> str:
    """The source of a function, on one line."""
    try:
        return " ".join(inspect.getsource(ask).split())
    except (OSError, TypeError):
        return repr(ask)
