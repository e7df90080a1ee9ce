"""The interfaces of state under their path in PyFlink 1.12. They are defined in ``tidemill.datastream.state``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.late_names import STATES, late

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return late(__name__, STATES, name)
