"""Whether tests run whole: ``make thorough``. Otherwise they run what each alone proves, on few examples."""

from __future__ import annotations

import os
from typing import Final

import pytest

THOROUGH: Final = bool(os.environ.get("TIDEMILL_THOROUGH"))
WHEN_THOROUGH: Final = pytest.mark.skipif(not THOROUGH, reason="takes a minute; run by make thorough")


def how_many(quick: int, thorough: int) -> int:
    """The number of seeds, schedules or epochs that a test runs."""
    return thorough if THOROUGH else quick


def examples(thorough: int) -> int:
    """The number of examples of a property: all of them, or the first quarter, but not fewer than ten."""
    return how_many(min(thorough, max(10, thorough // 4)), thorough)
