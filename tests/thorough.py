"""Whether tests that cost minutes run whole: ``make thorough``. Otherwise they run what each alone proves."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = bool(os.environ.get("TIDEMILL_THOROUGH"))
