"""Whether tests that cost minutes run whole: ``make thorough``. Otherwise they run what each alone proves."""

from __future__ import annotations

import os
from typing import Final

import pytest

THOROUGH: Final = bool(os.environ.get("TIDEMILL_THOROUGH"))
WHEN_THOROUGH: Final = pytest.mark.skipif(not THOROUGH, reason="takes a minute; run by make thorough")
