"""The health of a driver: whether it meets the requirements of its jobs."""

from __future__ import annotations

from typing_extensions import TypedDict


class HealthFinding(TypedDict):
    """The result of one check: ``status`` is ok, absent (only some jobs require it) or problem."""

    what: str
    status: str
    detail: str


class Health(TypedDict):
    """The results of all checks: ``status`` is problem if any finding is a problem, otherwise ok."""

    status: str
    timestamp: int
    findings: list[HealthFinding]
