"""Whether the driver has what its jobs need."""

from __future__ import annotations

from typing_extensions import TypedDict


class HealthFinding(TypedDict):
    """What was found about one thing: ``status`` is ok, absent (only some jobs need it) or problem."""

    what: str
    status: str
    detail: str


class Health(TypedDict):
    """What was found at a time: ``status`` is problem if any finding is one, else ok."""

    status: str
    timestamp: int
    findings: list[HealthFinding]
